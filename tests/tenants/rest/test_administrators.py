"""Administrators of the platform over REST and by command: listed, set for good and for a time, removed; by nobody else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from django.utils import timezone

from controlplane.cli import main
from messaging.permissions.model import Action
from tenants.actions import create_key, set_member
from tenants.models import AuditRecord, Grant, User
from tests.tenants.commands import sign_in
from tests.tenants.world import World

AT = "/api/v1/administrators"


def test_somebody_administers_the_platform_for_a_day_and_no_longer(world: World, caller: Any) -> None:
    admin, until = caller("admin"), (timezone.now() + timedelta(days=1)).replace(microsecond=0)
    answer = admin("PUT", f"{AT}/tom", {"expires_at": until.isoformat()})
    assert answer.status_code == 200, answer.content
    listed = {row["username"]: row["expires_at"] for row in admin("GET", AT).json()["items"]}
    assert listed.keys() == {"admin", "tom"} and listed["admin"] is None
    assert datetime.fromisoformat(listed["tom"]) == until
    record = AuditRecord.unscoped.filter(action="person.set_administrator", resource="tom").get()
    assert record.after == {"superuser": True, "until": until.astimezone(UTC).isoformat()}
    assert world.actor("tom").may(Action.SUPERUSER)
    assert caller("tom")("GET", AT).status_code == 200
    assert admin("DELETE", f"{AT}/tom").status_code == 204
    assert not world.actor("tom").may(Action.SUPERUSER)
    assert [row["username"] for row in admin("GET", AT).json()["items"]] == ["admin"]


def test_who_administers_for_a_day_gives_nobody_more_than_the_day(world: World, caller: Any) -> None:
    until = (timezone.now() + timedelta(days=1)).replace(microsecond=0)
    assert caller("admin")("PUT", f"{AT}/tom", {"expires_at": until.isoformat()}).status_code == 200
    tom = caller("tom")
    for username in ("olga", "tom"):
        for given in ({}, {"expires_at": None}, {"expires_at": (until + timedelta(seconds=1)).isoformat()}):
            refused = tom("PUT", f"{AT}/{username}", given)
            assert refused.status_code == 403 and "nobody gives for longer" in refused.json()["detail"], refused.content
    assert User.objects.get(username="tom").superuser_until == until and not User.objects.get(username="olga").is_superuser
    assert tom("PUT", f"{AT}/olga", {"expires_at": until.isoformat()}).status_code == 200


def test_lists_go_on_by_name(world: World, caller: Any) -> None:
    admin = caller("admin")
    for username in ("tom", "olga"):
        assert admin("PUT", f"{AT}/{username}", {}).status_code == 200
    first = admin("GET", f"{AT}?limit=2").json()
    assert [row["username"] for row in first["items"]] == ["admin", "olga"] and first["next"] == "olga"
    assert [row["username"] for row in admin("GET", f"{AT}?limit=2&after=olga").json()["items"]] == ["tom"]


def test_an_owner_neither_sees_nor_makes_administrators(world: World, caller: Any) -> None:
    for username in ("olga", "tom"):
        for method, path, body in (("GET", AT, None), ("PUT", f"{AT}/{username}", {}), ("DELETE", f"{AT}/admin", None)):
            assert caller(username)(method, path, body).status_code == 403
    assert AuditRecord.unscoped.filter(action="denied", role="user:olga").exists()
    assert [user.username for user in User.objects.filter(is_superuser=True)] == ["admin"]


@pytest.mark.parametrize(
    ("method", "username", "body", "status", "said"),
    [
        ("PUT", "nobody", {}, 404, "does not exist"),
        ("PUT", "tom", {"expires_at": "2020-01-01T00:00:00Z"}, 400, "is over"),
        ("PUT", "admin", {"expires_at": "2090-01-01T00:00:00Z"}, 409, "only platform administrator"),
        ("DELETE", "admin", None, 409, "only platform administrator"),
        ("PUT", "tom", {"until": "2090-01-01T00:00:00Z"}, 400, "until"),
    ],
)
def test_what_cannot_be_is_refused(
    world: World, caller: Any, method: str, username: str, body: Any, status: int, said: str
) -> None:
    answer = caller("admin")(method, f"{AT}/{username}", body)
    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.content


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def signed_in(world: World, caller: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The administrator has signed in."""
    sign_in(caller("admin"), tmp_path, monkeypatch)
    return world


def test_commands_have_somebody_administer_the_platform_for_a_day(signed_in: World) -> None:
    assert run("administrators", "set", "tom", "--days", "1").exit_code == 0
    ends = User.objects.get(username="tom").superuser_until
    assert ends is not None and abs(ends - timezone.now() - timedelta(days=1)) < timedelta(minutes=5)
    listed = run("administrators", "list").output
    assert "tom" in listed and f"{ends:%Y-%m-%dT%H:%M}" in listed
    assert run("administrators", "remove", "tom").exit_code == 0
    assert "tom" not in run("administrators", "list").output
    assert run("administrators", "remove", "admin").exit_code == 5


def test_commands_grant_on_a_topic_for_a_time(signed_in: World) -> None:
    signed_in.broker.add("persistent://acme/orders/new")
    on_topic = ("orders", "contractor@acme", "--topic", "new")
    granted = run("permissions", "set", *on_topic, "--action", "consume", "--days", "7")
    assert granted.exit_code == 0, granted.output
    grant = Grant.unscoped.get(role="contractor@acme")
    assert grant.topic == "persistent://acme/orders/new" and grant.expires_at is not None
    assert "contractor@acme" in run("permissions", "list", "orders", "--topic", "new").output
    assert "contractor@acme" not in run("permissions", "list", "orders").output
    assert run("permissions", "delete", *on_topic).exit_code == 0
    assert not Grant.ever.exists()


def test_commands_list_what_somebody_made(signed_in: World) -> None:
    set_member(signed_in.actor("olga"), "acme", "tom", "admin")
    create_key(signed_in.actor("tom"), "acme", "app")
    listed = run("people", "made", "tom", "--tenant", "acme")
    assert listed.exit_code == 0 and "key" in listed.output and "app" in listed.output and "made" in listed.output
    assert run("people", "made", "nobody", "--tenant", "acme").exit_code == 0
