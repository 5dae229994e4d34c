"""Bundles in Pulsar's admin API: stored, split, and operations on the topics of one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.adminrpc.methods import TOPICS_UNLOAD
from messaging.protocol.bundles import bundle_of, bundles_of, equal_bundles
from tenants import feed
from tenants.models import AuditRecord, NamespaceBundles
from tests.tenants.world import World, status

Call = Callable[..., Any]

NS = "/admin/v2/namespaces/acme/orders"
WHOLE = "0x00000000_0xffffffff"
TOPICS = sorted(f"persistent://acme/orders/t{number}" for number in range(12))
SPLIT = f"{NS}/0x00000000_0x40000000/split"


@pytest.fixture(autouse=True)
def topics(world: World) -> None:
    for topic in TOPICS:
        world.broker.add(topic)


def boundaries(call: Call, at: str = NS) -> list[str]:
    answer = call("GET", f"{at}/bundles").json()
    assert answer["numBundles"] == len(answer["boundaries"]) - 1
    return list(answer["boundaries"])


def in_bundle(index: int) -> list[str]:
    four = equal_bundles(4)
    return [topic for topic in TOPICS if bundle_of(four, topic) == bundles_of(four)[index]]


@pytest.fixture
def unloaded(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that the broker was asked to unload."""
    topics: list[str] = []
    perform = world.broker.perform

    def noting(method: Any, request: Any) -> Any:
        if method == TOPICS_UNLOAD:
            topics.append(request.topic)
        return perform(method, request)

    monkeypatch.setattr(world.broker, "perform", noting)
    return topics


def test_a_namespace_has_as_many_as_it_was_made_with(call: Call) -> None:
    assert boundaries(call) == ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]
    for name, given, expected in (
        ("one", {"numBundles": 1}, ["0x00000000", "0xffffffff"]),
        ("usual", {"numBundles": 0}, boundaries(call)),
        ("own", {"boundaries": ["0x0", "0x20000000", "0xffffffff"], "numBundles": 9}, ["0x00000000", "0x20000000", "0xffffffff"]),
    ):
        assert status(call("PUT", f"/admin/v2/namespaces/acme/{name}", {"bundles": given})) == 204
        assert boundaries(call, f"/admin/v2/namespaces/acme/{name}") == expected
        assert call("GET", f"/admin/v2/namespaces/acme/{name}").json()["bundles"]["boundaries"] == expected
    assert status(call("PUT", "/admin/v2/namespaces/acme/many", {"bundles": {"numBundles": 8193}})) == 412
    assert status(call("PUT", "/admin/v2/namespaces/acme/odd", {"bundles": {"boundaries": ["0x10000000"]}})) == 400
    assert status(call("GET", "/admin/v2/namespaces/acme/many")) == status(call("GET", "/admin/v2/namespaces/acme/odd")) == 404


def test_brokers_are_told_which_there_are(call: Call, world: World) -> None:
    def told() -> list[int]:
        return list(world.broker.state["namespace", "acme/orders"].get("boundaries", []))

    assert told() == [], "the usual ones"
    assert status(call("PUT", SPLIT)) == 204
    assert told() == [0, 0x20000000, 0x40000000, 0x80000000, 0xC0000000, 0xFFFFFFFF]
    full = {change.key: change.state for change in feed.since(0).changes if change.kind == "namespace"}
    assert full["acme/orders"] == world.broker.state["namespace", "acme/orders"]
    assert status(call("PUT", "/admin/v2/namespaces/acme/single", {"bundles": {"numBundles": 1}})) == 204
    assert world.broker.state["namespace", "acme/single"]["boundaries"] == [0, 0xFFFFFFFF]


