"""A namespace in which names of subscriptions begin with the role: what a role may do over the admin APIs to those of another, with
a key of the tenant, of a second tenant, and without any right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.permissions.model import Action
from tenants import actions
from tenants.models import AuditRecord
from tests.support.rest_routes import addresses
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]
TOPIC = "persistent://acme/orders/t"
T = "/admin/v2/persistent/acme/orders/t"
S = "/api/v1/tenants/acme/namespaces/orders/topics/t/subscriptions/{}"
APP, GUEST = "app@acme", "app@other"
POSITION = {"ledgerId": -1, "entryId": -1}
# What changes or shows one subscription; "{}" is its name.
REQUESTS: list[tuple[str, str, Any]] = [
    ("PUT", T + "/subscription/{}", None),
    ("DELETE", T + "/subscription/{}", None),
    ("DELETE", T + "/subscription/{}?force=true", None),
    ("POST", T + "/subscription/{}/skip/1", None),
    ("POST", T + "/subscription/{}/skip_all", None),
    ("POST", T + "/subscription/{}/resetcursor/0", None),
    ("POST", T + "/subscription/{}/resetcursor", POSITION),
    ("POST", T + "/subscription/{}/expireMessages/1", None),
    ("POST", T + "/subscription/{}/expireMessages", POSITION),
    ("GET", T + "/subscription/{}/position/1", None),
    ("POST", T + "/subscription/{}/analyzeBacklog", None),
    ("GET", T + "/subscription/{}/properties", None),
    ("PUT", T + "/subscription/{}/properties", {"a": "b"}),
    ("GET", T + "/subscription/{}/replicatedSubscriptionStatus", None),
    ("POST", "/admin/v2/namespaces/acme/orders/clearBacklog/{}", None),
    ("POST", "/admin/v2/namespaces/acme/orders/unsubscribe/{}", None),
    ("POST", "/admin/v2/namespaces/acme/orders/0xc0000000_0xffffffff/clearBacklog/{}", None),
    ("POST", "/admin/v2/namespaces/acme/orders/0xc0000000_0xffffffff/unsubscribe/{}", None),
    ("GET", "/api/v1/tenants/acme/namespaces/orders/topics/t/subscriptions/{}/dead-letter-policy", None),
    ("PUT", "/api/v1/tenants/acme/namespaces/orders/topics/t/subscriptions/{}/dead-letter-policy", {"max_redeliver_count": 1}),
    ("DELETE", "/api/v1/tenants/acme/namespaces/orders/topics/t/subscriptions/{}/dead-letter-policy", None),
    ("GET", S, None),
    ("DELETE", S, None),
    ("GET", S + "/backlog", None),
    ("GET", S + "/messages", None),
    ("GET", S + "/properties", None),
    ("GET", S + "/moves", None),
    ("POST", S + "/moves/1/undo", None),
    ("PUT", S + "/properties", {"properties": {"a": "b"}}),
    ("POST", S + "/clear", None),
    ("POST", S + "/skip", {"entries": 1}),
    ("POST", S + "/reset", {"position": "earliest"}),
    ("POST", S + "/expire", {"older_than_s": 1}),
]
OF_SUBSCRIPTIONS = (Action.CONSUME, Action.MESSAGE_READ, Action.CURSOR_ADMIN)
MOVES = ("subscriptions.", "dead_letters.", "maintenance.")


@pytest.fixture
def prefixed(world: World, call: Call) -> World:
    world.broker.add(TOPIC, "app@acme-own", "app@other-own")
    for role in (APP, GUEST):
        actions.grant_permission(world.actor("olga"), "acme/orders", role, ["consume"])
    assert status(call("POST", "/admin/v2/namespaces/acme/orders/subscriptionAuthMode", "Prefix")) == 204
    world.line.calls.clear()
    return world


def touched(world: World) -> list[str]:
    """Calls of the broker that are about a subscription."""
    return [method for method, _ in world.line.calls if method.startswith(MOVES)]


@pytest.mark.parametrize(("role", "tenant", "foreign"), [(APP, "acme", "app@other-own"), (GUEST, "other", "app@acme-own")])
def test_a_subscription_of_another_role_is_closed(prefixed: World, role: str, tenant: str, foreign: str) -> None:
    caller = Caller(prefixed.token(role, tenant=tenant))
    for name in (foreign, "plain", role[:-1], f"x{role}", role.upper(), f"%20{role}", f"{role[:3]}%00{role}"):
        for method, path, body in REQUESTS:
            answer = caller(method, path.format(name), body)
            assert answer.status_code in (400, 403, 404, 412), (method, path, name, answer.content)
            if name == foreign and path.startswith("/admin"):
                assert answer.status_code == 403, (method, path)
                assert "must begin with the role that uses it" in answer.json()["reason"], answer.content
    assert touched(prefixed) == []
    assert AuditRecord.unscoped.filter(action="denied", tenant="acme", role=role).exists()


def test_what_moves_all_subscriptions_moves_none(prefixed: World) -> None:
    """Each of them is asked for before the first is moved."""
    caller = Caller(prefixed.token(APP))
    for path in (f"{T}/all_subscription/expireMessages/1", "/admin/v2/namespaces/acme/orders/clearBacklog"):
        assert status(caller("POST", path)) == 403
    assert set(touched(prefixed)) <= {"subscriptions.list"}


def test_ones_own_is_open(prefixed: World) -> None:
    for role, tenant in ((APP, "acme"), (GUEST, "other")):
        caller = Caller(prefixed.token(role, tenant=tenant))
        assert status(caller("POST", f"{T}/subscription/{role}-own/skip_all")) == 204
        assert caller("GET", f"{T}/subscription/{role}-own/properties").json() == {}


def test_without_a_right_nothing_is_said_of_the_mode(prefixed: World) -> None:
    stranger = Caller(prefixed.token("nobody@other", tenant="other"))
    for method, path, body in REQUESTS:
        answer = stranger(method, path.format("nobody@other-x"), body)
        assert answer.status_code in (403, 404) and b"must begin" not in answer.content, (method, path)
    assert touched(prefixed) == []


def test_every_route_to_a_subscription_was_tried() -> None:
    """A new one belongs into the list above."""
    tried = {(method, _plain(path.format("s"))) for method, path, _ in REQUESTS}
    consuming = {(method, _plain(path)) for method, path, action in addresses() if action in OF_SUBSCRIPTIONS}
    of_one = {row for row in consuming if {"subscription", "subscriptions", "clearBacklog", "unsubscribe"} & set(row[1][:-1])}
    assert sorted(of_one - tried) == []
    assert len(of_one) > 15


def _plain(path: str) -> tuple[str, ...]:
    """Its parts, without the values of numbers."""
    return tuple("N" if part.isdecimal() else part for part in path.partition("?")[0].split("/"))


def test_policies_of_a_tenant_are_closed_to_every_key(world: World, caller: Callable[[str], Caller]) -> None:
    """Those of the tenant itself read at most; those of another see nothing, whether it exists or not."""
    at = "/api/v1/tenants/acme/policies"
    of_admin = Caller(world.token("admin@acme"))
    own, other = Caller(world.token(APP)), Caller(world.token(GUEST, tenant="other"))
    actions.update_tenant(world.actor("admin"), "acme", ["admin@acme"], None)
    for method, path in (("PUT", at), ("PATCH", at), ("POST", f"{at}/preview")):
        body = {"max_producers_per_tenant": 1}
        assert of_admin(method, path, body).status_code == 403, "administrators of a tenant do not raise its limits"
        for one in (own, other, Caller()):
            assert one(method, path, body).status_code in (401, 403, 404)
        assert other(method, path.replace("acme", "absent"), body).status_code == other(method, path, body).status_code
    for path in (at, f"{at}/in-force"):
        assert of_admin("GET", path).status_code == 200
        assert [one("GET", path).status_code for one in (own, other)] == [404, 404]
    assert world.broker.state["tenant", "acme"].get("policies", {}) == {}
