"""The same for `pulsar.asyncio`, as far as a release has it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pulsar

from tests.compat.clients.python.base import FEATURES, PLAN, quiet, report, same, topic
from tests.compat.clients.python.base import feature as register

try:
    import pulsar.asyncio as aio
except ImportError:
    sys.exit(0)

EARLIEST = pulsar.InitialPosition.Earliest


def feature(*needed: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    return register(all(hasattr(aio.Client, name) for name in needed))


async def receive(consumer: Any, count: int) -> list[str]:
    payloads = []
    for _ in range(count):
        message = await asyncio.wait_for(consumer.receive(), 8)
        await consumer.acknowledge(message)
        payloads.append(message.data().decode())
    return payloads


async def send(client: Any, name: str, *texts: str, **options: Any) -> list[Any]:
    producer = await client.create_producer(topic(name), **options)
    ids = [await producer.send(text.encode()) for text in texts]
    await producer.close()
    return ids


@feature("create_producer")
async def produce(client: Any) -> None:
    same(len(await send(client, "produce", "a", "b")), 2)


@feature("create_producer", "subscribe")
async def produce_and_consume(client: Any) -> None:
    consumer = await client.subscribe(topic("plain"), "s")
    await send(client, "plain", "a", "b")
    same(await receive(consumer, 2), ["a", "b"])


@feature("create_producer", "subscribe")
async def batches(client: Any) -> None:
    consumer = await client.subscribe(topic("batches"), "s")
    producer = await client.create_producer(topic("batches"), batching_enabled=True, batching_max_publish_delay_ms=50)
    await asyncio.gather(*(producer.send(str(number).encode()) for number in range(10)))
    same(await receive(consumer, 10), [str(number) for number in range(10)])


@feature("create_producer", "subscribe")
async def shared_subscription(client: Any) -> None:
    consumer = await client.subscribe(topic("shared"), "s", pulsar.ConsumerType.Shared)
    await send(client, "shared", "a")
    same(await receive(consumer, 1), ["a"])


@feature("create_producer", "subscribe")
async def key_shared_subscription(client: Any) -> None:
    consumer = await client.subscribe(topic("keyed"), "s", pulsar.ConsumerType.KeyShared)
    producer = await client.create_producer(topic("keyed"))
    await producer.send(b"a", partition_key="k")
    same(await receive(consumer, 1), ["a"])


@feature("create_producer", "subscribe")
async def initial_position(client: Any) -> None:
    await send(client, "early", "a")
    same(await receive(await client.subscribe(topic("early"), "s", initial_position=EARLIEST), 1), ["a"])


@feature("create_producer", "subscribe")
async def several_topics(client: Any) -> None:
    consumer = await client.subscribe([topic("several-1"), topic("several-2")], "s")
    await send(client, "several-1", "a")
    await send(client, "several-2", "b")
    same(sorted(await receive(consumer, 2)), ["a", "b"])


@feature("create_producer", "subscribe")
async def cumulative_acknowledgement(client: Any) -> None:
    consumer = await client.subscribe(topic("cumulative"), "s")
    await send(client, "cumulative", *"abc")
    messages = [await asyncio.wait_for(consumer.receive(), 8) for _ in range(3)]
    await consumer.acknowledge_cumulative(messages[1])
    await consumer.close()
    same(await receive(await client.subscribe(topic("cumulative"), "s"), 1), ["c"])


@feature("create_producer", "subscribe")
async def negative_acknowledgement(client: Any) -> None:
    consumer = await client.subscribe(topic("nack"), "s", pulsar.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100)
    await send(client, "nack", "a")
    await consumer.negative_acknowledge(await asyncio.wait_for(consumer.receive(), 8))
    same((await asyncio.wait_for(consumer.receive(), 8)).redelivery_count(), 1)


@feature("create_producer", "subscribe")
async def seek_to_a_message(client: Any) -> None:
    consumer = await client.subscribe(topic("seek"), "s")
    ids = await send(client, "seek", *"abc")
    await receive(consumer, 3)
    await consumer.seek(ids[0])
    same(await receive(consumer, 2), ["b", "c"])


@feature("create_producer", "subscribe")
async def last_message_id(client: Any) -> None:
    consumer = await client.subscribe(topic("last"), "s")
    ids = await send(client, "last", "a", "b")
    same((await consumer.get_last_message_id()).entry_id(), ids[-1].entry_id())


@feature("create_producer", "subscribe")
async def unsubscribe(client: Any) -> None:
    consumer = await client.subscribe(topic("unsub"), "s")
    await consumer.unsubscribe()


@feature("create_producer", "create_reader")
async def readers(client: Any) -> None:
    await send(client, "reader", "a", "b")
    reader = await client.create_reader(topic("reader"), pulsar.MessageId.earliest)
    payloads: list[str] = []
    while await reader.has_message_available():
        payloads.append((await asyncio.wait_for(reader.read_next(), 8)).data().decode())
    same(payloads, ["a", "b"])


@feature("create_producer", "subscribe", "get_topic_partitions")
async def partitioned_topics(client: Any) -> None:
    consumer = await client.subscribe(PLAN["partitioned"], "s")
    producer = await client.create_producer(PLAN["partitioned"])
    for number in range(6):
        await producer.send(str(number).encode())
    same(sorted(await receive(consumer, 6)), [str(number) for number in range(6)])


async def run(name: str) -> None:
    authentication = pulsar.AuthenticationToken(PLAN["token"])
    client = aio.Client(PLAN["broker"], authentication=authentication, operation_timeout_seconds=10, **quiet())
    try:
        await asyncio.wait_for(FEATURES[name](client), 15)
    except BaseException as error:  # what older releases raise is no Exception
        report(name, error)
    else:
        report(name, None)
    await client.close()


async def main() -> None:
    await asyncio.gather(*(run(name) for name in FEATURES))


if __name__ == "__main__":
    asyncio.run(main())
