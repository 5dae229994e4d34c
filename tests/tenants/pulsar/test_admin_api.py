"""Pulsar's admin REST: requests shaped as its tools shape them, answers compared to the exact status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.adminrpc.methods import HEALTH
from tenants.models import Namespace
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]


T = "/admin/v2/persistent/acme/orders"


def test_tenants(call: Call, world: World) -> None:
    at = "/admin/v2/tenants/third"
    assert status(call("GET", at)) == 404
    assert status(call("PUT", at, {"adminRoles": ["boss"], "allowedClusters": ["standalone"]})) == 204
    assert status(call("PUT", at, {"adminRoles": [], "allowedClusters": ["standalone"]})) == 409
    assert call("GET", at).json() == {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}
    assert call("GET", "/admin/v2/tenants").json() == ["acme", "other", "public", "third"]
    assert status(call("POST", at, {"adminRoles": [], "allowedClusters": ["standalone"]})) == 204
    assert call("GET", at).json()["adminRoles"] == []
    assert status(call("POST", "/admin/v2/tenants/absent", {"adminRoles": []})) == 404
    assert status(call("DELETE", at)) == 204
    assert status(call("DELETE", at)) == 404
    assert status(call("DELETE", "/admin/v2/tenants/acme")) == 409
    assert status(call("DELETE", "/admin/v2/tenants/acme?force=true")) == 204


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b'{"adminRoles":null,"allowedClusters":null,"unknown":1}'])
def test_a_tenant_needs_its_clusters(call: Call, world: World, body: bytes) -> None:
    assert status(call("PUT", "/admin/v2/tenants/third", body)) == 412
    assert status(call("GET", "/admin/v2/tenants/third")) == 404


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("a%20b", None, 412),
        ("a%252Fb", None, 412),
        ("ok", {"allowedClusters": []}, 412),
        ("ok", {"allowedClusters": ["elsewhere"]}, 412),
        ("ok", {"adminRoles": "boss"}, 400),
        ("ok", b"{", 400),
        ("ok", b"\xff", 400),
    ],
)
def test_tenants_that_cannot_be(call: Call, name: str, body: Any, expected: int) -> None:
    assert status(call("PUT", f"/admin/v2/tenants/{name}", body)) == expected


def test_what_clusters_list_reads(call: Call) -> None:
    assert call("GET", "/admin/v2/clusters").json() == ["standalone"]
    assert call("GET", "/admin/v2/brokers/configuration/runtime").json()["clusterName"] == "standalone"


def test_namespaces(call: Call, world: World) -> None:
    at = "/admin/v2/namespaces/acme/new"
    assert status(call("GET", at)) == 404
    assert status(call("PUT", at, b"")) == 204
    assert status(call("PUT", at, b"null")) == 409
    assert status(call("PUT", "/admin/v2/namespaces/absent/new", b"")) == 404
    assert status(call("PUT", "/admin/v2/namespaces/acme/bad%20name", b"")) == 412
    assert call("GET", "/admin/v2/namespaces/acme").json() == ["acme/new", "acme/orders"]
    assert status(call("GET", "/admin/v2/namespaces/absent")) == 404
    world.broker.add("persistent://acme/new/t")
    assert call("GET", f"{at}/topics").json() == ["persistent://acme/new/t"]
    assert call("GET", f"{at}/topics?mode=NON_PERSISTENT").json() == []
    assert call("GET", f"{at}/bundles").json()["numBundles"] == 4
    assert status(call("PUT", f"{at}/unload")) == 204
    assert status(call("DELETE", at)) == 409
    assert status(call("DELETE", f"{at}?force=true")) == 204
    assert status(call("DELETE", at)) == 404


def test_a_namespace_made_with_policies(call: Call, world: World) -> None:
    whole = {
        "bundles": {"boundaries": [], "numBundles": 4},
        "replication_clusters": ["standalone"],
        "message_ttl_in_seconds": 30,
        "retention_policies": {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20},
        "schema_compatibility_strategy": "UNDEFINED",
    }
    assert status(call("PUT", "/admin/v2/namespaces/acme/new", whole)) == 204
    found = call("GET", "/admin/v2/namespaces/acme/new").json()
    assert found["message_ttl_in_seconds"] == 30
    assert found["retention_policies"] == {"retentionTimeInMinutes": 10, "retentionSizeInMB": 20}
    assert found["replication_clusters"] == ["standalone"]
    assert found["auth_policies"] == {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}}
    assert found["deduplicationEnabled"] is None
    assert world.broker.state[("namespace", "acme/new")]["policies"]["message_ttl_s"] == 30
    assert status(call("PUT", "/admin/v2/namespaces/acme/n2", {"replication_clusters": ["elsewhere"]})) == 403
    assert status(call("PUT", "/admin/v2/namespaces/acme/n2", {"bundles": {"numBundles": 9000}})) == 412
    assert status(call("PUT", "/admin/v2/namespaces/acme/n2", {"message_ttl_in_seconds": -1})) == 412


def test_a_namespace_made_with_what_the_admin_client_of_go_sends(call: Call) -> None:
    whole = {
        "antiAffinityGroup": "",
        "backlog_quota_map": {"destination_storage": {"limitTime": -1, "limitSize": 1000, "policy": "producer_exception"}},
        "offload_threshold": -1,
        "schema_auto_update_compatibility_strategy": "Forward",
        "schema_compatibility_strategy": "",
        "subscription_auth_mode": "",
    }
    assert status(call("PUT", "/admin/v2/namespaces/acme/new", whole)) == 204
    found = call("GET", "/admin/v2/namespaces/acme/new").json()
    assert found["backlog_quota_map"]["destination_storage"]["limitSize"] == 1000
    assert found["schema_compatibility_strategy"] == "FORWARD"
    given = whole | {"schema_compatibility_strategy": "BACKWARD"}
    assert status(call("PUT", "/admin/v2/namespaces/acme/n2", given)) == 204
    assert call("GET", "/admin/v2/namespaces/acme/n2").json()["schema_compatibility_strategy"] == "BACKWARD"


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("schema_auto_update_compatibility_strategy", "Odd", 412),
        ("schema_auto_update_compatibility_strategy", ["Full"], 412),
        ("backlog_quota_map", {"odd": {}}, 404),
        ("backlog_quota_map", {"message_age": {"limitTime": "soon"}}, 412),
        ("backlog_quota_map", 7, 412),
        ("offload_threshold", 5, 412),
    ],
)
def test_a_namespace_is_not_made_with_a_field_that_cannot_be(call: Call, field: str, value: Any, expected: int) -> None:
    assert status(call("PUT", "/admin/v2/namespaces/acme/new", {field: value})) == expected
    assert status(call("GET", "/admin/v2/namespaces/acme/new")) == 404


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("messageTTL", -1, 412),
        ("messageTTL", "ten", 412),
        ("messageTTL", 2**40, 412),
        ("maxProducersPerTopic", -1, 412),
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5}, 400),
        ("retention", [], 412),
        ("persistence", {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 2}, 400),
        ("subscriptionTypesEnabled", ["Odd"], 412),
        ("deduplication", b"{", 400),
    ],
)
def test_policies_that_cannot_be(call: Call, world: World, path: str, value: Any, expected: int) -> None:
    assert status(call("POST", f"/admin/v2/namespaces/acme/orders/{path}", value)) == expected
    assert Namespace.unscoped.get(name="acme/orders").policies == {}


def test_a_policy_set_to_null_is_unset(call: Call, world: World) -> None:
    at = "/admin/v2/namespaces/acme/orders/messageTTL"
    assert status(call("POST", at, 5)) == 204
    assert status(call("POST", at, b"null")) == 204
    found = call("GET", at)
    assert (found.status_code, found.content) == (200, b"")
    assert "Content-Type" not in found.headers


def test_backlog_quotas(call: Call, world: World) -> None:
    """Two kinds, each with its limit and its policy; a kind that is removed leaves the other."""
    at = "/admin/v2/namespaces/acme/orders"
    by_size = {"limitSize": 1000, "limitTime": -1, "policy": "producer_exception"}
    by_age = {"limitSize": -1, "limitTime": 60, "policy": "consumer_backlog_eviction"}
    assert status(call("POST", f"{at}/backlogQuota", by_size)) == 204
    assert status(call("POST", f"{at}/backlogQuota?backlogQuotaType=message_age", by_age)) == 204
    found = call("GET", f"{at}/backlogQuotaMap").json()
    assert {kind: (quota["limitSize"], quota["limitTime"], quota["policy"]) for kind, quota in found.items()} == {
        "destination_storage": (1000, -1, "producer_exception"),
        "message_age": (-1, 60, "consumer_backlog_eviction"),
    }
    assert world.broker.state[("namespace", "acme/orders")]["policies"]["backlog_quota_bytes"] == 1000
    assert status(call("DELETE", f"{at}/backlogQuota?backlogQuotaType=message_age")) == 204
    assert set(call("GET", f"{at}/backlogQuotaMap").json()) == {"destination_storage"}
    assert status(call("POST", f"{at}/backlogQuota?backlogQuotaType=odd", by_size)) == 404
    assert status(call("POST", f"{at}/backlogQuota", {**by_size, "policy": "odd"})) in (400, 412)


def test_properties_of_a_namespace_are_set_one_by_one(call: Call, world: World) -> None:
    at = "/admin/v2/namespaces/acme/orders"
    assert status(call("PUT", f"{at}/property/e/f")) == 204
    assert status(call("PUT", f"{at}/property/g/a-b")) == 204
    assert call("GET", f"{at}/properties").json() == {"e": "f", "g": "a-b"}
    assert call("GET", f"{at}/property/g").content == b"a-b"
    assert call("DELETE", f"{at}/property/e").content == b"f"
    for method in ("GET", "DELETE"):
        answer = call(method, f"{at}/property/e")
        assert (answer.status_code, answer.content) == (200, b"")
    assert world.broker.state[("namespace", "acme/orders")]["policies"]["properties"] == {"g": "a-b"}
    assert status(call("PUT", f"{at}/property/{'k' * 8193}/v")) == 412
    assert call("DELETE", f"{at}/property/g").content == b"a-b"
    assert Namespace.unscoped.get(name="acme/orders").policies == {}
    assert status(call("PUT", "/admin/v2/namespaces/acme/absent/property/e/f")) == 404


def test_permissions(call: Call, world: World) -> None:
    at = "/admin/v2/namespaces/acme/orders/permissions"
    assert status(call("POST", f"{at}/app@acme", ["produce", "consume"])) == 204
    assert call("GET", at).json() == {"app@acme": ["produce", "consume"]}
    assert status(call("POST", f"{at}/app@acme", ["fly"])) == 400
    for method, path, body in (("GET", "", None), ("POST", "/app@acme", ["consume"])):
        assert status(call(method, f"{T}/t/permissions{path}", body)) == 404
    assert status(call("PUT", f"{T}/t")) == 204
    assert status(call("POST", f"{T}/t/permissions/app@acme", ["consume"])) == 204
    assert status(call("POST", f"{T}/t/permissions/other", ["consume"])) == 204
    assert call("GET", f"{T}/t/permissions").json() == {"app@acme": ["consume", "produce"], "other": ["consume"]}
    assert status(call("DELETE", f"{T}/t/permissions/other")) == 204
    assert status(call("DELETE", f"{T}/t/permissions/other")) == 204
    assert status(call("DELETE", f"{at}/app@acme")) == 204
    assert call("GET", at).json() == {}
    assert status(call("POST", f"{at}/subscription/sub", ["app@acme", "more"])) == 204
    assert call("GET", f"{at}/subscription").json() == {"sub": ["app@acme", "more"]}
    assert status(call("DELETE", f"{at}/sub/more")) == 204
    assert status(call("DELETE", f"{at}/subscription/sub/app@acme")) == 204
    assert call("GET", f"{at}/subscription").json() == {}
    state = world.broker.state[("namespace", "acme/orders")]
    assert (state["grants"], state["topic_grants"], state["subscription_roles"]) == (
        {},
        {"persistent://acme/orders/t": {"app@acme": ["consume"]}},
        {},
    )


def test_clusters_and_brokers(call: Call, world: World, caller: Callable[[str], Caller]) -> None:
    assert caller("olga")("GET", "/admin/v2/clusters").json() == ["standalone"]
    assert call("GET", "/admin/v2/clusters/standalone").json()["serviceUrl"] == "http://testserver"
    assert status(call("GET", "/admin/v2/clusters/elsewhere")) == 404
    assert status(call("PUT", "/admin/v2/clusters/elsewhere", {})) == 405
    assert call("GET", "/admin/v2/brokers").json() == call("GET", "/admin/v2/brokers/standalone").json() == ["testserver"]
    assert call("GET", "/admin/v2/brokers/version").content
    assert call("GET", "/admin/v2/brokers/leaderBroker").json()["brokerId"] == "testserver"


def test_health_is_open_and_asked_of_the_broker_at_most_once_a_second(world: World, caller: Callable[[str], Caller]) -> None:
    nobody = caller("")
    for _ in range(5):
        response = nobody("GET", "/admin/v2/brokers/health")
        assert (response.status_code, response.content) == (200, b"ok")
    assert len(world.line.called(HEALTH)) == 1


def test_health_says_that_the_broker_is_away(world: World, caller: Callable[[str], Caller]) -> None:
    world.line.cut()
    assert status(caller("")("GET", "/admin/v2/brokers/health")) == 503


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("namespaces/acme/orders/scanOffloadedLedgers", 501),
        ("persistent/acme/orders/t/trim", 405),
        ("worker/cluster", 409),
        ("schemas/a-b/c/other", 404),
        ("", 404),
    ],
)
def test_what_is_not_offered_says_so(call: Call, path: str, expected: int) -> None:
    response = call("GET", f"/admin/v2/{path}")
    assert status(response) == expected
    assert "not offered" in response.json()["reason"]


def test_a_slash_at_the_end_makes_no_difference(call: Call) -> None:
    assert call("GET", "/admin/v2/namespaces/acme/").json() == ["acme/orders"]
    assert status(call("PUT", f"{T}/t/")) == 204
    assert call("GET", f"{T}/t/stats/").json()["msgInCounter"] == 0


def test_members_that_are_not_asked_for(call: Call, world: World) -> None:
    world.broker.add("persistent://acme/orders/t")
    world.broker.connect_consumer("persistent://acme/orders/t", "s")
    assert len(call("GET", f"{T}/t/stats").json()["subscriptions"]["s"]["consumers"]) == 1
    assert call("GET", f"{T}/t/stats?excludeConsumers=true").json()["subscriptions"]["s"]["consumers"] == []


def test_a_change_that_no_broker_confirmed(call: Call, world: World) -> None:
    world.line.cut()
    response = call("POST", "/admin/v2/namespaces/acme/orders/messageTTL", 5)
    assert status(response) == 503
    assert "was saved" in response.json()["reason"]
