"""A tenant at all its ceilings, and past each of them as often as it can: what it is refused costs its neighbours nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable

from messaging.broker.core.schemas.model import SchemaType
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.benchmarks.hostile.hostile_connection import Count, Target, answer, signed_in

C = pb.Command
TOPIC = "persistent://hostile/mob/ceiling"
POLICIES = {
    "max_topics_per_tenant": 500,
    "max_partitions_per_tenant": 10,
    "max_subscriptions_per_tenant": 50,
    "max_connections_per_tenant": 20,
    "max_producers_per_tenant": 20,
    "max_consumers_per_tenant": 20,
    "max_schemas_per_tenant": 20,
    "max_delayed_messages_per_tenant": 1_000,
    "max_stored_bytes_per_tenant": 64 << 20,
    "tenant_publish_rate_messages": 1_000,
    "tenant_publish_rate_bytes": 1 << 20,
    "tenant_dispatch_rate_messages": 1_000,
    "tenant_dispatch_rate_bytes": 1 << 20,
}
REQUESTS = 500  # on a connection, before it is left with what it holds
PUBLISHERS, READERS = 4, 4
KIB = 1024


async def _requests(target: Target, count: Count, frame_of: Callable[[int], bytes]) -> None:
    """One after the other, each answered before the next."""
    reader, writer = await signed_in(target)
    try:
        for number in range(1, REQUESTS):
            writer.write(frame_of(number))
            await answer(reader)
            count.done += 1
    finally:
        writer.transport.abort()


def _producer(number: int) -> bytes:
    return frames.command(C.PRODUCER, producer=pb.Producer(topic=f"{TOPIC}-{number}", producer_id=number, request_id=number))


def _subscription(number: int) -> bytes:
    asked = pb.Subscribe(
        topic=TOPIC, subscription=f"s{number}", sub_type=pb.Subscribe.Shared, consumer_id=number, request_id=number
    )
    return frames.command(C.SUBSCRIBE, subscribe=asked)


def _schema(number: int) -> bytes:
    record = b'{"type":"record","name":"R","fields":[{"name":"f%d","type":["null","int"],"default":null}]}' % number
    schema = pb.Schema(name="R", schema_data=record, type=SchemaType.JSON)
    asked = pb.Producer(topic=f"{TOPIC}-schema", producer_id=number, request_id=number, schema=schema)
    return frames.command(C.PRODUCER, producer=asked)


async def _publish(target: Target, count: Count, deliver_at_ms: int = 0) -> None:
    """As fast as it is let, receipts and refusals read and thrown away."""
    reader, writer = await signed_in(target)
    try:
        writer.write(frames.command(C.PRODUCER, producer=pb.Producer(topic=TOPIC, producer_id=1, request_id=1)))
        if (await answer(reader)).type != C.PRODUCER_SUCCESS:
            return
        later = {"deliver_at_time": deliver_at_ms} if deliver_at_ms else {}
        metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=1, **later)  # type: ignore[arg-type]
        frame = frames.build_send(1, 0, metadata, b"x" * KIB)
        reading = asyncio.ensure_future(_read(reader))
        while not reading.done():
            writer.write(frame * 16)
            await writer.drain()
            count.done += 16
    finally:
        writer.transport.abort()


async def _consume(target: Target, count: Count) -> None:
    reader, writer = await signed_in(target)
    try:
        writer.write(_subscription(1))
        await answer(reader)
        while True:
            writer.write(frames.command(C.FLOW, flow=pb.Flow(consumer_id=1, message_permits=1_000)))
            if not await reader.read(1 << 20):
                return
            count.done += 1
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 20):
        pass


async def exceed_all(target: Target, count: Count) -> None:
    """Until it is cancelled."""

    async def again(act: Callable[[], Awaitable[None]]) -> None:
        for _ in itertools.count():
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, frames.ProtocolError):
                await act()
            count.cut_off += 1
            await asyncio.sleep(0.01)

    in_an_hour_ms = int(time.time() * 1000) + 3_600_000
    acts: list[Callable[[], Awaitable[None]]] = [
        lambda: _requests(target, count, _producer),
        lambda: _requests(target, count, _subscription),
        lambda: _requests(target, count, _schema),
        lambda: _publish(target, count, in_an_hour_ms),
        *[lambda: _publish(target, count)] * PUBLISHERS,
        *[lambda: _consume(target, count)] * READERS,
        *[lambda: _requests(target, count, lambda number: frames.PING)] * 2 * POLICIES["max_connections_per_tenant"],
    ]
    await asyncio.gather(*map(again, acts))
