"""What Apache's own client is promised of readers, table views, seeking, and subscriptions to several topics or to a pattern."""

from __future__ import annotations

import asyncio
import re
import time
from itertools import count
from typing import Any

import pulsar
import pulsar.asyncio as aio
import pytest

from tests.compat.stock import RECEIVE_MS, Stock, nothing_more, receive
from tests.support.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

EARLIEST, LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest
TYPES = [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover, pulsar.ConsumerType.Shared]
_numbers = count(1)


@pytest.fixture
def partitioned(standalone: Standalone) -> str:
    """A topic of three partitions."""
    name = f"readers-{next(_numbers)}"
    body = {"name": name, "partitions": 3}
    path = "/api/v1/tenants/public/namespaces/default/topics"
    assert standalone.http("POST", path, body, standalone.admin_token).status == 201
    return f"persistent://public/default/{name}"


def published(client: pulsar.Client, topic: str, numbers: range, **options: Any) -> list[pulsar.MessageId]:
    producer = client.create_producer(topic, **options)
    found = [producer.send(b"%d" % number) for number in numbers]
    producer.close()
    return found


def batched(client: pulsar.Client, topic: str, numbers: range) -> list[pulsar.MessageId]:
    """As one batch."""
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000, batching_max_messages=len(numbers)
    )
    ids: list[pulsar.MessageId] = []
    for number in numbers:
        producer.send_async(b"%d" % number, lambda result, message_id: ids.append(message_id))
    producer.flush()
    producer.close()
    return ids


def read_all(reader: pulsar.Reader) -> list[int]:
    seen = []
    while reader.has_message_available():
        seen.append(int(reader.read_next(RECEIVE_MS).data()))
    return seen


def numbers_of(consumer: pulsar.Consumer, expected: int) -> list[int]:
    return [int(message.data()) for message in receive(consumer, expected)]


# --- readers


# Not queue 1 without the start: the client drops that message and does not ask for another, with Pulsar too.
@pytest.mark.parametrize(("inclusive", "queue"), [(True, 1), (True, 1000), (False, 1000)])
def test_a_reader_from_an_id(stock: Stock, topic: str, inclusive: bool, queue: int) -> None:
    client = stock.client()
    ids = published(client, topic, range(6))
    reader = client.create_reader(topic, ids[2], receiver_queue_size=queue, start_message_id_inclusive=inclusive)
    assert read_all(reader) == list(range(2 if inclusive else 3, 6))
    published(client, topic, range(6, 8))
    assert read_all(reader) == [6, 7]


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_reader_from_within_a_batch(stock: Stock, topic: str, inclusive: bool) -> None:
    client = stock.client()
    ids = batched(client, topic, range(10))
    published(client, topic, range(10, 12))
    reader = client.create_reader(topic, ids[4], start_message_id_inclusive=inclusive)
    assert read_all(reader) == list(range(4 if inclusive else 5, 12))


def test_a_reader_from_the_end(stock: Stock, topic: str) -> None:
    client = stock.client()
    published(client, topic, range(3))
    reader = client.create_reader(topic, LATEST)
    assert not reader.has_message_available()
    published(client, topic, range(3, 5))
    assert read_all(reader) == [3, 4]
    last = client.create_reader(topic, LATEST, start_message_id_inclusive=True)
    assert read_all(last) == [4]


def test_a_reader_of_an_empty_topic(stock: Stock, topic: str) -> None:
    client = stock.client()
    reader = client.create_reader(topic, EARLIEST)
    assert not reader.has_message_available()
    published(client, topic, range(2))
    assert read_all(reader) == [0, 1]


def test_a_reader_of_partitions(stock: Stock, partitioned: str) -> None:
    client = stock.client()
    published(client, partitioned, range(30), message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    reader = client.create_reader(partitioned, EARLIEST)
    assert sorted(read_all(reader)) == list(range(30))
    assert not reader.has_message_available()
    reader.seek(EARLIEST)
    assert sorted(read_all(reader)) == list(range(30))


def test_a_reader_goes_on_after_its_connection_was_lost(standalone: Standalone, stock: Stock, topic: str) -> None:
    client = stock.client()
    published(client, topic, range(10))
    reader = client.create_reader(topic, EARLIEST)
    seen = [int(reader.read_next(RECEIVE_MS).data()) for _ in range(4)]
    path = f"/admin/v2/persistent/public/default/{topic.rpartition('/')[2]}/unload"
    assert standalone.http("PUT", path, None, standalone.admin_token).status == 204
    while len(seen) < 10:
        seen.append(int(reader.read_next(RECEIVE_MS).data()))
    assert seen == list(range(10))


def test_readers_do_not_share(stock: Stock, topic: str) -> None:
    client = stock.client()
    published(client, topic, range(5))
    one, other = (client.create_reader(topic, EARLIEST, reader_name="same") for _ in range(2))
    assert read_all(one) == read_all(other) == list(range(5))


def test_a_compacted_read_of_what_was_never_compacted_is_everything(stock: Stock, topic: str) -> None:
    client = stock.client()
    published(client, topic, range(5))
    assert read_all(client.create_reader(topic, EARLIEST, is_read_compacted=True)) == list(range(5))


def test_a_table_view_has_the_last_value_of_each_key(stock: Stock, topic: str) -> None:
    client = stock.client()
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(b"%d" % number, partition_key=f"k{number % 4}")
    view = client.create_table_view(topic)
    assert {key: view.get(key) for key in ("k0", "k1", "k2", "k3")} == {"k0": b"16", "k1": b"17", "k2": b"18", "k3": b"19"}
    heard: dict[str, bytes] = {}
    view.for_each_and_listen(heard.__setitem__)
    producer.send(b"new", partition_key="k1")
    until = time.monotonic() + 10
    while heard.get("k1") != b"new" and time.monotonic() < until:
        time.sleep(0.02)
    assert heard["k1"] == b"new" and len(heard) == 4
    view.close()


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
    time.sleep(0.01)
    between = int(time.time() * 1000)
    time.sleep(0.01)
    published(client, partitioned, range(15, 21), message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    numbers_of(consumer, 6)
    consumer.seek(between)
    assert sorted(numbers_of(consumer, 6)) == list(range(15, 21))
    assert nothing_more(consumer, 300)
    consumer.seek(EARLIEST)
    assert sorted(numbers_of(consumer, 21)) == list(range(21))
    consumer.seek(LATEST)
    assert nothing_more(consumer, 300)


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
    real = pulsar._pulsar.ConsumerConfiguration

    def polling() -> Any:
        configuration = real()
        configuration.pattern_auto_discovery_period(1)  # `subscribe` of this release has the argument and does not pass it on
        return configuration

    monkeypatch.setattr(pulsar._pulsar, "ConsumerConfiguration", polling)
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
