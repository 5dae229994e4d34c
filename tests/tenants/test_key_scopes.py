"""Keys that were made for something, and nothing else; and why somebody may do something."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from messaging.errors import NotAuthorized
from messaging.permissions.roles import CUSTOM_ACTIONS
from messaging.policies.model import ROLE_PREFIX
from tenants import actions, feed
from tenants.access import Actor
from tenants.http import authentication
from tenants.key_uses import record_key_uses
from tenants.models import Key, Namespace, Tenant
from tests.tenants.world import Caller, World

KEYS = "/api/v1/tenants/acme/keys"
TOPICS = "/api/v1/tenants/acme/namespaces/orders/topics"
SCOPE = [{"actions": ["produce"], "namespace": "orders", "topics": "pay-*"}]


@pytest.fixture
def olga(world: World, caller: Callable[[str], Caller]) -> Caller:
    world.broker.add("persistent://acme/orders/pay-in")
    world.broker.add("persistent://acme/orders/ship")
    return caller("olga")


def test_a_key_does_what_it_was_made_for(world: World, olga: Caller) -> None:
    made = olga("POST", KEYS, {"name": "app", "scope": SCOPE}).json()
    assert made["scope"] == SCOPE and made["networks"] == [] and made["replaces"] is None
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["consume"])  # says nothing to this key
    key = Caller(made["token"])
    assert key("GET", f"{TOPICS}/pay-in").status_code == 200
    assert [key("GET", f"{TOPICS}/ship").status_code, key("GET", TOPICS).status_code] == [403, 403]
    assert key("GET", f"{TOPICS}/pay-in/subscriptions").status_code == 403
    assert key("POST", KEYS, {"name": "more"}).status_code == 403
    state = feed.key_state(Key.unscoped.get(id=made["id"]))
    assert state["scope"] == [{"actions": ["produce"], "namespace": "acme/orders", "topics": "pay-*"}]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"scope": []}, 400),
        ({"scope": [{"actions": ["fly"]}]}, 400),
        ({"scope": [{"actions": []}]}, 400),
        ({"scope": [{"actions": ["produce"], "namespace": "absent"}]}, 404),
        ({"networks": ["example.org"]}, 400),
    ],
)
def test_scopes_that_cannot_be(olga: Caller, given: dict[str, Any], status: int) -> None:
    assert olga("POST", KEYS, {"name": "app", **given}).status_code == status


def test_a_key_does_no_more_than_who_makes_it(world: World, caller: Callable[[str], Caller]) -> None:
    actions.set_custom_role(world.actor("olga"), "acme", "keeper", ["key_admin"])
    actions.set_member(world.actor("olga"), "acme", "tom", "keeper")
    assert caller("tom")("POST", KEYS, {"name": "app", "scope": SCOPE}).status_code == 403


def _grant(topic: str, *given: str, namespace: str = "acme/orders", owner: str = "olga") -> Callable[[World], None]:
    return lambda world: actions.grant_permission(world.actor(owner), namespace, "app@acme", given, topic)


def _administers(tenant: str) -> Callable[[World], None]:
    def give(world: World) -> None:
        Tenant.unscoped.filter(name=tenant).update(admin_roles=["app@acme"])

    return give


def _kept_subscription(world: World) -> None:
    _grant("", "consume")(world)
    actions.restrict_subscription(world.actor("olga"), "acme/orders", "s", ["app@acme"])


def _own_prefix(world: World) -> None:
    _grant("", "consume")(world)
    Namespace.unscoped.filter(name="acme/orders").update(policies={"subscription_auth_mode": ROLE_PREFIX})


# What the role of the key has, what does not suffice to make a key of it beside key_admin, and what does; None: an owner alone can
RIGHTS: dict[str, tuple[Callable[[World], None], list[str], list[str] | None]] = {
    "namespace grant": (_grant("", "produce"), ["consume"], ["produce"]),
    "topic grant": (_grant("persistent://acme/orders/t", "consume", "functions"), ["produce"], ["consume"]),
    "subscription": (_kept_subscription, ["consume"], ["consume", "operate"]),
    "prefix": (_own_prefix, ["consume"], ["consume", "operate"]),
    "admin role": (_administers("acme"), list(CUSTOM_ACTIONS), None),
    "another tenant": (_grant("", "produce", namespace="other/things", owner="sam"), ["produce"], ["tenant_admin"]),
    "admin role of another tenant": (_administers("other"), ["produce"], ["tenant_admin"]),
}


@pytest.mark.parametrize("given", RIGHTS)
def test_nobody_makes_a_key_of_a_role_that_can_do_more_than_they_can(world: World, given: str) -> None:
    give, too_little, enough = RIGHTS[given]
    olga = world.actor("olga")
    former = actions.create_key(olga, "acme", "app").key

    def tom(*has: str) -> Actor:
        actions.set_custom_role(olga, "acme", "keeper", ["key_admin", *has])
        actions.set_member(olga, "acme", "tom", "keeper")
        return world.actor("tom")

    actions.create_key(tom(), "acme", "app")  # nobody gave it anything yet
    give(world)
    for has in ([], too_little):
        actor = tom(*has)
        with pytest.raises(NotAuthorized, match="can do more than you can"):
            actions.create_key(actor, "acme", "app")
        with pytest.raises(NotAuthorized, match="can do more than you can"):
            actions.rotate_key(actor, "acme", former.id, 60)
        actions.create_key(actor, "acme", "fresh")
    assert Key.unscoped.filter(role="app@acme").count() == 2
    actor = world.actor("olga") if enough is None else tom(*enough)
    assert actions.create_key(actor, "acme", "app").key.role == "app@acme"
    assert actions.rotate_key(actor, "acme", former.id, 60).key.replaces == former


def test_nobody_rotates_a_key_whose_scope_they_do_not_have(world: World) -> None:
    olga = world.actor("olga")
    scoped = actions.create_key(olga, "acme", "app", scope=[actions.KeyUse(["consume"], "orders")]).key
    actions.set_custom_role(olga, "acme", "keeper", ["key_admin", "produce"])
    actions.set_member(olga, "acme", "tom", "keeper")
    with pytest.raises(NotAuthorized, match="can do more than you can"):
        actions.rotate_key(world.actor("tom"), "acme", scoped.id, 60)
    actions.set_custom_role(olga, "acme", "keeper", ["key_admin", "consume"])
    assert actions.rotate_key(world.actor("tom"), "acme", scoped.id, 60).key.scope == scoped.scope


def test_over_http_such_a_key_is_refused(world: World, olga: Caller, caller: Callable[[str], Caller]) -> None:
    made = olga("POST", KEYS, {"name": "app"}).json()
    _grant("", "produce")(world)
    actions.set_custom_role(world.actor("olga"), "acme", "keeper", ["key_admin"])
    actions.set_member(world.actor("olga"), "acme", "tom", "keeper")
    tom = caller("tom")
    refused = tom("POST", KEYS, {"name": "app"})
    assert refused.status_code == 403 and "produce on acme/orders" in refused.json()["detail"]
    assert tom("POST", f"{KEYS}/{made['id']}/rotate", {}).status_code == 403
    assert tom("DELETE", f"{KEYS}/{made['id']}").status_code < 300  # to end one takes no more than key_admin


def test_a_key_of_some_networks_is_refused_elsewhere(olga: Caller) -> None:
    near = olga("POST", KEYS, {"name": "near", "scope": SCOPE, "networks": ["127.0.0.0/8"]}).json()
    far = olga("POST", KEYS, {"name": "far", "scope": SCOPE, "networks": ["198.51.100.7", "2001:db8::/32"]}).json()
    assert far["networks"] == ["198.51.100.7/32", "2001:db8::/32"]
    assert Caller(near["token"])("GET", "/api/v1/me").status_code == 200
    refused = Caller(far["token"])("GET", "/api/v1/me")
    assert refused.status_code == 401 and "may not be used from 127.0.0.1" in refused.json()["detail"]


def test_a_key_is_replaced_with_an_overlap(world: World, olga: Caller, caller: Callable[[str], Caller]) -> None:
    first = olga("POST", KEYS, {"name": "app", "scope": SCOPE}).json()
    second = olga("POST", f"{KEYS}/{first['id']}/rotate", {"overlap_s": 600}).json()
    assert second["replaces"] == first["id"] and second["scope"] == SCOPE and second["expires_at"] is None
    assert [Caller(made["token"])("GET", "/api/v1/me").status_code for made in (first, second)] == [200, 200]
    assert olga("POST", f"{KEYS}/{first['id']}/rotate", {}).status_code == 409  # once is enough
    Key.unscoped.filter(id=first["id"]).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [Caller(made["token"])("GET", "/api/v1/me").status_code for made in (first, second)] == [401, 200]
    assert caller("tom")("POST", f"{KEYS}/{second['id']}/rotate", {}).status_code == 403
    assert caller("sam")("POST", f"{KEYS}/{second['id']}/rotate", {}).status_code == 404


def test_a_token_that_leaked_is_revoked_by_its_text(olga: Caller, caller: Callable[[str], Caller]) -> None:
    made = olga("POST", KEYS, {"name": "app"}).json()
    path = f"{KEYS}/revoke-token"
    assert caller("tom")("POST", path, {"token": made["token"]}).status_code == 403
    assert caller("sam")("POST", "/api/v1/tenants/other/keys/revoke-token", {"token": made["token"]}).status_code == 404
    assert olga("POST", path, {"token": made["token"][:-4]}).status_code == 400
    assert olga("POST", path, {"token": f" {made['token']}\n"}).json()["revoked_at"]
    assert Caller(made["token"])("GET", "/api/v1/me").status_code == 401


def test_keys_may_not_live_longer_than_the_platform_says(olga: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, key_lifetime_days_max=30))
    for days, status in ((None, 412), (31, 412), (29, 201)):
        expires_at = days and (timezone.now() + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert olga("POST", KEYS, {"name": "app", "expires_at": expires_at}).status_code == status, days


def test_policy_max_key_lifetime_days_bounds_new_keys(world: World, olga: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    lasting = actions.create_key(world.actor("olga"), "acme", "former").key
    actions.set_tenant_policies(world.admin, "acme", {"max_key_lifetime_days": 20})
    for most, set_by in ((30, "max_key_lifetime_days = 20"), (10, "key_lifetime_days_max = 10")):
        settings = msgspec.structs.replace(django_settings.MAGNETAR, key_lifetime_days_max=most)
        monkeypatch.setattr(django_settings, "MAGNETAR", settings)
        assert set_by in olga("POST", KEYS, {"name": "app"}).json()["detail"]
        assert actions.create_key(world.actor("sam"), "other", "app", timezone.now() + timedelta(days=most))
    (shown,) = (
        ceiling
        for ceiling in olga("GET", "/api/v1/tenants/acme/ceilings").json()["ceilings"]
        if ceiling["name"] == "max_key_lifetime_days"
    )
    assert (shown["limit"], shown["level"], shown["used_text"]) == (10, "broker", "unlimited"), "one key has no end"
    new = actions.rotate_key(world.actor("olga"), "acme", lasting.id, 60).key
    assert new.expires_at is not None and new.expires_at <= timezone.now() + timedelta(days=10)


def test_a_call_is_a_use_of_its_key(world: World, olga: Caller) -> None:
    made = olga("POST", KEYS, {"name": "app"}).json()
    authentication.key_uses.take(authentication.key_uses.take().number)
    assert Caller(made["token"])("GET", "/api/v1/me").status_code == 200
    taken = authentication.key_uses.take()
    assert made["id"] in taken.uses
    record_key_uses(taken.uses)
    assert olga("GET", f"{KEYS}/{made['id']}").json()["last_used_at"].endswith(":00Z")
    Caller(made["token"][:-4])("GET", "/api/v1/me")
    assert made["id"] not in authentication.key_uses.take(taken.number).uses


def test_why_and_who_else(world: World, olga: Caller, caller: Callable[[str], Caller]) -> None:
    actions.set_member(world.actor("olga"), "acme", "tom", "developer", "orders")
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce"])
    made = olga("POST", KEYS, {"name": "pay", "scope": SCOPE}).json()
    path = "/api/v1/tenants/acme/access?action=produce&namespace=orders&topic=pay-in"
    answer = olga("GET", f"{path}&role=user:tom").json()
    assert answer["allowed"] and answer["refusal"] == ""
    assert answer["reasons"] == [{"rule": "role", "text": "user:tom has the role developer on namespace acme/orders, itself"}]
    assert {(other["role"], other["key_id"], other["reasons"][0]["rule"]) for other in answer["others"]} == {
        ("user:olga", "", "role"),
        ("app@acme", "", "namespace_grant"),
        ("pay@acme", made["id"], "key_scope"),
    }
    refused = olga("GET", f"/api/v1/tenants/acme/access?action=consume&namespace=orders&topic=ship&key_id={made['id']}").json()
    assert not refused["allowed"] and "lacks 'consume'" in refused["refusal"]
    for query, status in (
        ("action=fly&role=user:tom", 400),
        ("action=produce", 400),
        ("action=produce&key_id=absent", 404),
        ("action=produce&role=a&namespace=absent", 404),
    ):
        assert olga("GET", f"/api/v1/tenants/acme/access?{query}").status_code == status, query
    assert caller("sam")("GET", f"{path}&role=user:tom").status_code == 404
    assert caller("tom")("GET", f"{path}&role=user:tom").status_code == 403  # his role is one of a namespace
