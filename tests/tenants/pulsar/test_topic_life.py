"""Pulsar's admin API: properties of topics, missing partitions, terminating partitions, and system topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.limits.sizes import PAIRS_COUNT_MAX
from tenants import actions
from tenants.models import AuditRecord
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]
T = "/admin/v2/persistent/acme/orders"
FULL = "persistent://acme/orders/"


@pytest.mark.parametrize("topic", ["t", "p", "p-partition-0"])
def test_properties_are_set_one_by_one(call: Call, world: World, topic: str) -> None:
    assert status(call("PUT", f"{T}/t", {"a": "1"} if topic == "t" else {})) == 204
    assert status(call("PUT", f"{T}/p/partitions", 1)) == 204
    at = f"{T}/{topic}/properties"
    assert status(call("PUT", at, {"a": "1"})) == 204
    assert status(call("PUT", at, {"a": "2", "b": "3"})) == 204
    assert call("GET", at).json() == {"a": "2", "b": "3"}
    assert status(call("DELETE", f"{at}?key=a")) == 204
    assert status(call("DELETE", f"{at}?key=absent")) == 204
    assert status(call("DELETE", at)) == 204
    assert call("GET", at).json() == {"b": "3"}
    if topic != "p":
        assert status(call("PUT", f"{T}/{topic}/unload")) == 204
        assert call("GET", at).json() == {"b": "3"}
    record = AuditRecord.unscoped.filter(action="topic.set_properties", resource=f"{FULL}{topic}").order_by("id")[1]
    assert record.before == {"properties": {"a": "1"}}
    assert record.after is not None and record.after["properties"] == {"a": "2", "b": "3"}


def test_properties_have_limits(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/t", {f"k{number}": "v" for number in range(PAIRS_COUNT_MAX)})) == 204
    answer = call("PUT", f"{T}/t/properties", {"one": "more"})
    assert (status(answer), "properties" in answer.json()["reason"]) == (400, True)
    assert len(call("GET", f"{T}/t/properties").json()) == PAIRS_COUNT_MAX
    for method in ("GET", "PUT", "DELETE"):
        assert status(call(method, f"{T}/absent/properties", {} if method == "PUT" else None)) == 404


def test_missing_partitions_are_created_with_the_subscriptions(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/p/partitions", 3)) == 204
    assert status(call("PUT", f"{T}/p/subscription/s")) == 204
    assert status(call("DELETE", f"{T}/p-partition-1?force=true")) == 204
    assert call("GET", T).json() == [f"{FULL}p-partition-0", f"{FULL}p-partition-2"]
    assert status(call("POST", f"{T}/p/createMissedPartitions")) == 204
    assert call("GET", T).json() == [f"{FULL}p-partition-{index}" for index in range(3)]
    assert call("GET", f"{T}/p-partition-1/subscriptions").json() == ["s"]
    assert status(call("PUT", f"{T}/t")) == 204
    assert status(call("POST", f"{T}/t/createMissedPartitions")) == 404
    assert AuditRecord.unscoped.filter(action="topic.create_missing_partitions", resource=f"{FULL}p").count() == 1


def test_terminating_all_partitions(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/p/partitions", 2)) == 204
    assert status(call("PUT", f"{T}/t")) == 204
    world.broker.publish(f"{FULL}p-partition-1", b"x", b"y")
    assert status(call("POST", f"{T}/t/terminate/partitions")) == 405
    assert status(call("POST", f"{T}/p/terminate")) == 405
    for _ in range(2):
        found = call("POST", f"{T}/p/terminate/partitions").json()
        assert [found[index]["entryId"] for index in "01"] == [-1, 1]
    assert AuditRecord.unscoped.filter(action="topic.terminate", resource=f"{FULL}p").count() == 2


def test_they_are_for_administrators_of_the_tenant(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/p/partitions", 1)) == 204
    actions.grant_permission(world.actor("olga"), "acme/orders", "app@acme", ["produce", "consume"])
    app = Caller(world.token("app@acme"))
    assert status(app("GET", f"{T}/p/properties")) == 200
    for method, path in (
        ("PUT", "properties"),
        ("DELETE", "properties?key=a"),
        ("POST", "createMissedPartitions"),
        ("POST", "terminate/partitions"),
    ):
        assert status(app(method, f"{T}/p/{path}", {"a": "b"} if method == "PUT" else None)) == 403


def test_system_topics_are_listed_where_they_are_asked_for(call: Call, world: World) -> None:
    for name in ("t", "__change_events", "__mine"):
        assert status(call("PUT", f"{T}/{name}")) == 204
    assert status(call("PUT", f"{T}/__transaction_buffer_snapshot/partitions", 1)) == 204
    users, system = ["__mine", "t"], ["__change_events", "__mine", "__transaction_buffer_snapshot-partition-0", "t"]
    for path in (T, "/admin/v2/namespaces/acme/orders/topics"):
        assert call("GET", path).json() == [f"{FULL}{name}" for name in users]
        assert call("GET", f"{path}?includeSystemTopic=true").json() == [f"{FULL}{name}" for name in system]
    listed = call("GET", "/api/v1/tenants/acme/namespaces/orders/topics").json()["items"]
    assert [topic["topic"] for topic in listed] == [f"{FULL}{name}" for name in users]
    assert call("GET", f"{T}/partitioned").json() == []
    assert call("GET", f"{T}/partitioned?includeSystemTopic=true").json() == [f"{FULL}__transaction_buffer_snapshot"]


def test_a_namespace_with_system_topics_alone_is_empty(call: Call, world: World) -> None:
    assert status(call("PUT", f"{T}/__change_events")) == 204
    assert status(call("PUT", f"{T}/t")) == 204
    assert status(call("DELETE", "/admin/v2/namespaces/acme/orders")) == 409
    assert status(call("DELETE", f"{T}/t")) == 204
    assert status(call("DELETE", "/admin/v2/namespaces/acme/orders")) == 204
    assert status(call("PUT", "/admin/v2/namespaces/acme/orders")) == 204
    assert call("GET", f"{T}?includeSystemTopic=true").json() == []


def test_names_that_belong_to_the_broker_are_refused(call: Call, world: World) -> None:
    for path in ("t__transaction_pending_ack", "__transaction_pending_ack"):
        assert status(call("PUT", f"{T}/{path}")) == 400
        assert status(call("PUT", f"{T}/{path}/partitions", 2)) == 400
