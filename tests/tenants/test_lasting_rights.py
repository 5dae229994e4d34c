"""Nobody gives for longer what they have for a time: an administrator of the platform for a day, an admin for a week."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from messaging.errors import NotAuthorized
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import parse_topic
from tenants import actions
from tenants.access import Actor
from tenants.actions.grants import TopicRoles, grant_on_topics
from tenants.actions.invitations import invite
from tenants.actions.issuers import IssuerTerms, set_issuer
from tenants.actions.keys import KeyUse, create_superuser_key
from tenants.actions.lasting import end_of_right
from tenants.actions.people import create_person, new_password, set_administrator
from tenants.actions.teams import RoleOfTeam, add_team_member, set_team
from tenants.models import Grant, Key, Membership, Tenant, User
from tests.tenants.world import World

ORDERS, TOPIC = "acme/orders", "persistent://acme/orders/new"
ACME_URL = "https://keys.acme.example/"
TERMS = IssuerTerms("https://login.acme.example", "magnetar", f"{ACME_URL}jwks.json", {"app": "fresh"})
# What gives somebody a right in acme, and has no end, or none is given
WITHOUT_END: dict[str, Callable[[Actor], Any]] = {
    "key": lambda actor: actions.create_key(actor, "acme", "app"),
    "key of one use": lambda actor: actions.create_key(actor, "acme", "app", scope=[KeyUse(["consume"])]),
    "another key": lambda actor: actions.rotate_key(actor, "acme", Key.unscoped.get(name="former").id, 0),
    "member": lambda actor: actions.set_member(actor, "acme", "nora", "admin"),
    "owner": lambda actor: actions.set_member(actor, "acme", "nora", "owner"),
    "invitation": lambda actor: invite(actor, "acme", "vera@example.com", "viewer"),
    "grant": lambda actor: actions.grant_permission(actor, ORDERS, "app@acme", ["consume"]),
    "grant on a topic": lambda actor: actions.grant_permission(actor, ORDERS, "app@acme", ["consume"], TOPIC),
    "grants on topics": lambda actor: grant_on_topics(actor, ORDERS, [TopicRoles(parse_topic(TOPIC), "app@acme", ["consume"])]),
    "subscription": lambda actor: actions.restrict_subscription(actor, ORDERS, "billing", ["app@acme"]),
    "role": lambda actor: actions.set_custom_role(actor, "acme", "reader", ["message_read"]),
    "team": lambda actor: set_team(actor, "acme", "support", [RoleOfTeam("admin")]),
    "member of a team": lambda actor: add_team_member(actor, "acme", "readers", "tom"),
    "issuer": lambda actor: set_issuer(actor, "acme", "sso", TERMS),
}
OF_PLATFORM: dict[str, Callable[[Actor], Any]] = {
    "administrator": lambda actor: create_person(actor, "eve", new_password(), superuser=True),
    "superuser key": create_superuser_key,
    "superuser key for an hour": lambda actor: create_superuser_key(actor, at(1 / 24)),  # it makes others, that last
    "tenant with an admin role": lambda actor: actions.create_tenant(actor, "mine", ["app@acme"]),
    "admin role": lambda actor: actions.update_tenant(actor, "acme", ["app@acme"]),
}


def at(days: float) -> datetime:
    return timezone.now() + timedelta(days=days)


@pytest.fixture
def days(world: World, settings: Any) -> World:
    """`vera` administers the platform for a day, `nora` is an admin of acme for two."""
    settings.MAGNETAR = msgspec.structs.replace(settings.MAGNETAR, token_issuers_allowed=(f"acme={ACME_URL}",))
    for username in ("vera", "nora"):
        create_person(world.admin, username, new_password())
    olga = world.actor("olga")
    set_administrator(world.admin, "vera", True, at(1))
    actions.set_member(olga, "acme", "nora", "admin", expires_at=at(2))
    actions.create_key(olga, "acme", "former")
    set_team(olga, "acme", "readers", [RoleOfTeam("viewer")])
    return world


@pytest.mark.parametrize("name", WITHOUT_END)
def test_what_lasts_is_given_only_by_whose_right_to_it_lasts(days: World, name: str) -> None:
    for username in ("vera", "nora"):
        with pytest.raises(NotAuthorized, match=r"nobody gives for longer|more than you can"):
            WITHOUT_END[name](days.actor(username))
    WITHOUT_END[name](days.actor("olga"))


@pytest.mark.parametrize("name", OF_PLATFORM)
def test_an_administrator_for_a_day_makes_nothing_that_administers_after_it(days: World, name: str) -> None:
    with pytest.raises(NotAuthorized, match="nobody gives for longer"):
        OF_PLATFORM[name](days.actor("vera"))
    assert not User.objects.filter(username="eve").exists() and not Tenant.unscoped.filter(name="mine").exists()
    OF_PLATFORM[name](days.admin)


def test_what_ends_with_it_can_be_given(days: World) -> None:
    vera, end = days.actor("vera"), at(0.9)
    actions.create_key(vera, "acme", "app", end)
    actions.grant_permission(vera, ORDERS, "app@acme", ["consume"], expires_at=end)
    actions.set_member(vera, "acme", "vera", "viewer", expires_at=end)
    add_team_member(vera, "acme", "readers", "vera")
    actions.create_tenant(vera, "mine")
    actions.update_tenant(vera, "acme", [])
    assert Key.unscoped.get(name="app").expires_at == Grant.unscoped.get().expires_at == end


def test_a_key_that_gives_rights_is_made_by_nobody_for_a_time(days: World) -> None:
    """Whatever its own end: what it would give need not have one."""
    actions.update_tenant(days.admin, "acme", ["boss@acme"])
    for username, reason in (("vera", "nobody gives for longer"), ("nora", "can do more than you can")):
        with pytest.raises(NotAuthorized, match=reason):
            actions.create_key(days.actor(username), "acme", "boss", at(0.5))
    actions.create_key(days.actor("nora"), "acme", "boss", at(0.5), [KeyUse(["consume"])])


def test_a_right_ends_with_the_last_of_the_ways_to_it(days: World) -> None:
    acme = Resource("acme")
    vera = User.objects.get(username="vera")
    assert end_of_right(days.actor("vera"), Action.KEY_ADMIN, acme) == vera.superuser_until
    assert end_of_right(days.actor("olga"), Action.KEY_ADMIN, acme) is None
    actions.set_member(days.admin, "acme", "vera", "viewer")  # gives no keys
    assert end_of_right(days.actor("vera"), Action.KEY_ADMIN, acme) == vera.superuser_until
    assert end_of_right(days.actor("vera"), Action.MESSAGE_READ, acme) is None
    actions.set_member(days.admin, "acme", "vera", "admin", expires_at=at(3))
    assert end_of_right(days.actor("vera"), Action.KEY_ADMIN, acme) == Membership.unscoped.get(user=vera).expires_at
    actions.create_key(days.actor("vera"), "acme", "app", at(2.9))


def test_who_may_not_grant_creates_no_namespace_with_grants(days: World, caller: Any) -> None:
    """An operator creates namespaces, and gives nothing to a role, neither then nor later; who grants for a time gives none
    without an end."""
    actions.set_member(days.actor("olga"), "acme", "tom", "operator")
    granted = {"auth_policies": {"namespace_auth": {"app@acme": ["consume"]}}}
    for username in ("tom", "vera"):
        refused = caller(username)("PUT", "/admin/v2/namespaces/acme/new", granted)
        assert refused.status_code == 403, refused.content
    assert caller("tom")("PUT", "/admin/v2/namespaces/acme/new", {}).status_code == 204
    assert caller("olga")("PUT", "/admin/v2/namespaces/acme/newer", granted).status_code == 204
