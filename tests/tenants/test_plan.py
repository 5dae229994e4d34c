"""`magnetar plan`, `apply` and `export` against the API itself: a file makes a tenant, once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from django.utils import timezone

from controlplane.cli import main
from messaging.client.admin.generated import Resources
from tenants.actions import grant_permission, set_member
from tenants.actions.teams import RoleOfTeam, add_team_member, set_team
from tenants.models import Grant, Membership, TeamMember, User
from tests.tenants.commands import InProcess, sign_in
from tests.tenants.world import World

FILE = """
tenant: acme
namespaces:
  orders:
    policies: {retention_time_min: 60, retention_size_mb: 10}
    grants: {app@acme: [produce, consume]}
    topics:
      new:
        partitions: 2
        policies: {message_ttl_s: 3600}
        properties: {team: payments}
        grants: {app@acme: [consume]}
        subscriptions: {billing: {properties: {owner: olga}}}
      a+b: {}
  stock: {}
keys:
  app:
    expires_at: 2099-01-01T00:00:00Z
    scope: [{actions: [produce], namespace: orders, topics: new}]
    networks: [192.0.2.0/24]
labels: {team: payments}
"""


@pytest.fixture
def olga(world: World, caller: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The owner has signed in."""
    sign_in(caller("olga"), tmp_path, monkeypatch)
    return world


def run(*arguments: str, given: str = FILE) -> Result:
    return CliRunner().invoke(main, list(arguments), input=given)


def test_a_file_is_planned_applied_once_and_exported(olga: World, tmp_path: Path) -> None:
    planned = run("plan", "-")
    assert planned.exit_code == 2, planned.output
    assert "+ topic orders/new" in planned.output and "+ namespace stock" in planned.output
    assert not olga.broker.topics
    refused = run("apply", "-", "--yes")
    assert refused.exit_code == 64 and "--tokens-dir" in refused.output
    applied = run("apply", "-", "--yes", "--tokens-dir", str(tmp_path / "tokens"))
    assert applied.exit_code == 0, applied.output
    token = tmp_path / "tokens" / "app.token"
    assert token.stat().st_mode & 0o777 == 0o600 and token.read_text().count(".") == 2
    assert set(olga.broker.topics) == {
        "persistent://acme/orders/a+b",
        "persistent://acme/orders/new-partition-0",
        "persistent://acme/orders/new-partition-1",
    }
    again = run("plan", "-", "--prune")
    assert (again.exit_code, again.output) == (0, "no changes\n")
    assert run("apply", "-", "--yes").output == "no changes\n"
    exported = yaml.safe_load(run("export").output)
    assert exported["namespaces"]["orders"]["topics"]["new"] == {
        "partitions": 2,
        "policies": {"message_ttl_s": 3600},
        "properties": {"team": "payments"},
        "grants": {"app@acme": ["consume"]},
        "subscriptions": {"billing": {"properties": {"owner": "olga"}}},
    }
    assert exported["keys"]["app"]["scope"] == [{"actions": ["produce"], "namespace": "orders", "topics": "new"}]
    assert exported["labels"] == {"team": "payments"}
    assert run("plan", "-", "--prune", given=yaml.safe_dump(exported)).exit_code == 0


def test_a_changed_file_changes_what_it_says_and_prunes_if_asked(olga: World, tmp_path: Path) -> None:
    assert run("apply", "-", "--yes", "--tokens-dir", str(tmp_path)).exit_code == 0
    changed = (
        FILE.replace("partitions: 2", "partitions: 3").replace("      a+b: {}\n", "").replace("[produce, consume]", "[produce]")
    )
    planned = run("plan", "-", "--prune", given=changed)
    assert planned.exit_code == 2
    assert planned.output.splitlines() == [
        "~ partitions orders/new",
        "    2 -> 3",
        "~ grants orders",
        "    ~ app@acme: ['consume', 'produce'] -> ['produce']",
        "- topic orders/a+b",
        "3 changes",
    ]
    assert run("apply", "-", "--yes", "--prune", given=changed).exit_code == 0
    assert "persistent://acme/orders/a+b" not in olga.broker.topics
    assert olga.broker.partitions("persistent://acme/orders/new") == 3
    assert run("plan", "-", "--prune", given=changed).exit_code == 0


