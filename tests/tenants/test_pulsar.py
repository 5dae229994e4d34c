"""Pulsar's admin REST: requests shaped as its tools shape them, answers compared to the exact status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.adminrpc.schema import SubscriptionCreate
from tenants import actions
from tenants.models import AuditRecord, Namespace
from tests.tenants.world import Caller, World

Call = Callable[..., Any]
T = "/admin/v2/persistent/acme/orders"
LATEST = 2**63 - 1


def status(response: Any) -> int:
    """The status; a success without content has none, an error says why."""
    if response.status_code == 204:
        assert response.content == b""
        # A type on an answer without a body makes Pulsar's Java client wait for one for ever.
        assert "Content-Type" not in response.headers
    elif response.status_code >= 400:
        body = response.json()
        assert body["reason"]
        assert body["request_id"] == response.headers["X-Request-ID"]
    return int(response.status_code)


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
def test_a_tenant_without_particulars(call: Call, world: World, body: bytes) -> None:
    assert status(call("PUT", "/admin/v2/tenants/third", body)) == 204
    assert call("GET", "/admin/v2/tenants/third").json() == {"adminRoles": [], "allowedClusters": ["standalone"]}


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
    assert call("GET", "/admin/v2/brokers/configuration/runtime").json() == {"clusterName": "standalone"}


def test_namespaces(call: Call, world: World) -> None:
    at = "/admin/v2/namespaces/acme/new"
    assert status(call("GET", at)) == 404
    assert status(call("PUT", at, b"")) == 204
    assert status(call("PUT", at, b"null")) == 409
    assert status(call("PUT", "/admin/v2/namespaces/absent/new", b"")) == 404
    assert status(call("PUT", "/admin/v2/namespaces/acme/bad%20name", b"")) == 412
    assert call("GET", "/admin/v2/namespaces/acme").json() == ["acme/new", "acme/orders"]
    assert status(call("GET", "/admin/v2/namespaces/absent")) == 404
    world.broker.topics["persistent://acme/new/t"] = set()
    assert call("GET", f"{at}/topics").json() == ["persistent://acme/new/t"]
    assert call("GET", f"{at}/topics?mode=NON_PERSISTENT").json() == []
    assert call("GET", f"{at}/bundles").json()["numBundles"] == 1
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
    assert status(call("PUT", "/admin/v2/namespaces/acme/n2", {"replication_clusters": ["elsewhere"]})) == 412
    assert status(call("PUT", "/admin/v2/namespaces/acme/n2", {"bundles": {"numBundles": -1}})) == 412
    assert status(call("PUT", "/admin/v2/namespaces/acme/n2", {"message_ttl_in_seconds": -1})) == 412


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("messageTTL", -1, 412),
        ("messageTTL", "ten", 412),
        ("messageTTL", 2**40, 412),
        ("maxProducersPerTopic", -1, 412),
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 5}, 412),
        ("retention", [], 412),
        ("persistence", {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 2}, 412),
        ("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 0}, 406),
        ("autoTopicCreation", {"allowAutoTopicCreation": True, "topicType": "odd"}, 406),
        ("autoTopicCreation", {"topicType": "non-partitioned", "defaultNumPartitions": 2}, 406),
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
    assert call("GET", at).status_code == 204


def test_backlog_quotas(call: Call, world: World) -> None:
    """Not enforced yet: refused by name, read as unset, and what an earlier release stored can be removed."""
    at = "/admin/v2/namespaces/acme/orders"
    quota = {"limitSize": 1000, "limitTime": -1, "policy": "producer_exception"}
    for query in ("", "?backlogQuotaType=destination_storage", "?backlogQuotaType=message_age"):
        answer = call("POST", f"{at}/backlogQuota{query}", quota)
        assert (answer.status_code, "backlog" in answer.json()["reason"]) == (412, True)
    Namespace.unscoped.filter(name="acme/orders").update(policies={"backlog_quota_age_s": 5, "backlog_quota_age_policy": "x"})
    assert call("GET", f"{at}/backlogQuotaMap").json() == {}
    assert status(call("DELETE", f"{at}/backlogQuota?backlogQuotaType=message_age")) == 204
    assert Namespace.unscoped.get(name="acme/orders").policies == {}
    assert status(call("POST", f"{at}/backlogQuota?backlogQuotaType=odd", quota)) == 400


def test_permissions(call: Call, world: World) -> None:
    at = "/admin/v2/namespaces/acme/orders/permissions"
    assert status(call("POST", f"{at}/app@acme", ["produce", "consume"])) == 204
    assert call("GET", at).json() == {"app@acme": ["produce", "consume"]}
    assert status(call("POST", f"{at}/app@acme", ["fly"])) == 400
    assert status(call("POST", f"{T}/t/permissions/app@acme", ["consume"])) == 204
    assert status(call("POST", f"{T}/t/permissions/other", ["consume"])) == 204
    assert call("GET", f"{T}/t/permissions").json() == {"app@acme": ["consume", "produce"], "other": ["consume"]}
    assert status(call("DELETE", f"{T}/t/permissions/other")) == 204
    assert status(call("DELETE", f"{T}/t/permissions/other")) == 412
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


# --- topics ------------------------------------------------------------------------------------------------------------------


def test_plain_topics(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/t", b"")) == 204
    assert status(call("PUT", f"{T}/t", {"a": "b"})) == 409
    assert status(call("PUT", "/admin/v2/persistent/acme/absent/t")) == 404
    assert status(call("PUT", f"{T}/t-partition-0")) == 412
    assert call("GET", T).json() == ["persistent://acme/orders/t"]
    assert call("GET", f"{T}/t/partitions").json()["partitions"] == 0
    assert call("GET", f"{T}/t/stats?getPreciseBacklog=false&authoritative=false").json()["subscriptions"] == {}
    assert call("GET", f"{T}/t/internalStats").json()["numberOfEntries"] == 0
    assert call("GET", f"{T}/t/lastMessageId").json() == {"ledgerId": 3, "entryId": 8, "partitionIndex": -1}
    assert status(call("PUT", f"{T}/t/unload")) == 204
    assert call("POST", f"{T}/t/terminate").json() == {"ledgerId": 3, "entryId": 9, "partitionIndex": -1}
    assert status(call("DELETE", f"{T}/t/truncate")) == 204
    assert [request.topic for request in world.broker.called("topics.truncate")] == ["persistent://acme/orders/t"]
    assert AuditRecord.unscoped.filter(action="topic.truncate", resource="persistent://acme/orders/t").exists()
    assert status(call("DELETE", f"{T}/absent/truncate")) == 404
    assert status(call("POST", f"{T}/t/truncate")) == 405
    world.broker.attached.add("persistent://acme/orders/t")
    assert status(call("DELETE", f"{T}/t?force=false")) == 412
    assert status(call("DELETE", f"{T}/t?force=true")) == 204
    assert status(call("DELETE", f"{T}/t")) == 404
    assert status(call("GET", f"{T}/t/stats")) == 404
    assert status(call("GET", f"{T}/t/partitions")) == 404
    assert status(call("GET", f"{T}/t/partitioned-stats")) == 404


def test_truncating_is_for_administrators_of_the_tenant(call: Call, world: World) -> None:
    """Of a partitioned topic too: its partitions are not truncated in the name of the broker (Pulsar's CVE-2026-105934)."""
    assert status(call("PUT", f"{T}/p/partitions", 2)) == 204
    assert status(call("PUT", f"{T}/t")) == 204
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce", "consume"])
    app = Caller(world.token("app@acme"))
    for name in ("t", "p", "p-partition-0"):
        assert status(app("DELETE", f"{T}/{name}/truncate")) == 403
    assert not world.broker.called("topics.truncate")
    assert status(call("DELETE", f"{T}/p/truncate")) == 204
    assert [request.topic for request in world.broker.called("topics.truncate")] == ["persistent://acme/orders/p"]


def test_partitioned_topics(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/p/partitions", 2)) == 204
    assert status(call("PUT", f"{T}/p/partitions", 2)) == 409
    assert status(call("PUT", f"{T}/p")) == 409
    assert status(call("PUT", f"{T}/p-partition-0")) == 409  # one of its partitions: exists
    for count in (0, -1, 10**6, None):
        assert status(call("PUT", f"{T}/q/partitions", count)) == 406
    kind = "application/vnd.partitioned-topic-metadata+json"
    assert status(call("PUT", f"{T}/q/partitions", {"partitions": 1, "properties": {"a": "b"}}, kind)) == 204
    assert call("GET", f"{T}/q/partitions").json() == {"partitions": 1, "deleted": False, "properties": {"a": "b"}}
    assert call("GET", f"{T}/q/properties").json() == {"a": "b"}
    assert call("GET", f"{T}/partitioned").json() == ["persistent://acme/orders/p", "persistent://acme/orders/q"]
    assert len(call("GET", T).json()) == 3
    assert status(call("POST", f"{T}/p/partitions", 3)) == 204
    assert status(call("POST", f"{T}/p/partitions", 1)) == 412
    assert call("GET", f"{T}/p/partitions").json()["partitions"] == 3
    assert len(call("GET", f"{T}/p/partitioned-stats").json()["partitions"]) == 3
    assert call("GET", f"{T}/p/partitioned-stats?perPartition=false").json()["partitions"] == {}
    assert status(call("DELETE", f"{T}/p")) == 409
    assert status(call("DELETE", f"{T}/p/partitions")) == 204
    assert status(call("DELETE", f"{T}/p/partitions")) == 404
    assert call("GET", "/admin/v2/non-persistent/acme/orders/partitioned").json() == []


def test_the_http_lookup_of_a_topic_that_is_not_there_yet(call: Call, world: World) -> None:
    found = call("GET", f"{T}/new/partitions?checkAllowAutoCreation=true")
    assert (found.status_code, found.json()["partitions"]) == (200, 0)
    looked_up = call("GET", "/lookup/v2/topic/persistent/acme/orders/new?authoritative=false").json()
    assert set(looked_up) == {"brokerUrl", "brokerUrlTls", "httpUrl", "httpUrlTls", "nativeUrl", "brokerUrlSsl"}
    assert looked_up["brokerUrl"] == looked_up["nativeUrl"] == "pulsar://127.0.0.1:6650"
    assert looked_up["httpUrl"] == "http://testserver"
    assert status(call("GET", "/lookup/v2/topic/persistent/acme/absent/new")) == 404
    assert call("GET", "/lookup/v2/topic/persistent/acme/orders/new/bundle").content == b"0x00000000_0xffffffff"


# --- subscriptions -----------------------------------------------------------------------------------------------------------


def test_subscriptions_of_a_plain_topic(call: Call, world: World) -> None:
    topic = "persistent://acme/orders/t"
    world.broker.topics[topic] = set()
    sub = f"{T}/t/subscription/s"
    assert status(call("PUT", sub, b"")) == 204
    assert status(call("PUT", sub, b"")) == 409
    assert call("GET", f"{T}/t/subscriptions").json() == ["s"]
    assert status(call("POST", f"{sub}/skip_all")) == 204
    assert status(call("POST", f"{sub}/skip/3")) == 204
    assert status(call("POST", f"{sub}/expireMessages/60")) == 204
    assert status(call("POST", f"{T}/t/all_subscription/expireMessages/60")) == 204
    assert status(call("POST", f"{sub}/resetcursor/1700000000000")) == 204
    position = {"ledgerId": 3, "entryId": 4, "partitionIndex": -1, "batchIndex": -1, "excluded": False}
    assert status(call("POST", f"{sub}/resetcursor", position)) == 204
    peeked = call("GET", f"{sub}/position/1")
    assert (peeked.content, peeked.headers["Content-Type"]) == (b"stored bytes", "application/octet-stream")
    assert peeked.headers["X-Pulsar-Message-ID"] == "3:1"
    assert peeked.headers["X-Pulsar-num-batch-message"] == "1"
    for bad in (f"{sub}/skip/x", f"{sub}/skip/-1", f"{sub}/expireMessages/0", f"{sub}/resetcursor/now", f"{sub}/resetcursor"):
        assert status(call("POST", bad)) == 400
    assert status(call("GET", f"{sub}/position/0")) == 400
    world.broker.attached.add(topic)
    assert status(call("DELETE", sub)) == 412
    assert status(call("DELETE", f"{sub}?force=true")) == 204
    assert status(call("DELETE", sub)) == 404
    assert status(call("POST", f"{sub}/skip_all")) == 404
    assert status(call("GET", f"{T}/absent/subscriptions")) == 404
    assert [request.entries for request in world.broker.called("subscriptions.skip")] == [None, 3, None]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (LATEST, LATEST)),
        (b"null", (LATEST, LATEST)),
        (b'"latest"', (LATEST, LATEST)),
        (b'"earliest"', (-1, -1)),
        (b'{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}', (-1, -1)),
        (b'{"ledgerId":9223372036854775807,"entryId":9223372036854775807}', (LATEST, LATEST)),
        (b'{"ledgerId":5,"entryId":6,"properties":{}}', (5, 6)),
    ],
)
def test_where_a_subscription_begins(call: Call, world: World, body: bytes, expected: tuple[int, int]) -> None:
    world.broker.topics["persistent://acme/orders/t"] = set()
    assert status(call("PUT", f"{T}/t/subscription/s?replicated=false", body)) == 204
    request: SubscriptionCreate = world.broker.called("subscriptions.create")[0]
    assert (request.ledger_id, request.entry_id) == expected


