"""Pulsar's admin API: non-persistent topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenants import actions
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]
N = "/admin/v2/non-persistent/acme/orders"
TOPIC = "non-persistent://acme/orders/t"


def test_plain_topics_exist_while_they_are_used(call: Call, world: World) -> None:
    assert call("GET", N).json() == []
    assert status(call("PUT", f"{N}/t", b"")) == 204
    assert status(call("PUT", f"{N}/t", b"")) == 409
    assert status(call("PUT", f"{N}/x", {"a": "b"})) == 406
    assert status(call("PUT", f"{N}/t-partition-0")) == 412
    assert call("GET", N).json() == [TOPIC]
    assert call("GET", "/admin/v2/persistent/acme/orders").json() == []
    assert call("GET", f"{N}/t/partitions").json()["partitions"] == 0
    world.broker.connect_consumer(TOPIC, "s")
    world.broker.publish(TOPIC, b"one", b"two")
    stats = call("GET", f"{N}/t/stats").json()
    assert (stats["msgInCounter"], stats["storageSize"], stats["msgDropCounter"]) == (2, 0, 2)
    assert stats["subscriptions"]["s"]["msgDropRate"] == 0.0 and not stats["subscriptions"]["s"]["durable"]
    internal = call("GET", f"{N}/t/internalStats").json()
    assert (internal["entriesAddedCounter"], internal["numberOfEntries"], internal["ledgers"]) == (2, 0, [])
    assert call("GET", f"{N}/t/subscriptions").json() == ["s"]
    assert status(call("DELETE", f"{N}/t")) == 412
    assert status(call("DELETE", f"{N}/t?force=true")) == 204
    assert call("GET", N).json() == [] and status(call("DELETE", f"{N}/t")) == 204
    assert status(call("GET", f"{N}/t/stats")) == 404


def test_unloading_ends_a_plain_topic(call: Call, world: World) -> None:
    assert status(call("PUT", f"{N}/t", b"")) == 204
    assert status(call("PUT", f"{N}/t/unload")) == 204
    assert call("GET", N).json() == [] and status(call("PUT", f"{N}/t/unload")) == 404


def test_partitioned_topics(call: Call, world: World) -> None:
    assert status(call("PUT", f"{N}/p/partitions", 2)) == 204
    assert status(call("PUT", f"{N}/p/partitions", 2)) == 409 and status(call("PUT", f"{N}/p")) == 409
    assert call("GET", f"{N}/partitioned").json() == ["non-persistent://acme/orders/p"]
    assert call("GET", "/admin/v2/persistent/acme/orders/partitioned").json() == []
    assert call("GET", N).json() == []  # nobody has used them
    found = call("GET", f"{N}/p/partitioned-stats").json()
    assert found["metadata"]["partitions"] == 2 and found["msgDropRate"] == 0.0
    assert call("GET", N).json() == [f"non-persistent://acme/orders/p-partition-{index}" for index in range(2)]
    assert status(call("POST", f"{N}/p/partitions", 3)) == 204
    assert status(call("PUT", f"{N}/p/unload")) == 204
    assert call("GET", N).json() == [] and call("GET", f"{N}/p/partitions").json()["partitions"] == 3
    assert status(call("DELETE", f"{N}/p/partitions")) == 204
    assert call("GET", f"{N}/partitioned").json() == []


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("PUT", "subscription/new", 400),
        ("POST", "subscription/s/skip_all", 405),
        ("POST", "subscription/s/skip/3", 405),
        ("POST", "subscription/s/expireMessages/5", 405),
        ("POST", "all_subscription/expireMessages/5", 405),
        ("GET", "subscription/s/position/1", 405),
        ("GET", "lastMessageId", 405),
        ("POST", "terminate", 406),
        ("DELETE", "truncate", 412),
        ("POST", "subscription/s/resetcursor/1", 204),
        ("GET", "permissions", 200),
        ("GET", "partitioned-stats", 404),
        ("DELETE", "subscription/absent", 404),
        ("DELETE", "subscription/s", 204),
    ],
)
def test_what_needs_storage_is_refused(call: Call, world: World, method: str, path: str, code: int) -> None:
    assert status(call("PUT", f"{N}/t", b"")) == 204
    world.broker.connect_consumer(TOPIC, "s")
    assert status(call(method, f"{N}/t/{path}")) == code
    assert call("GET", N).json() == [TOPIC]


def test_lists_of_a_namespace(call: Call, world: World) -> None:
    at = "/admin/v2/namespaces/acme/orders"
    world.broker.add("persistent://acme/orders/t")
    assert status(call("PUT", f"{N}/t", b"")) == 204
    found = {mode: call("GET", f"{at}/topics?mode={mode}").json() for mode in ("PERSISTENT", "NON_PERSISTENT", "ALL")}
    assert found == {
        "PERSISTENT": ["persistent://acme/orders/t"],
        "NON_PERSISTENT": [TOPIC],
        "ALL": ["persistent://acme/orders/t", TOPIC],
    }
    world.broker.connect_consumer(TOPIC, "s")
    assert status(call("POST", f"{at}/clearBacklog")) == 204  # which it has none of
    assert status(call("DELETE", at)) == 409
    assert status(call("DELETE", f"{at}?force=true")) == 204


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "t"), ("DELETE", "t"), ("GET", "t/stats"), ("PUT", "t/unload"), ("PUT", "p/partitions"), ("GET", "")],
)
def test_strangers_are_refused(call: Call, world: World, method: str, path: str) -> None:
    assert status(call("PUT", f"{N}/t", b"")) == 204
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce"])
    stranger = Caller(world.token("app@acme" if method != "GET" else "other@acme"))
    assert status(stranger(method, f"{N}/{path}".rstrip("/"), 2 if path.endswith("partitions") else None)) == 403
    assert call("GET", N).json() == [TOPIC]