def test_what_was_granted_for_a_time_is_no_part_of_a_file(olga: World, tmp_path: Path) -> None:
    """Applied after its end, or to another tenant, a file would give it for good; and applied before, it takes it from nobody."""
    assert run("apply", "-", "--yes", "--tokens-dir", str(tmp_path)).exit_code == 0
    until = timezone.now() + timedelta(days=7)
    for topic in ("", "persistent://acme/orders/new"):
        grant_permission(olga.actor("olga"), "acme/orders", "contractor@acme", ["consume"], topic, until)
    exported = run("export").output
    assert "contractor" not in exported
    assert run("plan", "-", "--prune", given=exported).exit_code == 0
    fewer = FILE.replace("{app@acme: [consume]}", "{app@acme: [produce]}").replace("[produce, consume]", "[produce]")
    assert run("apply", "-", "--yes", given=fewer).exit_code == 0
    assert Grant.ever.filter(role="contractor@acme", expires_at=until).count() == 2
    named = FILE.replace("[produce, consume]}", "[produce, consume], contractor@acme: [consume]}")
    assert "+ contractor@acme: ['consume']" in run("plan", "-", given=named).output


def test_who_is_a_member_for_a_time_is_no_part_of_a_file(olga: World, tmp_path: Path) -> None:
    """Nor in a team; applied, a file takes them from nobody, and one that names them makes them last."""
    assert run("apply", "-", "--yes", "--tokens-dir", str(tmp_path)).exit_code == 0
    actor, until = olga.actor("olga"), timezone.now() + timedelta(days=7)
    User.objects.create(username="carla")
    set_member(actor, "acme", "carla", "viewer", expires_at=until)
    set_team(actor, "acme", "support", [RoleOfTeam("viewer")])
    for username in ("carla", "tom"):
        add_team_member(actor, "acme", "support", username)
    exported = run("export").output
    assert "carla" not in exported
    assert yaml.safe_load(exported)["teams"]["support"]["members"] == ["tom"]
    assert run("plan", "-", "--prune", given=exported).exit_code == 0
    changed = exported.replace("  tom: metadata", "  tom: viewer")
    assert run("apply", "-", "--yes", "--prune", given=changed).exit_code == 0
    membership = Membership.ever.get(user__username="carla")
    assert (membership.role, membership.expires_at) == ("viewer", until)
    assert TeamMember.unscoped.filter(user__username="carla").count() == 1
    named = changed.replace("  tom: viewer", "  tom: viewer\n  carla: viewer").replace("    - tom", "    - carla\n    - tom")
    assert "+ member carla" in run("plan", "-", given=named).output
    assert run("apply", "-", "--yes", given=named).exit_code == 0
    assert Membership.ever.get(user__username="carla").expires_at is None
    assert run("plan", "-", "--prune", given=named).exit_code == 0


def test_a_key_that_is_another_than_the_file_says_is_not_passed_off_as_it(olga: World, tmp_path: Path) -> None:
    assert run("apply", "-", "--yes", "--tokens-dir", str(tmp_path)).exit_code == 0
    refused = run("plan", "-", given=FILE.replace("2099", "2098"))
    assert refused.exit_code == 64 and "a key does not change" in refused.output


def test_an_apply_that_fails_says_how_far_it_came_and_goes_on_from_there(olga: World, tmp_path: Path) -> None:
    wrong = FILE.replace("{message_ttl_s: 3600}", "{no_such_policy: 1}")
    failed = run("apply", "-", "--yes", "--tokens-dir", str(tmp_path / "tokens"), given=wrong)
    assert failed.exit_code == 7
    assert "~ policies orders/new: " in failed.output and "3 of 11 changes were made" in failed.output
    assert not (tmp_path / "tokens").exists()
    assert run("apply", "-", "--yes", "--tokens-dir", str(tmp_path / "tokens")).exit_code == 0
    assert run("plan", "-").exit_code == 0