def test_subscriptions_of_a_partitioned_topic(call: Call, world: World) -> None:
    call("PUT", f"{T}/p/partitions", 2)
    sub = f"{T}/p/subscription/s"
    assert status(call("PUT", sub)) == 204
    assert all(world.broker.topics[f"persistent://acme/orders/p-partition-{index}"] == {"s"} for index in (0, 1))
    assert status(call("PUT", sub)) == 409
    assert call("GET", f"{T}/p/subscriptions").json() == ["s"]
    assert status(call("POST", f"{sub}/skip_all")) == 204
    assert status(call("POST", f"{sub}/resetcursor/5")) == 204
    assert status(call("POST", f"{sub}/skip/1")) == 405
    assert status(call("POST", f"{sub}/resetcursor", {"ledgerId": 1, "entryId": 1})) == 405
    assert status(call("GET", f"{sub}/position/1")) == 405
    assert status(call("DELETE", sub)) == 204
    assert status(call("DELETE", sub)) == 404


@pytest.mark.parametrize("spelled", ["my%2Fsub", "my%252Fsub"])
def test_subscriptions_escaped_once_and_twice(call: Call, world: World, spelled: str) -> None:
    world.broker.topics["persistent://acme/orders/t"] = set()
    response = call("PUT", f"{T}/t/subscription/{spelled}")
    # Django's test client hands on the decoded path, where the first spelling is two segments (test_asgi has the real thing).
    if spelled == "my%252Fsub":
        assert status(response) == 204
        assert world.broker.topics["persistent://acme/orders/t"] == {"my/sub"}
    else:
        assert status(response) == 404


