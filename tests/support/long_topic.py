"""A topic with messages that are not in memory, and consumers that read it from its beginning: for tests of catching up."""

from __future__ import annotations

from typing import Any

from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/long"
SIZE = 60_000


def payload(index: int) -> bytes:
    return b"%06d" % index + bytes(SIZE - 6)


async def stored(world: BrokerWorld, count: int, topic: str = TOPIC, size: int = SIZE) -> Topic:
    """A topic with `count` messages that nobody has read: none of them is in memory."""
    client = await world.connected("owner")
    await client.producer(topic)
    for index in range(count):
        client.write(send_frame(index, payload(index)[:size]))
        await client.expect("SEND_RECEIPT")
    return world.service.topics.loaded[topic]


async def reader(world: BrokerWorld, permits: int, name: str = "s", topic: str = TOPIC, **fields: Any) -> RawClient:
    client = await world.connected("owner")
    await client.subscribe(topic, name, permits=permits, sub_type=pb.Subscribe.Exclusive, **fields)
    return client


async def resting(world: BrokerWorld, count: int, taken: int) -> RawClient:
    """A consumer that has taken so many of `count` messages and takes no more; what it will want next was read."""
    topic = await stored(world, count)
    client = await reader(world, taken)
    await read_all(client, taken)
    await eventually(lambda: pending_reads(topic) == 0 and world.service.backlog_scheduler.reads > 1)
    return client


def pending_reads(topic: Topic) -> int:
    """Reads that are asked for or under way, for all subscriptions."""
    stored = topic.dispatcher.stored
    return 0 if stored is None else sum(map(stored.pending_reads, topic.subscriptions.table.values()))


async def read_all(client: RawClient, count: int, first: int = 0) -> None:
    for index in range(first, count):
        body = (await client.next()).text
        assert body[:6] == b"%06d" % index