def test_nothing_is_asked_on_the_input_that_the_file_is_read_from(olga: World) -> None:
    refused = run("apply", "-", given="tenant: acme\nnamespaces: {stock: {}}")
    assert refused.exit_code == 64 and "--yes" in refused.output


def test_what_is_no_file_is_refused_before_anything_is_changed(olga: World) -> None:
    for given in ("a: [", "tenant: acme\nnamespace: {}", "- a"):
        assert run("apply", "-", "--yes", given=given).exit_code == 64, given
    assert run("plan", "-", given="tenant: other").exit_code == 4  # which olga cannot see


PEOPLE = """
tenant: acme
namespaces:
  orders:
    topics:
      new: {partitions: 0, schema: {type: AVRO, schema: {type: record, name: order, fields: [{name: id, type: string}]}}}
roles:
  keeper: {description: keeps keys, actions: [key_admin, produce]}
members:
  olga: owner
  tom: {role: keeper, namespace: orders, topics: new*}
teams:
  payments: {description: pays, roles: [viewer, {role: developer, namespace: orders}], members: [tom]}
"""


def test_people_roles_teams_and_schemas_are_made_once_and_exported(olga: World) -> None:
    planned = run("plan", "-", given=PEOPLE)
    assert planned.exit_code == 2 and "+ role keeper" in planned.output and "~ member tom" in planned.output, planned.output
    assert not olga.broker.topics
    applied = run("apply", "-", "--yes", given=PEOPLE)
    assert applied.exit_code == 0, applied.output
    again = run("plan", "-", "--prune", given=PEOPLE)
    assert (again.exit_code, again.output) == (0, "no changes\n")
    exported = yaml.safe_load(run("export").output)
    said = yaml.safe_load(PEOPLE)
    assert exported["members"] == said["members"]
    assert set(exported["roles"]["keeper"]["actions"]) >= {"key_admin", "produce"}
    assert sorted(exported["teams"]["payments"]["members"]) == ["tom"]
    assert exported["namespaces"]["orders"]["topics"]["new"]["schema"] == said["namespaces"]["orders"]["topics"]["new"]["schema"]
    assert run("plan", "-", "--prune", given=yaml.safe_dump(exported)).exit_code == 0
    fewer = said | {"teams": {"others": None}, "members": {"olga": "owner"}, "roles": {"second": {"actions": ["produce"]}}}
    assert run("apply", "-", "--yes", "--prune", given=yaml.safe_dump(fewer)).exit_code == 0
    assert run("plan", "-", "--prune", given=yaml.safe_dump(fewer)).output == "no changes\n"
    assert "tom" not in run("export").output


def test_a_file_gives_nobody_more_than_its_author_has_and_leaves_an_owner(
    olga: World, caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("apply", "-", "--yes", given="tenant: acme\nmembers: {olga: viewer}").exit_code != 0  # the last owner
    people = "tenant: acme\nroles: {people: {actions: [tenant_admin]}}\nmembers: {tom: people}"
    assert run("apply", "-", "--yes", given=people).exit_code == 0
    monkeypatch.setattr("messaging.client.admin.Admin", lambda url, token: Resources(InProcess(caller("tom"))))
    for more in (
        "members: {tom: owner}",
        "roles: {mine: {actions: [produce]}}",
        "teams: {mine: {roles: [developer], members: [tom]}}",
        "members: {olga: viewer}",
    ):
        refused = run("apply", "-", "--yes", given=f"tenant: acme\n{more}")
        assert refused.exit_code != 0 and "0 of " in refused.output, more + refused.output
        assert "can do more than you can" in refused.output or "you lack" in refused.output, more + refused.output
