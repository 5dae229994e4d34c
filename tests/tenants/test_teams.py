"""Teams: their members have the roles of the team, for as long as they are in it, and nobody gives by a team what they lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from messaging.errors import Conflict, InvalidValue, NotAuthorized, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from tenants import actions
from tenants.access import Actor
from tenants.actions import RoleOfTeam
from tenants.actions import teams as team_actions
from tenants.models import AuditRecord, Membership, Team, TeamMember, TeamRole
from tests.tenants.world import Caller, World

TEAMS = "/api/v1/tenants/acme/teams"
ORDERS = Resource("acme", "acme/orders", "persistent://acme/orders/pay-in")


@pytest.fixture
def olga(world: World) -> Actor:
    return world.actor("olga")


def test_members_have_the_roles_of_their_team(world: World, olga: Actor) -> None:
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("developer", "orders", "pay-*"), RoleOfTeam("billing")])
    assert not world.actor("tom").may(Action.PRODUCE, ORDERS)
    actions.add_team_member(olga, "acme", "payments", "tom")
    tom = world.actor("tom")
    assert tom.may(Action.PRODUCE, ORDERS) and tom.may(Action.BILLING_READ, Resource("acme"))
    assert not tom.may(Action.PRODUCE, ORDERS._replace(topic="persistent://acme/orders/ship"))
    assert not tom.may(Action.PRODUCE, Resource("other", "other/things", "persistent://other/things/pay-in"))
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("billing")])
    assert not world.actor("tom").may(Action.PRODUCE, ORDERS)
    actions.remove_team_member(olga, "acme", "payments", "tom")
    assert not world.actor("tom").may(Action.BILLING_READ, Resource("acme"))


def test_an_explanation_names_the_team(world: World, caller: Callable[[str], Caller], olga: Actor) -> None:
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("developer", "orders")])
    actions.add_team_member(olga, "acme", "payments", "tom")
    asked = "/api/v1/tenants/acme/access?action=produce&namespace=orders&role=user:"
    mine = caller("olga")("GET", f"{asked}tom").json()
    text = "user:tom has the role developer on namespace acme/orders, through team payments"
    assert mine["reasons"] == [{"rule": "role", "text": text}]
    others = caller("olga")("GET", f"{asked}olga").json()["others"]
    assert [(other["role"], other["reasons"][0]["text"]) for other in others] == [("user:tom", text)]


def test_who_leaves_the_tenant_leaves_its_teams(world: World, olga: Actor) -> None:
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("developer")])
    actions.add_team_member(olga, "acme", "payments", "tom")
    actions.remove_member(olga, "acme", "tom")
    assert not TeamMember.unscoped.exists()
    record = AuditRecord.unscoped.filter(action="member.remove").latest("id")
    assert record.before == {"role": "metadata", "namespace": "", "topics": "", "teams": ["payments"]}
    actions.set_member(olga, "acme", "tom", "metadata")
    assert not world.actor("tom").may(Action.PRODUCE, ORDERS)


def test_a_team_gives_nothing_to_somebody_who_is_no_member_of_its_tenant(world: World, olga: Actor) -> None:
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("developer")])
    actions.add_team_member(olga, "acme", "payments", "tom")
    Membership.unscoped.filter(user__username="tom").delete()  # whoever does that
    assert not world.actor("tom").may(Action.PRODUCE, ORDERS)
    assert not world.actor("tom").may(Action.TENANT_SEE, Resource("acme"))
    with pytest.raises(NotFound, match="is not a member"):
        actions.add_team_member(olga, "acme", "payments", "sam")


def test_nobody_gives_or_takes_by_a_team_what_they_do_not_have(world: World, olga: Actor) -> None:
    actions.set_custom_role(olga, "acme", "people", ["tenant_admin"])
    actions.set_member(olga, "acme", "tom", "people")
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("developer", "orders")])
    actions.add_team_member(olga, "acme", "payments", "olga")
    tom = world.actor("tom")
    for attempt in (
        lambda: actions.set_team(tom, "acme", "mine", [RoleOfTeam("developer")]),
        lambda: actions.set_team(tom, "acme", "payments", []),
        lambda: actions.add_team_member(tom, "acme", "payments", "tom"),
        lambda: actions.remove_team_member(tom, "acme", "payments", "olga"),
        lambda: actions.delete_team(tom, "acme", "payments"),
    ):
        with pytest.raises(NotAuthorized, match="can do more than you can"):
            attempt()
    actions.set_member(olga, "acme", "sam", "metadata")
    actions.add_team_member(olga, "acme", "payments", "sam")
    with pytest.raises(NotAuthorized, match="can do more than you can"):
        actions.remove_member(tom, "acme", "sam")
    actions.set_team(tom, "acme", "readers", [RoleOfTeam("people")])
    assert world.actor("sam").may(Action.PRODUCE, ORDERS)


@pytest.mark.parametrize(
    ("roles", "error", "why"),
    [
        ([RoleOfTeam("owner")], InvalidValue, "cannot own"),
        ([RoleOfTeam("pilot")], InvalidValue, "is not a role"),
        ([RoleOfTeam("viewer", "absent")], NotFound, "does not exist"),
        ([RoleOfTeam("viewer", "", "a/b")], InvalidValue, "not a pattern"),
        ([RoleOfTeam("viewer"), RoleOfTeam("viewer")], InvalidValue, "twice"),
        ([RoleOfTeam("viewer", "", f"t{number}") for number in range(21)], InvalidValue, "at most 20"),
    ],
)
def test_teams_that_cannot_be(olga: Actor, roles: list[RoleOfTeam], error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        actions.set_team(olga, "acme", "payments", roles)
    assert not Team.unscoped.exists()


def test_teams_and_their_members_are_bounded(world: World, olga: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team_actions, "TEAMS_MAX", 1)
    monkeypatch.setattr(team_actions, "MEMBERS_MAX", 1)
    actions.set_team(olga, "acme", "payments", [])
    with pytest.raises(PreconditionFailed, match="may have no more"):
        actions.set_team(olga, "acme", "more", [])
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("viewer")])
    actions.add_team_member(olga, "acme", "payments", "tom")
    actions.add_team_member(olga, "acme", "payments", "tom")
    with pytest.raises(PreconditionFailed, match="may have no more"):
        actions.add_team_member(olga, "acme", "payments", "olga")


def test_a_role_that_a_team_has_stays(olga: Actor) -> None:
    actions.set_custom_role(olga, "acme", "keeper", ["key_admin"])
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("keeper")])
    with pytest.raises(Conflict, match="team 'payments' has the role"):
        actions.delete_custom_role(olga, "acme", "keeper")
    actions.delete_team(olga, "acme", "payments")
    actions.delete_custom_role(olga, "acme", "keeper")


def test_a_role_within_a_namespace_ends_with_it(world: World, olga: Actor) -> None:
    actions.create_namespace(olga, "acme/soon-gone")
    actions.set_team(olga, "acme", "payments", [RoleOfTeam("developer", "soon-gone")])
    actions.delete_namespace(olga, "acme/soon-gone")
    assert not TeamRole.unscoped.exists()


# --- the API


def test_teams_over_the_api(world: World, caller: Callable[[str], Caller]) -> None:
    olga, tom = caller("olga"), caller("tom")
    body: dict[str, Any] = {"roles": [{"role": "developer", "namespace": "orders", "topics": ""}], "description": "pays"}
    made = olga("PUT", f"{TEAMS}/payments", body).json()
    assert made.pop("created_at") and made == {"name": "payments", **body, "member_count": 0}
    assert olga("PUT", f"{TEAMS}/payments/members/tom").json() == {"username": "tom"}
    assert tom("GET", TEAMS).json()["items"][0]["member_count"] == 1
    assert tom("GET", f"{TEAMS}/payments").json()["roles"] == body["roles"]
    assert tom("GET", f"{TEAMS}/payments/members").json() == {"items": [{"username": "tom"}], "next": None}
    for method, path in (("PUT", "payments"), ("DELETE", "payments"), ("PUT", "payments/members/tom")):
        assert tom(method, f"{TEAMS}/{path}", {"roles": []} if path == "payments" and method == "PUT" else None).status_code == 403
        assert caller("sam")(method, f"{TEAMS}/{path}").status_code == 404
    assert caller("sam")("GET", f"{TEAMS}/payments").status_code == 404
    for after in ("x", "9" * 40, "-1.5"):
        assert olga("GET", f"{TEAMS}/payments/members?after={after}").status_code in (200, 400)
    assert olga("GET", "/api/v1/tenants/acme/members?after=x").status_code == 400
    assert olga("DELETE", f"{TEAMS}/payments/members/tom").status_code == 204
    assert olga("DELETE", f"{TEAMS}/payments/members/tom").status_code == 404
    assert olga("DELETE", f"{TEAMS}/payments").status_code == 204
    assert olga("GET", f"{TEAMS}/payments").status_code == 404
    said = list(
        AuditRecord.unscoped.filter(action__startswith="team.", role="user:olga").order_by("id").values_list("action", flat=True)
    )
    assert said == ["team.set", "team.add_member", "team.remove_member", "team.delete"]


def test_teams_of_another_tenant_are_not_there(world: World, caller: Callable[[str], Caller]) -> None:
    actions.set_team(world.actor("sam"), "other", "theirs", [RoleOfTeam("viewer")])
    assert caller("olga")("GET", f"{TEAMS}/theirs").status_code == 404
    assert caller("olga")("DELETE", f"{TEAMS}/theirs").status_code == 404
    assert Team.unscoped.count() == 1


def test_rights_through_many_teams_are_read_at_once(world: World, olga: Actor) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as counted:
            world.actor("tom").may(Action.PRODUCE, ORDERS)
        return len(counted)

    def join(name: str) -> None:
        actions.set_team(olga, "acme", name, [RoleOfTeam("viewer", "orders"), RoleOfTeam("billing")])
        actions.add_team_member(olga, "acme", name, "tom")

    join("first")
    before = queries()
    for number in range(5):
        join(f"team-{number}")
    assert queries() == before
