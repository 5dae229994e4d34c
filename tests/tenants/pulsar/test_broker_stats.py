"""Figures of brokers and where they store, as Pulsar's tools ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from messaging.adminrpc.brokers import BrokerSeen, BrokersSeen
from messaging.adminrpc.bundles import BundleLoad, BundleLoads
from messaging.adminrpc.methods import BROKERS_LIST, BUNDLES_LOADS, NAMESPACES_LIVE, STATUS
from messaging.adminrpc.status import BrokerStatus
from messaging.adminrpc.topics import NamespaceLive, TopicLive
from messaging.errors import NotReady
from messaging.protocol.bundles import bundle_of, equal_bundles
from tenants.models import User
from tenants.pulsar.broker_stats import TOPICS_MAX
from tests.tenants.world import Caller, World, status

Call = Callable[..., Any]
STATS = "/admin/v2/broker-stats"
TOPIC = "persistent://acme/orders/in"
BUNDLE = str(bundle_of(equal_bundles(4), TOPIC))
RATES = {"messages_in_per_s": 2.0, "messages_out_per_s": 4.0, "bytes_in_per_s": 20.0, "bytes_out_per_s": 40.0, "load": 1.0}
NO_RATES = dict.fromkeys(RATES, 0.0)


def _loads(world: World, *, topics: int = 1, away: str = "") -> None:
    """Of two brokers, and of one that is gone: each has a bundle."""
    seen = [BrokerSeen(broker_id=name, live=name != "gone", broker_url="") for name in ("b1", "b2", "gone")]
    bundles = {
        "b1": BundleLoad(namespace="acme/orders", bundle=BUNDLE, topics=topics, producers=3, consumers=5, **RATES),
        "b2": BundleLoad(namespace="other/things", bundle="0x00000000_0x40000000", topics=0, producers=0, consumers=0, **NO_RATES),
    }

    def loads(asked: Any) -> BundleLoads:
        if asked.broker_id == away:
            raise NotReady(f"broker {away} does not answer")
        return BundleLoads(broker_id=asked.broker_id, movable=True, draining=False, bundles=[bundles[asked.broker_id]])

    world.line.divert(BROKERS_LIST, lambda _: BrokersSeen(brokers=seen))
    world.line.divert(BUNDLES_LOADS, loads)


def _status(broker_id: str) -> BrokerStatus:
    """Both run on one machine, of two processors and 8 GiB."""
    return BrokerStatus(
        broker_id=broker_id, boot_epoch=1, version="", uptime_ms=1, ready=True, why_not_ready="", feed_version=1, connections=0,
        topics_loaded=0, producers=0, consumers=0, hot_loops="", durability="", resident_bytes=1 << 30,
        cpu_percent=25.0, machine="m", machine_processors=2, machine_bytes=8 << 30,
    )  # fmt: skip


def test_the_load_of_all_brokers_together(call: Call, world: World) -> None:
    _loads(world)
    world.line.divert(STATUS, lambda asked: _status(asked.broker_id))
    report = call("GET", f"{STATS}/load-report").json()
    name = f"acme/orders/{BUNDLE}"
    assert report["loadReportType"] == "LocalBrokerData"
    assert (report["numTopics"], report["numBundles"], report["numProducers"], report["numConsumers"]) == (1, 2, 3, 5)
    assert (report["msgRateIn"], report["msgThroughputOut"]) == (2.0, 40.0)
    assert report["bundles"] == sorted([name, "other/things/0x00000000_0x40000000"])
    assert report["lastStats"][name] == {
        "msgRateIn": 2.0,
        "msgRateOut": 4.0,
        "msgThroughputIn": 20.0,
        "msgThroughputOut": 40.0,
        "topics": 1,
        "producerCount": 3,
        "consumerCount": 5,
    }
    assert report["cpu"] == {"usage": 50.0, "limit": 200.0}
    assert report["memory"] == {"usage": 2048.0, "limit": 8192.0}
    assert report["maxResourceUsage"] == 0.25
    assert "directMemory" not in report, "what there is not is not told as 0"


def test_metrics_of_namespaces_have_the_names_that_pulsar_gives_them(call: Call, world: World) -> None:
    _loads(world)
    (orders,) = call("GET", f"{STATS}/metrics").json()
    assert orders["dimensions"] == {"namespace": "acme/orders"}
    assert orders["metrics"] == {
        "brk_in_rate": 2.0,
        "brk_in_tp_rate": 20.0,
        "brk_out_rate": 4.0,
        "brk_out_tp_rate": 40.0,
        "brk_no_of_producers": 3,
        "brk_no_of_consumers": 5,
    }


def _live(topic: str, *, loaded: bool) -> TopicLive:
    known = {"messages_in": 9, "messages_out": 18, "storage_bytes": 90, "backlog_entries": 0, "subscriptions": 1} if loaded else {}
    unknown = dict.fromkeys(("messages_in", "messages_out", "storage_bytes", "backlog_entries", "subscriptions"))
    rates = {"rate_in": 2.0, "rate_out": 4.0, "throughput_in": 20.0, "throughput_out": 40.0, "producers": 3, "consumers": 5}
    return TopicLive(topic=topic, loaded=loaded, **(unknown | known | rates))  # type: ignore[arg-type]


def test_topics_that_are_loaded_by_namespace_bundle_and_domain(call: Call, world: World) -> None:
    _loads(world)
    rows = [_live(TOPIC, loaded=True), _live("persistent://acme/orders/at-rest", loaded=False)]
    live = NamespaceLive(sequence=1, at_ms=1, boot_epoch=1, topics=rows)
    world.line.divert(NAMESPACES_LIVE, lambda _: live)
    shown = call("GET", f"{STATS}/topics").json()
    assert list(shown) == ["acme/orders"] and list(shown["acme/orders"]) == [BUNDLE]
    assert list(shown["acme/orders"][BUNDLE]["persistent"]) == [TOPIC]
    figures = shown["acme/orders"][BUNDLE]["persistent"][TOPIC]
    assert (figures["msgRateIn"], figures["averageMsgSize"], figures["msgInCount"], figures["storageSize"]) == (2.0, 10.0, 9, 90)
    live.unreachable = ["b2"]
    refused = call("GET", f"{STATS}/topics")
    assert status(refused) == 503 and "b2" in refused.json()["reason"]


def test_more_topics_than_one_answer_has_are_refused(call: Call, world: World) -> None:
    _loads(world, topics=TOPICS_MAX + 1)
    refused = call("GET", f"{STATS}/topics")
    assert status(refused) == 412 and str(TOPICS_MAX) in refused.json()["reason"]
    world.line.divert(STATUS, lambda asked: _status(asked.broker_id))
    assert status(call("GET", f"{STATS}/load-report")) == 200


def test_a_broker_that_does_not_answer_is_named(call: Call, world: World) -> None:
    _loads(world, away="b2")
    for path in ("load-report", "metrics", "topics"):
        refused = call("GET", f"{STATS}/{path}")
        assert status(refused) == 503 and "broker b2" in refused.json()["reason"]


def test_only_administrators_of_the_platform_see_them(world: World) -> None:
    owner = Caller(user=User.objects.get(username="olga"))
    for path in (f"{STATS}/load-report", f"{STATS}/metrics", f"{STATS}/topics", "/admin/v2/brokers/internal-configuration"):
        assert status(owner("GET", path)) == 403


@pytest.mark.parametrize(
    ("metadata_url", "ledger_url", "shown"),
    [
        ("", "", {"metadataStoreUrl": "sqlite", "configurationMetadataStoreUrl": "sqlite"}),
        (
            "postgresql://magnetar:se?cret@db.example/meta?sslpassword=a@b",
            "",
            dict.fromkeys(("metadataStoreUrl", "configurationMetadataStoreUrl"), "postgresql://db.example/meta"),
        ),
        (
            "postgresql://magnetar:secret@db.example:5432/meta?sslpassword=secret",
            "bookkeeper://zk1:2181,zk2:2181/ledgers?password_file=/secret",
            {
                "metadataStoreUrl": "postgresql://db.example:5432/meta",
                "configurationMetadataStoreUrl": "postgresql://db.example:5432/meta",
                "bookkeeperMetadataServiceUri": "bookkeeper://zk1:2181,zk2:2181/ledgers",
            },
        ),
    ],
)
def test_where_things_are_stored_is_told_without_passwords(
    call: Call, settings: Any, metadata_url: str, ledger_url: str, shown: dict[str, str]
) -> None:
    given = {"metadata_url": metadata_url, "ledger_url": ledger_url}
    settings.MAGNETAR = msgspec.structs.replace(settings.MAGNETAR, **given)
    assert call("GET", "/admin/v2/brokers/internal-configuration").json() == shown


def test_quotas_of_bundles_are_refused_with_a_reason(call: Call) -> None:
    refused = call("POST", f"/admin/v2/resource-quotas/acme/orders/{BUNDLE}", {"msgRateIn": 1.0})
    assert status(refused) == 501 and "placed by the load" in refused.json()["reason"]
