"""What a broker counts: every metric that the table promises of it comes, and many topics do not hold a scrape up."""

from __future__ import annotations

import msgspec
import pytest

from messaging.broker.runtime import broker_metrics
from messaging.broker.runtime.admin.stats.stats import StatsContext, topic_stats
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.metrics import METRICS
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
# The HTTP side gives the first two out itself, brokers that share topics the third; the others come once something was refused.
OTHERS: tuple[str, ...] = ("magnetar_http_", "magnetar_websocket_", "magnetar_brokers_unrecovered")
OTHERS += ("magnetar_connections_refused_total", "magnetar_publish_errors_total")


def samples(world: BrokerWorld, *, private: bool) -> dict[str, float]:
    return {sample.name: sample.value for sample in broker_metrics.broker_samples(world.service, private=private)}


async def test_every_metric_of_the_broker_is_given_out(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(f"non-{TOPIC}", 2)  # before the other, whose series are looked at
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, "s")
    client.write(send_frame(0, b"x" * 100))
    await client.expect("SEND_RECEIPT")
    promised = {metric.name for metric in METRICS.values() if metric.process == "broker" and not metric.name.startswith(OTHERS)}
    found = samples(world, private=True)
    assert found.keys() == promised
    assert found["magnetar_messages_in_total"] == found["magnetar_topic_messages_in_total"] == 1
    assert found["magnetar_log_written_bytes_total"] >= 100
    assert found["magnetar_topics_left_out"] == 0


async def test_of_very_many_topics_some_have_no_series_of_their_own(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await world.connected("owner")
    for number in range(3):
        await client.producer(f"{TOPIC}-{number}", producer_id=number)
    monkeypatch.setattr(broker_metrics, "TOPICS_MAX", 2)
    found = list(broker_metrics.broker_samples(world.service, private=True))
    assert len([one for one in found if one.name == "magnetar_topic_producers"]) == 2
    assert samples(world, private=True)["magnetar_topics_left_out"] == 1
    assert samples(world, private=True)["magnetar_producers"] == 3
    assert not [one.name for one in broker_metrics.broker_samples(world.service, private=False) if one.labels[:1] == ("acme",)]


async def test_stats_of_a_topic_with_clients_can_be_sent(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, "s")
    topic = world.service.topics.loaded[TOPIC]
    stats = await topic_stats(
        topic, StatsContext("broker", 0, {}, world.service.problems, []), TurnSlices(world.service.peers.turn_loop, "acme")
    )
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(stats))
    assert read["publishers"][0]["metadata"] == {} and len(read["subscriptions"]["s"]["consumers"]) == 1


async def test_stats_name_the_client_of_each_producer_and_consumer(world: BrokerWorld) -> None:
    """While connections were taken apart, every client was shown as `local`: its address was looked up by a name that had gone."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, "s")
    topic = world.service.topics.loaded[TOPIC]
    shown = await topic_stats(
        topic, StatsContext("broker", 0, {}, world.service.problems, []), TurnSlices(world.service.peers.turn_loop, "acme")
    )
    for one in (shown["publishers"][0], shown["subscriptions"]["s"]["consumers"][0]):
        assert one["address"].startswith("127.0.0.1:") and one["clientVersion"] == "raw"
