"""Memberships that end by themselves: nobody may anything from that moment on, and those who end give none that lasts longer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from messaging.errors import InvalidValue, NotAuthorized
from messaging.permissions.model import Action, Resource
from tenants import actions
from tenants.actions.invitations import accept_invitation, invite
from tenants.actions.members import end_memberships
from tenants.actions.teams import RoleOfTeam, add_team_member, set_team
from tenants.models import AuditRecord, Membership, TeamMember, User
from tests.tenants.world import World

AT = "/api/v1/tenants/acme/members/tom"
ACME = Resource("acme")


def at(days: float) -> datetime:
    return timezone.now() + timedelta(days=days)


def end_now(username: str) -> None:
    """Its time comes."""
    Membership.ever.filter(user__username=username).update(expires_at=at(-0.001))


def test_a_contractor_reads_for_a_week_and_not_longer(world: World, caller: Any) -> None:
    until = at(7).replace(microsecond=0)
    answer = caller("olga")("PUT", AT, {"role": "viewer", "expires_at": until.isoformat()})
    assert answer.status_code == 200, answer.content
    assert datetime.fromisoformat(answer.json()["expires_at"]) == until
    (record,) = AuditRecord.unscoped.filter(action="member.set", resource="acme/tom", role="user:olga").order_by("-id")[:1]
    assert record.after is not None and record.after["expires_at"] == until.astimezone(UTC).isoformat()
    assert caller("tom")("GET", "/api/v1/tenants/acme").status_code == 200
    end_now("tom")
    assert not world.actor("tom").may(Action.TENANT_SEE, ACME)
    assert caller("tom")("GET", "/api/v1/tenants/acme").status_code == 404
    assert "tom" not in caller("olga")("GET", "/api/v1/tenants/acme/members").content.decode()
    assert "acme" not in caller("tom")("GET", "/api/v1/tenants").content.decode()


def test_what_somebody_has_through_a_team_ends_with_their_membership(world: World) -> None:
    set_team(world.actor("olga"), "acme", "outside", [RoleOfTeam("admin")])
    actions.set_member(world.actor("olga"), "acme", "tom", "viewer", expires_at=at(1))
    add_team_member(world.actor("olga"), "acme", "outside", "tom")
    assert world.actor("tom").may(Action.TENANT_ADMIN, ACME)
    end_now("tom")
    assert not world.actor("tom").may(Action.TENANT_ADMIN, ACME)


def test_who_becomes_a_member_anew_is_in_no_team_of_before(world: World) -> None:
    olga = world.actor("olga")
    set_team(olga, "acme", "outside", [RoleOfTeam("admin")])
    for again in ("set", "invited"):
        actions.set_member(olga, "acme", "tom", "viewer", expires_at=at(1))
        add_team_member(olga, "acme", "outside", "tom")
        end_now("tom")
        if again == "set":
            actions.set_member(olga, "acme", "tom", "viewer")
        else:
            secret = invite(olga, "acme", "tom@example.com", "viewer").secret
            accept_invitation(world.actor("tom"), secret, User.objects.get(username="tom"), ["tom@example.com"])
        assert world.actor("tom").may(Action.MESSAGE_READ, ACME), again
        assert not world.actor("tom").may(Action.TENANT_ADMIN, ACME), again


def test_a_task_removes_those_whose_time_is_over_and_records_it(world: World) -> None:
    actions.set_member(world.actor("olga"), "acme", "tom", "viewer", expires_at=at(1))
    assert end_memberships(world.admin, timezone.now()) == 0
    assert end_memberships(world.admin, at(2)) == 1
    assert not Membership.ever.filter(user__username="tom").exists()
    assert not TeamMember.unscoped.filter(user__username="tom").exists()
    assert AuditRecord.unscoped.filter(action="member.expire", tenant="acme", resource="acme/tom").count() == 1


def test_one_that_has_ended_is_renewed_before_it_is_removed(world: World) -> None:
    actions.set_member(world.actor("olga"), "acme", "tom", "viewer", expires_at=at(1))
    end_now("tom")
    actions.set_member(world.actor("olga"), "acme", "tom", "developer", expires_at=at(3))
    assert world.actor("tom").may(Action.CONSUME, ACME) and Membership.ever.filter(user__username="tom").count() == 1
    assert end_memberships(world.admin, timezone.now()) == 0


def test_nobody_gives_a_membership_that_lasts_longer_than_theirs(world: World) -> None:
    User.objects.create(username="uma", email="uma@example.com")
    actions.set_member(world.actor("olga"), "acme", "tom", "admin", expires_at=at(7))
    tom = world.actor("tom")
    for name in ("uma", "tom"):
        for expires_at in (None, at(8)):
            with pytest.raises(NotAuthorized, match="nobody gives for longer"):
                actions.set_member(tom, "acme", name, "viewer", expires_at=expires_at)
    actions.set_member(tom, "acme", "uma", "viewer", expires_at=at(6))
    with pytest.raises(NotAuthorized, match="nobody gives for longer"):
        invite(tom, "acme", "vera@example.com", "viewer")


def test_an_invitation_says_how_long_its_member_is_one(world: World) -> None:
    uma = User.objects.create(username="uma", email="uma@example.com")
    made = invite(world.actor("olga"), "acme", "uma@example.com", "viewer", member_days=7)
    membership = accept_invitation(world.actor("uma"), made.secret, uma, ["uma@example.com"])
    assert membership.expires_at is not None and abs(membership.expires_at - at(7)) < timedelta(minutes=5)


def test_an_owner_and_the_past_are_no_ends(world: World) -> None:
    for role, expires_at in (("owner", at(1)), ("viewer", at(-1))):
        with pytest.raises(InvalidValue):
            actions.set_member(world.actor("olga"), "acme", "tom", role, expires_at=expires_at)
    with pytest.raises(InvalidValue):
        invite(world.actor("olga"), "acme", "uma@example.com", "owner", member_days=7)


def test_a_tenant_with_a_member_whose_time_is_over_can_be_deleted(world: World) -> None:
    actions.set_member(world.actor("olga"), "acme", "tom", "viewer", expires_at=at(1))
    end_now("tom")
    User.objects.get(username="tom").delete()
    assert not Membership.ever.filter(expires_at__isnull=False).exists()