def test_splitting_is_stored_and_audited_and_goes_with_the_namespace(call: Call) -> None:
    assert status(call("PUT", SPLIT)) == 204
    assert boundaries(call)[:3] == ["0x00000000", "0x20000000", "0x40000000"]
    record = AuditRecord.unscoped.get(action="namespace.split_bundle")
    assert (record.tenant, record.resource) == ("acme", "acme/orders")
    assert record.before == {"bundle": "0x00000000_0x40000000"}
    assert record.after == {"bundles": ["0x00000000_0x20000000", "0x20000000_0x40000000"]}
    assert status(call("PUT", SPLIT)) == 412, "it is gone"
    assert status(call("DELETE", f"{NS}?force=true")) == 204
    assert not NamespaceBundles.unscoped.exists()
    assert status(call("PUT", NS)) == 204
    assert len(boundaries(call)) == 5


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ("splitAlgorithmName=odd", None, 412),
        ("splitAlgorithmName=specified_positions_divide", None, 412),
        ("splitAlgorithmName=specified_positions_divide", [16, 32, 2**40, -1], 204),
        ("splitAlgorithmName=topic_count_equally_divide", None, 204),
        ("splitAlgorithmName=flow_or_qps_equally_divide", None, 204),
        ("", {"not": "a list"}, 400),
    ],
)
def test_ways_to_split(call: Call, query: str, body: Any, expected: int) -> None:
    before = boundaries(call)
    assert status(call("PUT", f"{SPLIT}?{query}", body)) == expected
    assert (boundaries(call) != before) == (expected == 204)


def test_the_largest_is_split(call: Call) -> None:
    fullest = max(range(4), key=lambda index: len(in_bundle(index)))
    assert status(call("PUT", f"{NS}/LARGEST/split?splitAlgorithmName=topic_count_equally_divide")) == 204
    assert AuditRecord.unscoped.get(action="namespace.split_bundle").before == {
        "bundle": str(bundles_of(equal_bundles(4))[fullest])
    }
    assert status(call("PUT", f"{NS}/HOT/split")) == 204


def test_unloading_a_bundle_unloads_its_topics(call: Call, unloaded: list[str]) -> None:
    assert in_bundle(1)
    assert status(call("PUT", f"{NS}/0x40000000_0x80000000/unload")) == 204
    assert unloaded == in_bundle(1)
    answer = call("PUT", f"{NS}/0x40000000_0x80000000/unload?destinationBroker=elsewhere:1")
    assert status(answer) == 409 and "elsewhere" in answer.json()["reason"]
    assert status(call("PUT", f"{NS}/{WHOLE}/unload")) == 412
    assert unloaded == in_bundle(1)


def test_splitting_with_unload_unloads_what_lay_in_the_bundle(call: Call, unloaded: list[str]) -> None:
    assert status(call("PUT", f"{SPLIT}?unload=true")) == 204
    assert unloaded == in_bundle(0)


def test_where_topics_lie(call: Call) -> None:
    for index, bundle in enumerate(bundles_of(equal_bundles(4))):
        listed = call("GET", f"/admin/v2/persistent/acme/orders?bundle={bundle}").json()
        assert listed == in_bundle(index)
        positions = call("GET", f"{NS}/{bundle}/topicHashPositions").json()
        assert (positions["namespace"], positions["bundle"]) == ("acme/orders", str(bundle))
        assert sorted(positions["topicHashPositions"]) == sorted(listed)
        assert all(bundle.holds(position) for position in positions["topicHashPositions"].values())
        for topic in listed:
            path = topic.replace("://", "/")
            assert call("GET", f"/lookup/v2/topic/{path}/bundle").content.decode() == str(bundle)
    only = TOPICS[0]
    bundle = bundle_of(equal_bundles(4), only)
    assert list(call("GET", f"{NS}/{bundle}/topicHashPositions?topics={only}").json()["topicHashPositions"]) == [only]
    assert call("GET", "/admin/v2/persistent/acme/orders?bundle=odd").json() == []
    assert call("GET", f"/admin/v2/non-persistent/acme/orders/{bundle}").json() == []
    assert status(call("GET", "/admin/v2/non-persistent/acme/orders/odd")) == 412
    assert status(call("GET", f"/admin/v2/persistent/acme/orders/{bundle}")) == 405
