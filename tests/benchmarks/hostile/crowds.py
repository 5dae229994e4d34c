"""Attacks of a hostile tenant within its limits: very much of one thing that is done, due or given back at one moment."""

from __future__ import annotations

import asyncio
import itertools
import time

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.benchmarks.hostile.hostile_connection import Count, Target, answer, signed_in

C = pb.Command
NAMESPACE = "persistent://hostile/mob/"
SUBSCRIPTIONS, HELD = 20, 50_000
STICKY_CONSUMERS, STICKY_RANGES = 60, 1024
RING_CONSUMERS = 3_000
CHUNKS, CHUNK_READERS = 3_000, 100
DELAYED_TOPICS, DELAYED_EACH, DELAY_MS = 1_500, 20, 4_000
LOADED_TOPICS = 2_000
PAUSE_S = 0.2

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _until(reader: asyncio.StreamReader, kind: int, count: int) -> None:
    while count:
        count -= (await answer(reader)).type == kind


async def _subscribe(connection: Connection, topic: str, names: list[str], kind: int, **fields: object) -> None:
    """A consumer for each subscription in `names`, with ids from 1 on."""
    reader, writer = connection
    for number, name in enumerate(names, 1):
        asked = pb.Subscribe(
            topic=topic,
            subscription=name,
            sub_type=kind,  # type: ignore[arg-type]
            consumer_id=number,
            request_id=number,
            consumer_name=f"c{number:05}",
            initial_position=pb.Subscribe.Earliest,
            **fields,  # type: ignore[arg-type]
        )
        writer.write(frames.command(C.SUBSCRIBE, subscribe=asked))
    await writer.drain()
    await _until(reader, C.SUCCESS, len(names))


async def _producer(target: Target, topic: str) -> Connection:
    reader, writer = await signed_in(target)
    writer.write(frames.command(C.PRODUCER, producer=pb.Producer(topic=topic, producer_id=1, request_id=1)))
    await _until(reader, C.PRODUCER_SUCCESS, 1)
    return reader, writer


async def _publish(connection: Connection, messages: list[bytes]) -> None:
    reader, writer = connection
    writer.write(b"".join(messages))
    await writer.drain()
    await _until(reader, C.SEND_RECEIPT, len(messages))


def _messages(count: int, **fields: object) -> list[bytes]:
    stamped = [pb.Metadata(producer_name="p", sequence_id=number, publish_time=1, **fields) for number in range(count)]  # type: ignore[arg-type]
    return [frames.build_send(1, number, metadata, b"x") for number, metadata in enumerate(stamped)]


async def sticky_ranges(target: Target, count: Count) -> None:
    topic = f"{NAMESPACE}sticky"
    consumers = [await signed_in(target) for _ in range(STICKY_CONSUMERS)]

    async def subscribe(number: int) -> None:
        ranges = [pb.IntRange(start=slot, end=slot) for slot in range(number, 65536, STICKY_CONSUMERS)][:STICKY_RANGES]
        meta = pb.KeySharedMeta(mode=pb.KeySharedMeta.STICKY, hash_ranges=ranges)
        await _subscribe(consumers[number], topic, ["s"], pb.Subscribe.Key_Shared, key_shared_meta=meta)

    for number in range(STICKY_CONSUMERS):
        await subscribe(number)
    while True:
        consumers[-1][1].write(frames.command(C.CLOSE_CONSUMER, close_consumer=pb.CloseConsumer(consumer_id=1, request_id=2)))
        await _until(consumers[-1][0], C.SUCCESS, 1)
        await subscribe(STICKY_CONSUMERS - 1)
        count.done += 1
        await asyncio.sleep(PAUSE_S)


async def consumers_of_a_connection(target: Target, count: Count) -> None:
    topic = f"{NAMESPACE}ring"
    stays = await signed_in(target)
    await _subscribe(stays, topic, ["s"], pb.Subscribe.Key_Shared)
    while True:
        leaving = await signed_in(target)
        await _subscribe(leaving, topic, ["s"] * RING_CONSUMERS, pb.Subscribe.Key_Shared)
        leaving[1].transport.abort()
        count.done += 1
        await asyncio.sleep(PAUSE_S)


