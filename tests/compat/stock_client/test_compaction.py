"""Topic compaction as Apache's own client sees it, carried out by the worker of a whole platform."""

from __future__ import annotations

import pulsar
import pytest

from tests.compat.stock import RECEIVE_MS, Stock
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

EARLIEST, LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest
BATCHED = {"batching_enabled": True, "batching_max_publish_delay_ms": 60_000}


def compacted(standalone: Standalone, topic: str) -> None:
    """Asks for a compaction as `pulsar-admin topics compact` does, and waits as `compaction-status -w`."""
    path = f"/admin/v2/{topic.replace('://', '/')}/compaction"
    asked = standalone.http("PUT", path, token=standalone.admin_token)
    assert asked.status == 204, asked.text

    def done() -> bool:
        compaction = standalone.http("GET", path, token=standalone.admin_token).json()
        assert compaction["status"] in ("RUNNING", "SUCCESS"), compaction
        return bool(compaction["status"] == "SUCCESS")

    eventually_sync(done, 60)


def send(client: pulsar.Client, topic: str, *messages: tuple[str, bytes], batched: bool = False) -> None:
    producer = client.create_producer(topic, **(BATCHED if batched else {"batching_enabled": False}))
    for key, value in messages:
        producer.send_async(value, lambda result, message_id: None, partition_key=key)
    producer.flush()
    producer.close()


def read(client: pulsar.Client, topic: str, *, is_compacted: bool = True) -> list[tuple[str, bytes]]:
    """With a key: the C++ client shows messages of a batch that are compacted out as empty ones, with Pulsar too."""
    reader = client.create_reader(topic, EARLIEST, is_read_compacted=is_compacted)
    seen = []
    while reader.has_message_available():
        message = reader.read_next(RECEIVE_MS)
        seen.append((message.partition_key(), message.data()))
    reader.close()
    return [pair for pair in seen if pair[0]]


@pytest.mark.parametrize("batched", [False, True])
def test_readers_table_views_and_consumers_of_a_compacted_topic(
    stock: Stock, standalone: Standalone, topic: str, batched: bool
) -> None:
    client = stock.client()
    send(client, topic, ("a", b"1"), ("b", b"1"), ("a", b"2"), ("c", b"1"), batched=batched)
    send(client, topic, ("b", b"2"), ("c", b""), batched=batched)
    compacted(standalone, topic)
    assert read(client, topic) == [("a", b"2"), ("b", b"2")]
    assert len(read(client, topic, is_compacted=False)) == 6
    send(client, topic, ("d", b"1"))
    assert read(client, topic) == [("a", b"2"), ("b", b"2"), ("d", b"1")]
    view = client.create_table_view(topic)
    assert (len(view), view.get("a"), view.get("b"), view.get("d")) == (3, b"2", b"2", b"1")
    view.close()
    options = {"consumer_type": pulsar.ConsumerType.Failover, "initial_position": pulsar.InitialPosition.Earliest}
    consumer = client.subscribe(topic, "s", is_read_compacted=True, **options)
    pairs = []
    while ("d", b"1") not in pairs:
        message = consumer.receive(RECEIVE_MS)
        pairs.append((message.partition_key(), message.data()))
        consumer.acknowledge(message)
    assert [pair for pair in pairs if pair[0]] == [("a", b"2"), ("b", b"2"), ("d", b"1")]
    consumer.close()
    stats = standalone.http("GET", f"/admin/v2/{topic.replace('://', '/')}/stats", token=standalone.admin_token).json()
    assert stats["subscriptions"]["s"]["msgBacklog"] == 0
    assert stats["compaction"]["lastCompactionRemovedEventCount"] == 4


def test_a_topic_whose_end_was_compacted_away(stock: Stock, standalone: Standalone, topic: str) -> None:
    client = stock.client()
    send(client, topic, ("a", b"1"), ("b", b"1"), ("b", b""))
    compacted(standalone, topic)
    assert read(client, topic) == [("a", b"1")]
    send(client, topic, ("a", b""))
    compacted(standalone, topic)
    assert read(client, topic) == []
    assert not client.create_reader(topic, LATEST, is_read_compacted=True).has_message_available()


def test_compacted_reading_is_for_one_active_consumer(stock: Stock, topic: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        stock.client().subscribe(topic, "s", pulsar.ConsumerType.Shared, is_read_compacted=True)
