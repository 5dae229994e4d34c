"""Policies of tenants: only superusers set them, namespaces inherit them, brokers are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.errors import NotAuthorized, NotFound, PreconditionFailed
from messaging.policies.model import Level
from messaging.policies.registry import ENFORCED
from tenants import actions
from tenants.models import AuditRecord, Tenant
from tests.tenants.world import Caller, World

AT = "/api/v1/tenants/acme/policies"
NAMESPACE = "/api/v1/tenants/acme/namespaces/orders"


@pytest.fixture
def root(world: World) -> Caller:
    return Caller(world.superuser_token)


def in_force(call: Caller, at: str) -> dict[str, dict[str, Any]]:
    answer = call("GET", f"{at}/in-force")
    assert answer.status_code == 200, answer.content
    return {one["name"]: one for one in answer.json()["policies"]}


def test_policies_of_a_tenant(root: Caller, world: World) -> None:
    assert root("GET", AT).json() == {}
    assert root("PATCH", AT, {"message_ttl_s": 60, "max_producers_per_tenant": 5}).json() == {
        "message_ttl_s": 60,
        "max_producers_per_tenant": 5,
    }
    assert world.broker.state["tenant", "acme"]["policies"] == {"message_ttl_s": 60, "max_producers_per_tenant": 5}
    assert root("PUT", AT, {"message_ttl_s": 90}).json() == {"message_ttl_s": 90}
    record = AuditRecord.unscoped.filter(action="tenant.set_policies", tenant="acme").latest("id")
    assert record.after == {"policies": {"message_ttl_s": 90}}
    assert root("PATCH", AT, {"message_ttl_s": None}).json() == {}
    assert Tenant.unscoped.get(name="acme").policies == {}


@pytest.mark.parametrize("who", ["olga", "tom"])
def test_only_superusers_set_them(caller: Callable[[str], Caller], world: World, who: str) -> None:
    """What limits a tenant is not for its administrators."""
    call = caller(who)
    for method, path in (("PUT", AT), ("PATCH", AT), ("POST", f"{AT}/preview")):
        assert call(method, path, {"max_producers_per_tenant": 5}).status_code == 403
    with pytest.raises(NotAuthorized):
        actions.set_tenant_policies(world.actor("olga"), "acme", {"max_producers_per_tenant": 0})
    assert Tenant.unscoped.get(name="acme").policies == {}


def test_its_administrators_see_them(root: Caller, caller: Callable[[str], Caller], world: World) -> None:
    root("PATCH", AT, {"tenant_publish_rate_messages": 100})
    olga = caller("olga")
    assert olga("GET", AT).json() == {"tenant_publish_rate_messages": 100}
    found = in_force(olga, AT)
    assert found.keys() == {name for name, policy in ENFORCED.items() if Level.TENANT in policy.levels}
    rate = found["tenant_publish_rate_messages"]
    assert (rate["value"], rate["level"], rate["text"], rate["pulsar"]) == (100, "tenant", "100 messages/s", "")


def test_namespaces_and_topics_inherit_them(root: Caller, caller: Callable[[str], Caller], world: World) -> None:
    root("PATCH", AT, {"message_ttl_s": 3_600, "max_topics_per_tenant": 7})
    olga = caller("olga")
    at = f"{NAMESPACE}/policies"
    found = in_force(olga, at)
    assert [found["message_ttl_s"][key] for key in ("value", "level", "set")] == [3_600, "tenant", {"tenant": 3_600}]
    assert (found["max_topics_per_tenant"]["value"], found["max_topics_per_tenant"]["level"]) == (7, "tenant")
    assert olga("GET", at).json() == {}
    olga("PATCH", at, {"message_ttl_s": 60})
    found = in_force(olga, at)
    assert (found["message_ttl_s"]["level"], found["message_ttl_s"]["set"]) == ("namespace", {"namespace": 60, "tenant": 3_600})
    world.broker.add("persistent://acme/orders/t")
    found = in_force(olga, f"{NAMESPACE}/topics/t/policies")
    assert (found["message_ttl_s"]["value"], found["max_topics_per_tenant"]["value"]) == (60, 7)


def test_pulsars_api_tells_what_is_in_force_for_a_topic(root: Caller, world: World) -> None:
    root("PATCH", AT, {"message_ttl_s": 3_600})
    world.broker.add("persistent://acme/orders/t")
    at = "/admin/v2/persistent/acme/orders/t/messageTTL"
    assert root("GET", f"{at}?applied=true").json() == 3_600
    assert root("GET", at).content == b""
    assert root("GET", "/admin/v2/tenants/acme").json().keys() == {"adminRoles", "allowedClusters"}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"properties": {"a": "b"}}, PreconditionFailed),
        ({"subscription_auth_mode": "Prefix"}, PreconditionFailed),
        ({"max_message_size_bytes": 5}, PreconditionFailed),
        ({"replicator_dispatch_rate_messages": 5}, PreconditionFailed),
    ],
)
def test_what_tenants_cannot_have(world: World, changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=f"{next(iter(changes))}.* cannot be set"):
        actions.set_tenant_policies(world.actor("admin"), "acme", changes)


def test_limits_of_tenants_cannot_be_set_on_a_namespace(caller: Callable[[str], Caller], world: World) -> None:
    answer = caller("olga")("PATCH", f"{NAMESPACE}/policies", {"max_producers_per_tenant": 5})
    assert (answer.status_code, "set it on a tenant" in answer.json()["detail"]) == (412, True)


def test_a_tenant_that_does_not_exist(root: Caller, world: World) -> None:
    for method, path in (("GET", ""), ("PATCH", ""), ("GET", "/in-force"), ("POST", "/preview")):
        assert root(method, f"/api/v1/tenants/absent/policies{path}", {} if method != "GET" else None).status_code == 404
    with pytest.raises(NotFound):
        actions.set_tenant_policies(world.actor("admin"), "absent", {})


def test_a_preview_changes_nothing(root: Caller, world: World) -> None:
    for _ in range(3):
        world.broker.connect_producer("persistent://acme/orders/t")
    found = root("POST", f"{AT}/preview", {"max_producers_per_tenant": 1, "max_producers_per_topic": 2}).json()
    assert [(one["policy"], one["affected"]) for one in found["effects"]] == [
        ("max_producers_per_tenant", 2),
        ("max_producers_per_topic", 1),
    ]
    assert Tenant.unscoped.get(name="acme").policies == {}


def test_a_later_tenant_of_the_name_begins_with_nothing(world: World) -> None:
    admin = world.actor("admin")
    actions.create_tenant(admin, "short")
    actions.set_tenant_policies(admin, "short", {"max_topics_per_tenant": 1})
    actions.delete_tenant(admin, "short")
    assert actions.create_tenant(admin, "short").policies == {}
    assert world.broker.state["tenant", "short"]["policies"] == {}
