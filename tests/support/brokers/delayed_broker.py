"""Brokers with delayed messages that are cancelled and rescheduled: publishing, changing, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.adminrpc import delayed as schema
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Position
from tests.support.clients.consuming import TOPIC
from tests.support.clients.publishing import producing, receipts
from tests.support.clients.raw_client import RawClient, delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.worlds.broker_world import BrokerWorld

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
SEALED = 20


def begun(world: BrokerWorld, now_ms: int) -> tuple[BrokerWorld, Clock]:
    clock = Clock(now_ms)
    give(world.service, clock)
    world.service.sweep_memory()
    world.service.topics.services.memory.delayed_seal_entries = SEALED
    return world, clock


def passes(world: BrokerWorld, clock: Clock, time_ms: int) -> None:
    clock.pass_(time_ms)
    world.service.sweep_memory()


async def topic_of(world: BrokerWorld) -> Topic:
    return await world.service.topics.get(parse_topic(TOPIC), create=False)


async def published(world: BrokerWorld, *after_ms: int, keys: Sequence[str] = ()) -> list[Position]:
    """Numbered messages, to be delivered so long after the start; 0: at once. Each is a block of its own."""
    producer = await producing(world)
    positions = []
    for at, after in enumerate(after_ms):
        key = keys[at] if keys else None
        frame = delayed_frame(at, b"%d" % at, START_MS + after, key=key) if after else send_frame(at, b"%d" % at)
        producer.write(frame)
        await receipts(producer, 1)
        positions.append((await topic_of(world)).ledger_list.last)
    await producer.close()
    return positions


async def consuming(world: BrokerWorld, name: str = "s", sub_type: object = pb.Subscribe.Shared) -> RawClient:
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, name, sub_type=sub_type, permits=1_000)
    return consumer


async def cancel(world: BrokerWorld, position: Position, batch_index: int = -1) -> schema.DelayedChanged:
    return await world.admin.delayed.change(
        schema.DelayedChange(topic=TOPIC, ledger_id=position[0], entry_id=position[1], batch_index=batch_index)
    )


async def move(world: BrokerWorld, position: Position, after_ms: int) -> schema.DelayedChanged:
    return await world.admin.delayed.change(
        schema.DelayedChange(topic=TOPIC, ledger_id=position[0], entry_id=position[1], deliver_at_ms=START_MS + after_ms)
    )
