"""What Apache's own client is promised of seeking, of subscriptions to several topics or a pattern, and of its asyncio client."""

from __future__ import annotations

import asyncio
import importlib
import re
import time
from typing import Any

import pulsar
import pulsar.asyncio as aio
import pytest

from tests.compat.stock import RECEIVE_MS, Stock, batched, nothing_more, numbers_of, published, receive
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

EARLIEST, LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest
TYPES = [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover, pulsar.ConsumerType.Shared]


# --- seeking


@pytest.mark.parametrize("kind", TYPES)
def test_seeking_while_messages_flow_brings_nothing_stale(stock: Stock, topic: str, kind: pulsar.ConsumerType) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", kind, initial_position=pulsar.InitialPosition.Earliest)
    ids = published(client, topic, range(50))
    other = stock.client().create_producer(topic, batching_enabled=False)
    for message in [consumer.receive(RECEIVE_MS) for _ in range(20)]:
        consumer.acknowledge(message)
    for number in range(50, 60):
        other.send_async(b"%d" % number, None)
    consumer.seek(ids[10])
    for number in range(60, 70):
        other.send_async(b"%d" % number, None)
    other.flush()
    assert numbers_of(consumer, 59) == list(range(11, 70)), "the client leaves out the message that it named"
    assert nothing_more(consumer, 300)


def test_seeking_into_a_batch(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    ids = batched(client, topic, range(10))
    numbers_of(consumer, 10)
    consumer.seek(ids[6])
    assert numbers_of(consumer, 4) == [6, 7, 8, 9]


def test_seeking_to_a_chunked_message(stock: Stock, topic: str) -> None:
    client = stock.client()
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    producer = client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    large = bytes(range(256)) * 45_000  # 11.5 MB: three chunks
    producer.send(b"before")
    chunked = producer.send(large)
    producer.send(b"after")
    assert [len(message.data()) for message in receive(consumer, 3)] == [6, len(large), 5]
    consumer.seek(chunked)
    first, second = receive(consumer, 2)
    assert first.data() == large and second.data() == b"after"


def test_seeking_a_partitioned_topic(stock: Stock, partitioned: str) -> None:
    client = stock.client()
    consumer = client.subscribe(partitioned, "s", pulsar.ConsumerType.Shared)
    published(client, partitioned, range(15), message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    numbers_of(consumer, 15)
    between = int(time.time() * 1000) + 1
    eventually_sync(lambda: time.time() * 1000 > between + 1)
    published(client, partitioned, range(15, 21), message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    numbers_of(consumer, 6)
    consumer.seek(between)
    assert sorted(numbers_of(consumer, 6)) == list(range(15, 21))
    assert nothing_more(consumer, 300)
    consumer.seek(EARLIEST)
    assert sorted(numbers_of(consumer, 21)) == list(range(21))
    consumer.seek(LATEST)
    assert nothing_more(consumer, 300)


def test_a_consumer_without_a_queue(stock: Stock, topic: str) -> None:
    """It asks for one message at a time."""
    client = stock.client()
    consumer = client.subscribe(topic, "s", receiver_queue_size=0)
    ids = published(client, topic, range(4))
    for number in range(2):
        message = consumer.receive()
        assert int(message.data()) == number
        consumer.acknowledge(message)
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id()) == (ids[3].ledger_id(), ids[3].entry_id())
    consumer.seek(EARLIEST)
    assert [int(consumer.receive().data()) for _ in range(4)] == [0, 1, 2, 3]


# --- several topics


def test_a_subscription_to_several_topics(stock: Stock, topic: str) -> None:
    client, names = stock.client(), [f"{topic}-{letter}" for letter in "abc"]
    consumer = client.subscribe(names, "many")
    for index, name in enumerate(names):
        published(client, name, range(index * 10, index * 10 + 10))
    got = receive(consumer, 30)
    assert sorted(int(message.data()) for message in got) == list(range(30))
    assert {message.topic_name() for message in got} == set(names)
    for name in names:
        mine = [int(message.data()) for message in got if message.topic_name() == name]
        assert mine == sorted(mine)
    consumer.seek(EARLIEST)
    assert sorted(numbers_of(consumer, 30)) == list(range(30))
    consumer.unsubscribe()


def test_a_pattern_misses_nothing_of_topics_created_later(stock: Stock, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subscription starts at the latest message, and finds topics by polling: what was sent before it found them comes too."""
    extension = importlib.import_module("_pulsar")
    real = extension.ConsumerConfiguration

    def polling() -> Any:
        configuration = real()
        configuration.pattern_auto_discovery_period(1)  # `subscribe` of this release has the argument and does not pass it on
        return configuration

    monkeypatch.setattr(extension, "ConsumerConfiguration", polling)
    client, base = stock.client(), topic.rpartition("/")[2]
    published(client, f"{topic}-x-old", range(3))
    pattern = re.compile(rf"persistent://public/default/{base}-x-.*")
    consumer = client.subscribe(pattern, "by-pattern")
    assert nothing_more(consumer, 300)
    for index in range(1, 6):
        published(client, f"{topic}-x-new-{index}", range(index * 10, index * 10 + 10))
    published(client, f"{topic}-y", range(1000, 1003))
    published(client, f"{topic}-x-old", range(3, 5))
    expected = [3, 4, *range(10, 60)]
    assert sorted(numbers_of(consumer, len(expected))) == expected
    assert nothing_more(consumer, 300)


def test_a_failover_subscription_divides_partitions_by_name(stock: Stock, partitioned: str) -> None:
    consumers = [
        stock.client().subscribe(partitioned, "f", pulsar.ConsumerType.Failover, consumer_name=name) for name in ("C", "A", "B")
    ]
    client = stock.client()
    producer = client.create_producer(
        partitioned, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution, batching_enabled=False
    )
    for number in range(30):
        producer.send(b"%d" % number)
    seen: dict[str, set[str]] = {}
    total = 0
    for consumer in consumers:
        while True:
            try:
                message = consumer.receive(700)
            except pulsar.Timeout:
                break
            consumer.acknowledge(message)
            total += 1
            seen.setdefault(consumer.consumer_name(), set()).add(message.topic_name().rpartition("-")[2])
    assert seen == {"A": {"0"}, "B": {"1"}, "C": {"2"}}
    assert total >= 30


# --- asyncio


def test_the_asyncio_client(stock: Stock, topic: str) -> None:
    async def scenario() -> None:
        client = aio.Client(stock.url)
        try:
            producer = await client.create_producer(topic)
            consumer = await client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
            ids = [await producer.send(b"%d" % number) for number in range(6)]
            got = [await asyncio.wait_for(consumer.receive(), 10) for _ in range(6)]
            for message in got:
                await consumer.acknowledge(message)
            last = await consumer.get_last_message_id()
            assert (last.ledger_id(), last.entry_id()) == (ids[-1].ledger_id(), ids[-1].entry_id())
            await consumer.seek(ids[3])
            assert [(await asyncio.wait_for(consumer.receive(), 10)).data() for _ in range(2)] == [b"4", b"5"]
            await consumer.unsubscribe()
            reader = await client.create_reader(topic, ids[2], start_message_id_inclusive=True)
            seen = []
            while await reader.has_message_available():
                seen.append((await asyncio.wait_for(reader.read_next(), 10)).data())
            assert seen == [b"2", b"3", b"4", b"5"]
            await reader.seek(ids[0])
            assert (await asyncio.wait_for(reader.read_next(), 10)).data() == b"0"
        finally:
            await client.close()

    asyncio.run(scenario())
