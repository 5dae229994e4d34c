"""Pulsar's admin API: topics and subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.adminrpc.base import Method
from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_CREATE,
    SUBSCRIPTIONS_DELETE,
    SUBSCRIPTIONS_EXPIRE,
    SUBSCRIPTIONS_LIST,
    SUBSCRIPTIONS_PROPERTIES,
    SUBSCRIPTIONS_RESET,
    SUBSCRIPTIONS_SET_PROPERTIES,
    SUBSCRIPTIONS_SKIP,
    TOPICS_COMPACT,
    TOPICS_TRUNCATE,
    TOPICS_UNLOAD,
)
from messaging.adminrpc.subscriptions import SubscriptionCreate
from tenants import actions
from tenants.models import AuditRecord
from tests.support.clients import batches
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]


T = "/admin/v2/persistent/acme/orders"


LATEST = 2**63 - 1


def test_plain_topics(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/t", b"")) == 204
    assert status(call("PUT", f"{T}/t", {"a": "b"})) == 409
    assert status(call("PUT", "/admin/v2/persistent/acme/absent/t")) == 404
    assert status(call("PUT", f"{T}/t-partition-0")) == 412
    assert call("GET", T).json() == ["persistent://acme/orders/t"]
    assert call("GET", f"{T}/t/partitions").json()["partitions"] == 0
    assert call("GET", f"{T}/t/stats?getPreciseBacklog=false&authoritative=false").json()["subscriptions"] == {}
    assert call("GET", f"{T}/t/internalStats").json()["numberOfEntries"] == 0
    assert status(call("DELETE", f"{T}/t/partitions")) == 409
    world.broker.publish("persistent://acme/orders/t", b"one", b"two")
    last = call("GET", f"{T}/t/lastMessageId").json()
    rest = {"originalBatchSize": 0, "outstandingAcksInSameBatch": 0}
    assert last == {"ledgerId": last["ledgerId"], "entryId": 1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0} | rest
    assert last["ledgerId"] > 0
    assert status(call("PUT", f"{T}/t/unload")) == 204
    assert call("POST", f"{T}/t/terminate").json() | rest == last
    assert status(call("DELETE", f"{T}/t/truncate")) == 204
    assert [request.topic for request in world.line.called(TOPICS_TRUNCATE)] == ["persistent://acme/orders/t"]
    assert AuditRecord.unscoped.filter(action="topic.truncate", resource="persistent://acme/orders/t").exists()
    assert status(call("DELETE", f"{T}/absent/truncate")) == 404
    assert status(call("POST", f"{T}/t/truncate")) == 405
    world.broker.connect_consumer("persistent://acme/orders/t", "s")
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
    assert not world.line.called(TOPICS_TRUNCATE)
    assert status(call("DELETE", f"{T}/p/truncate")) == 204
    assert [request.topic for request in world.line.called(TOPICS_TRUNCATE)] == ["persistent://acme/orders/p"]


def test_compacting(call: Call, world: World, told_workers: list[str]) -> None:
    assert status(call("GET", f"{T}/t/compaction")) == 404
    assert status(call("PUT", f"{T}/t/compaction")) == 404
    assert status(call("PUT", f"{T}/t")) == 204
    assert call("GET", f"{T}/t/compaction").json() == {"status": "NOT_RUN", "lastError": ""}
    assert status(call("PUT", f"{T}/t/compaction")) == 204
    assert told_workers == ["compaction"]
    assert call("GET", f"{T}/t/compaction").json() == {"status": "RUNNING", "lastError": ""}
    assert status(call("PUT", f"{T}/t/compaction")) == 409
    assert AuditRecord.unscoped.filter(action="topic.compact", resource="persistent://acme/orders/t").exists()
    assert call("GET", f"{T}/t/stats").json()["compaction"] == {
        "lastCompactionRemovedEventCount": 0,
        "lastCompactionSucceedTimestamp": 0,
        "lastCompactionFailedTimestamp": 0,
        "lastCompactionDurationTimeInMills": 0,
    }


def test_compacting_is_for_administrators_of_the_tenant(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/p/partitions", 2)) == 204
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce", "consume"])
    app = Caller(world.token("app@acme"))
    assert status(app("PUT", f"{T}/p/compaction")) == 403
    assert status(app("GET", f"{T}/p-partition-0/compaction")) == 403
    assert not world.line.called(TOPICS_COMPACT)
    assert status(call("PUT", f"{T}/p/compaction")) == 204
    assert status(call("GET", f"{T}/p/compaction")) == 404  # of its partitions, one by one


def test_partitioned_topics(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/p/partitions", 2)) == 204
    assert status(call("PUT", f"{T}/p/partitions", 2)) == 409
    assert status(call("PUT", f"{T}/p")) == 409
    assert status(call("PUT", f"{T}/p-partition-0")) == 409  # one of its partitions: exists
    for count in (0, -1, 10**6, None):
        assert status(call("PUT", f"{T}/q/partitions", count)) == (400 if count is None else 406)
    kind = "application/vnd.partitioned-topic-metadata+json"
    assert status(call("PUT", f"{T}/q/partitions", {"partitions": 1, "properties": {"a": "b"}}, kind)) == 204
    assert call("GET", f"{T}/q/partitions").json() == {"partitions": 1, "deleted": False, "properties": {"a": "b"}}
    assert call("GET", f"{T}/q/properties").json() == {"a": "b"}
    assert call("GET", f"{T}/partitioned").json() == ["persistent://acme/orders/p", "persistent://acme/orders/q"]
    assert len(call("GET", T).json()) == 3
    assert status(call("POST", f"{T}/p/partitions", 3)) == 204
    shrunk = call("POST", f"{T}/p/partitions", 1)
    assert (shrunk.status_code, shrunk.json()["reason"]) == (
        422,
        "persistent://acme/orders/p has 3 partitions: the number can only be increased",
    )
    assert call("GET", f"{T}/p/partitions").json()["partitions"] == 3
    assert len(call("GET", f"{T}/p/partitioned-stats").json()["partitions"]) == 3
    assert call("GET", f"{T}/p/partitioned-stats?perPartition=false").json()["partitions"] == {}
    assert status(call("DELETE", f"{T}/p")) == 409
    world.broker.add("persistent://acme/orders/p-partition-1", "nobody-uses-it")
    assert status(call("DELETE", f"{T}/p/partitions")) == 204
    assert status(call("DELETE", f"{T}/p/partitions")) == 404
    assert call("GET", "/admin/v2/non-persistent/acme/orders/partitioned").json() == []


def test_the_http_lookup_of_a_topic_that_is_not_there_yet(call: Call, world: World) -> None:
    found = call("GET", f"{T}/new/partitions?checkAllowAutoCreation=true")
    assert (found.status_code, found.json()["partitions"]) == (200, 0)
    looked_up = call("GET", "/lookup/v2/topic/persistent/acme/orders/new?authoritative=false").json()
    assert set(looked_up) == {"brokerUrl", "httpUrl", "nativeUrl", "brokerUrlSsl"}, "there is no TLS, and no address with it"
    assert looked_up["brokerUrl"] == looked_up["nativeUrl"] == "pulsar://127.0.0.1:6650"
    assert looked_up["httpUrl"] == "http://testserver"
    assert status(call("GET", "/lookup/v2/topic/persistent/acme/absent/new")) == 404
    assert call("GET", "/lookup/v2/topic/persistent/acme/orders/new/bundle").content == b"0x40000000_0x80000000"


def test_subscriptions_of_a_plain_topic(call: Call, world: World) -> None:
    topic = "persistent://acme/orders/t"
    world.broker.add(topic)
    sub = f"{T}/t/subscription/s"
    assert status(call("PUT", sub, b"")) == 204
    assert status(call("PUT", sub, b"")) == 409
    assert call("GET", f"{T}/t/subscriptions").json() == ["s"]
    assert status(call("POST", f"{sub}/skip_all")) == 204
    assert status(call("POST", f"{sub}/skip/3")) == 204
    for nothing_to_do in (f"{sub}/expireMessages/60", f"{T}/t/all_subscription/expireMessages/60"):
        assert status(call("POST", nothing_to_do)) == 409
    assert status(call("POST", f"{sub}/resetcursor/1700000000000")) == 204
    position = {"ledgerId": 3, "entryId": 4, "partitionIndex": -1, "batchIndex": -1, "excluded": False}
    assert status(call("POST", f"{sub}/resetcursor", position)) == 204
    assert call("GET", f"{sub}/properties").json() == {}
    assert status(call("PUT", f"{sub}/properties", {"team": "ships"})) == 204
    assert status(call("PUT", f"{sub}/properties", {"a": "b"})) == 204  # replaces all
    assert call("GET", f"{sub}/properties").json() == {"a": "b"}
    assert call("GET", f"{T}/t/stats").json()["subscriptions"]["s"]["subscriptionProperties"] == {"a": "b"}
    assert status(call("PUT", f"{sub}/properties", b"")) == 204
    assert call("GET", f"{sub}/properties").json() == {}
    assert status(call("PUT", f"{sub}/properties", {"a": 1})) == status(call("PUT", f"{sub}/properties", {"a": "x" * 9_000})) == 400
    assert status(call("GET", f"{T}/t/subscription/none/properties")) == 404
    world.broker.publish(topic, b"stored bytes")
    first = world.broker.run(batches.store(world.broker.service, topic, batches.single(b"of a batch"), 1))
    peeked = call("GET", f"{sub}/position/1")
    assert (peeked.content, peeked.headers["Content-Type"]) == (b"stored bytes", "application/octet-stream")
    assert peeked.headers["X-Pulsar-Message-ID"] == f"{first.ledger_id}:{first.entry_id - 1}"
    assert call("GET", f"{sub}/position/2").headers["X-Pulsar-num-batch-message"] == "1"
    for bad in (f"{sub}/skip/-1", f"{sub}/expireMessages/0", f"{sub}/resetcursor"):
        assert status(call("POST", bad)) == 400
    for no_number in (f"{sub}/skip/x", f"{sub}/resetcursor/now", f"{sub}/expireMessages/1.5"):
        assert status(call("POST", no_number)) == 404
    assert status(call("GET", f"{sub}/position/0")) == 400
    for with_backlog in (f"{sub}/expireMessages/60", f"{T}/t/all_subscription/expireMessages/60"):
        assert status(call("POST", with_backlog)) == 204
    world.broker.connect_consumer(topic, "s")
    assert status(call("POST", f"{sub}/expireMessages/60")) == 409  # its consumer is about to receive what there is
    assert status(call("DELETE", sub)) == 412
    assert status(call("DELETE", f"{sub}?force=true")) == 204
    assert status(call("DELETE", sub)) == 404
    assert status(call("POST", f"{sub}/skip_all")) == 404
    assert status(call("GET", f"{T}/absent/subscriptions")) == 404
    assert [request.entries for request in world.line.called(SUBSCRIPTIONS_SKIP)] == [None, 3, None]


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
    world.broker.add("persistent://acme/orders/t")
    assert status(call("PUT", f"{T}/t/subscription/s?replicated=false", body)) == 204
    request: SubscriptionCreate = world.line.called(SUBSCRIPTIONS_CREATE)[0]
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


ONE_CALL = [
    ("PUT", "subscription/new", None, 204, SUBSCRIPTIONS_CREATE),
    ("POST", "subscription/s/skip_all", None, 204, SUBSCRIPTIONS_SKIP),
    ("POST", "subscription/s/expireMessages/1", None, 204, SUBSCRIPTIONS_EXPIRE),
    ("POST", "all_subscription/expireMessages/1", None, 204, SUBSCRIPTIONS_EXPIRE),
    ("POST", "subscription/s/resetcursor/0", None, 204, SUBSCRIPTIONS_RESET),
    ("PUT", "subscription/s/properties", {"a": "b"}, 204, SUBSCRIPTIONS_SET_PROPERTIES),
    ("GET", "subscription/s/properties", None, 200, SUBSCRIPTIONS_PROPERTIES),
    ("DELETE", "subscription/s", None, 204, SUBSCRIPTIONS_DELETE),
    ("GET", "subscriptions", None, 200, SUBSCRIPTIONS_LIST),
    ("PUT", "unload", None, 204, TOPICS_UNLOAD),
]


@pytest.mark.parametrize(("verb", "path", "body", "expected", "method"), ONE_CALL, ids=lambda value: str(value)[:40])
def test_a_partitioned_topic_is_one_call(
    call: Call, world: World, verb: str, path: str, body: Any, expected: int, method: Method[Any, Any]
) -> None:
    """It was one for each of its partitions, each a trip to the broker."""
    call("PUT", f"{T}/p/partitions", 20)
    call("PUT", f"{T}/p/subscription/s", "earliest")
    world.broker.publish("persistent://acme/orders/p-partition-3", b"one")
    before = len(world.line.called(method))
    assert status(call(verb, f"{T}/p/{path}", *(() if body is None else (body,)))) == expected
    assert [asked.topic for asked in world.line.called(method)[before:]] == ["persistent://acme/orders/p"]


def test_what_one_partition_refuses_is_said_and_the_others_are_done(call: Call, world: World) -> None:
    """As in Pulsar: a subscription with a consumer on one partition is deleted on the others."""
    call("PUT", f"{T}/p/partitions", 3)
    call("PUT", f"{T}/p/subscription/s")
    world.broker.connect_consumer("persistent://acme/orders/p-partition-1", "s")
    answer = call("DELETE", f"{T}/p/subscription/s")
    assert status(answer) == 412
    left = [call("GET", f"{T}/p-partition-{number}/subscriptions").json() for number in range(3)]
    assert left == [[], ["s"], []]
    record = AuditRecord.unscoped.filter(resource__contains="/p/s", action__contains="delete").get()
    assert sorted(record.before or {}) == [f"persistent://acme/orders/p-partition-{number}" for number in (0, 2)]


@pytest.mark.parametrize("spelled", ["my%2Fsub", "my%252Fsub"])
def test_subscriptions_escaped_once_and_twice(call: Call, world: World, spelled: str) -> None:
    world.broker.add("persistent://acme/orders/t")
    response = call("PUT", f"{T}/t/subscription/{spelled}")
    # Django's test client hands on the decoded path, where the first spelling is two segments (test_asgi has the real thing).
    if spelled == "my%252Fsub":
        assert status(response) == 204
        assert world.broker.topics["persistent://acme/orders/t"] == {"my/sub"}
    else:
        assert status(response) == 404


def test_over_a_namespace_every_subscription_is_asked_for(world: World, call: Call) -> None:
    names = ("persistent://acme/orders/a", "persistent://acme/orders/b")
    for name in names:
        world.broker.add(name, "s", "guarded")
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["consume"])
    actions.restrict_subscription(world.actor("olga"), "acme/orders", "guarded", ["boss"])
    app, at = Caller(world.token("app@acme")), "/admin/v2/namespaces/acme/orders"
    world.line.calls.clear()
    assert status(app("POST", f"{at}/clearBacklog")) == 403
    assert status(app("POST", f"{at}/unsubscribe/guarded")) == 403
    assert status(app("POST", f"{T}/a/all_subscription/expireMessages/5")) == 403
    assert not world.line.called(SUBSCRIPTIONS_SKIP) + world.line.called(SUBSCRIPTIONS_EXPIRE)
    assert status(app("POST", f"{at}/clearBacklog/s")) == 204
    assert len(world.line.called(SUBSCRIPTIONS_SKIP)) == 2
    assert status(app("POST", f"{at}/unsubscribe/s")) == 204
    assert all(world.broker.topics[name] == {"guarded"} for name in names)
    assert status(call("POST", f"{at}/clearBacklog")) == 204