async def rejecting_all(target: Target, count: Count) -> None:
    """Each subscription holds all that there is."""
    topic, consumer = f"{NAMESPACE}rejected", await signed_in(target)
    await _subscribe(consumer, topic, [f"s{number}" for number in range(SUBSCRIPTIONS)], pb.Subscribe.Shared)
    producer = await _producer(target, topic)
    for _ in range(HELD // 1_000):
        await _publish(producer, _messages(1_000))
    reader, writer = consumer
    ids = range(1, SUBSCRIPTIONS + 1)
    again = b"".join(
        frames.command(
            C.REDELIVER_UNACKNOWLEDGED_MESSAGES,
            redeliver_unacknowledged_messages=pb.RedeliverUnacknowledgedMessages(consumer_id=consumer_id),
        )
        for consumer_id in ids
    )
    permits = b"".join(frames.command(C.FLOW, flow=pb.Flow(consumer_id=consumer_id, message_permits=HELD)) for consumer_id in ids)
    while True:
        writer.write(permits)
        await _read_on(reader)
        writer.write(again)
        count.done += 1


async def _read_on(reader: asyncio.StreamReader) -> None:
    """What comes, until nothing does for a while."""
    try:
        while True:
            async with asyncio.timeout(0.5):
                if not await reader.read(1 << 20):
                    return
    except TimeoutError:
        return


async def first_chunks(target: Target, count: Count) -> None:
    topic, consumer = f"{NAMESPACE}chunks", await signed_in(target)
    await _subscribe(consumer, topic, [f"s{number}" for number in range(CHUNK_READERS)], pb.Subscribe.Shared)
    permits = (pb.Flow(consumer_id=number + 1, message_permits=1_000_000) for number in range(CHUNK_READERS))
    consumer[1].write(b"".join(frames.command(C.FLOW, flow=flow) for flow in permits))
    producer = await _producer(target, topic)
    for begun in itertools.count():
        chunks = [
            pb.Metadata(
                producer_name="p", sequence_id=number, publish_time=1, uuid=f"{begun}-{number}", chunk_id=0, num_chunks_from_msg=2
            )
            for number in range(CHUNKS)
        ]
        await _publish(producer, [frames.build_send(1, number, chunk, b"x", is_chunk=True) for number, chunk in enumerate(chunks)])
        await _read_on(consumer[0])
        count.done += CHUNKS


async def many_topics(target: Target, count: Count) -> None:
    """Loaded: `neighbours` changes the policies of their namespace meanwhile."""
    reader, writer = await signed_in(target)
    for number in range(1, LOADED_TOPICS + 1):
        opened = pb.Producer(topic=f"{NAMESPACE}loaded-{number}", producer_id=number, request_id=number)
        writer.write(frames.command(C.PRODUCER, producer=opened))
    for _ in range(LOADED_TOPICS):
        await _until(reader, C.PRODUCER_SUCCESS, 1)
        count.done += 1
    while True:
        await answer(reader)
        writer.write(frames.PONG)


async def due_together(target: Target, count: Count) -> None:
    due_ms = 0
    while True:
        reader, writer = await signed_in(target)
        for number in range(1, DELAYED_TOPICS + 1):
            opened = pb.Producer(topic=f"{NAMESPACE}delayed-{number}", producer_id=number, request_id=number)
            writer.write(frames.command(C.PRODUCER, producer=opened))
        await _until(reader, C.PRODUCER_SUCCESS, DELAYED_TOPICS)
        due_ms = (int(time.time() * 1000) + DELAY_MS) if due_ms == 0 else due_ms + 2 * DELAY_MS
        for number in range(1, DELAYED_TOPICS + 1):
            for sequence_id in range(DELAYED_EACH):
                metadata = pb.Metadata(producer_name="p", sequence_id=sequence_id, publish_time=1, deliver_at_time=due_ms)
                writer.write(frames.build_send(number, sequence_id, metadata, b"x"))
        await _until(reader, C.SEND_RECEIPT, DELAYED_TOPICS * DELAYED_EACH)
        count.done += DELAYED_TOPICS * DELAYED_EACH
        await asyncio.sleep(max(0.0, due_ms / 1000 - time.time()) + 1)
        writer.transport.abort()


async def subscribing(target: Target, count: Count) -> None:
    """Subscriptions that are made and deleted as fast as they go."""
    topic, at_once = f"{NAMESPACE}storm", 50
    connection = await signed_in(target)
    for turn in itertools.count():
        await _subscribe(connection, topic, [f"s{turn}-{number}" for number in range(at_once)], pb.Subscribe.Shared)
        for number in range(1, at_once + 1):
            asked = pb.Unsubscribe(consumer_id=number, request_id=number)
            connection[1].write(frames.command(C.UNSUBSCRIBE, unsubscribe=asked))
        await _until(connection[0], C.SUCCESS, at_once)
        count.done += at_once