def test_over_a_namespace_every_subscription_is_asked_for(world: World, call: Call) -> None:
    names = ("persistent://acme/orders/a", "persistent://acme/orders/b")
    world.broker.topics = {name: {"s", "guarded"} for name in names}
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["consume"])
    actions.restrict_subscription(world.actor("olga"), "acme/orders", "guarded", ["boss"])
    app, at = Caller(world.token("app@acme")), "/admin/v2/namespaces/acme/orders"
    world.broker.calls.clear()
    assert status(app("POST", f"{at}/clearBacklog")) == 403
    assert status(app("POST", f"{at}/unsubscribe/guarded")) == 403
    assert status(app("POST", f"{T}/a/all_subscription/expireMessages/5")) == 403
    assert not world.broker.called("subscriptions.skip") + world.broker.called("subscriptions.expire")
    assert status(app("POST", f"{at}/clearBacklog/s")) == 204
    assert len(world.broker.called("subscriptions.skip")) == 2
    assert status(app("POST", f"{at}/unsubscribe/s")) == 204
    assert all(world.broker.topics[name] == {"guarded"} for name in names)
    assert status(call("POST", f"{at}/clearBacklog")) == 204


# --- the rest ----------------------------------------------------------------------------------------------------------------


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
    assert len(world.broker.called("health")) == 1


def test_health_says_that_the_broker_is_away(world: World, caller: Callable[[str], Caller]) -> None:
    world.broker.away = True
    assert status(caller("")("GET", "/admin/v2/brokers/health")) == 503


@pytest.mark.parametrize(
    "path",
    ["namespaces/acme/orders/offloadPolicies", "persistent/acme/orders/t/compaction", "worker/cluster", "schemas/a/b/c/schema", ""],
)
def test_what_is_not_offered_says_so(call: Call, path: str) -> None:
    response = call("GET", f"/admin/v2/{path}")
    assert status(response) == 404
    assert "not offered" in response.json()["reason"]


def test_a_change_that_no_broker_confirmed(call: Call, world: World) -> None:
    world.broker.away = True
    response = call("POST", "/admin/v2/namespaces/acme/orders/messageTTL", 5)
    assert status(response) == 503
    assert "is saved" in response.json()["reason"]
