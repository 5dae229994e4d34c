"""The memory of a client whose broker is gone: programs go on sending, and nothing of it leaves."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator

import pytest

from messaging.client import errors
from messaging.client.message import MessageId
from tests.messaging.client.scripted import ScriptedBroker
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"
LIMIT_BYTES = 4 << 20
MESSAGE_BYTES = 4 << 10
ADMITTED = LIMIT_BYTES // MESSAGE_BYTES
FACTOR = 1.5  # what the process may take for each byte that is counted: objects of messages, frames of those that were sent


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("batching", [True, False], ids=["batches", "single messages"])
async def test_memory_stays_within_the_limit_while_the_broker_is_gone(traced: None, batching: bool) -> None:
    """Messages were kept beside the frames that they are in: it was twice the limit."""
    broker = ScriptedBroker()
    client = broker.client(memory_bytes_max=LIMIT_BYTES)
    producers = [
        await client.create_producer(
            f"{TOPIC}-{number}", batching=batching, block_if_full=number == 0, pending_max=ADMITTED, send_timeout_s=0
        )
        for number in range(4)
    ]
    try:
        broker.reachable = False
        broker.connection.lose()
        await eventually(lambda: not any(producer.statistics.partitions_connected for producer in producers))
        before_bytes, _ = tracemalloc.get_traced_memory()
        futures: list[asyncio.Future[MessageId]] = []
        refused = 0
        for number in range(10 * ADMITTED):
            try:
                futures.append(producers[number % 4].send_nowait(bytes(MESSAGE_BYTES)))
            except errors.QueueFull:
                refused += 1
            if number % 100 == 0:
                await asyncio.sleep(0)  # batches end, and would be sent
        used_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
        assert (len(futures), refused) == (ADMITTED, 9 * ADMITTED)
        assert client.statistics.pending_bytes == LIMIT_BYTES
        assert LIMIT_BYTES <= used_bytes <= FACTOR * LIMIT_BYTES

        with pytest.raises(errors.QueueFull):
            await producers[1].send(b"x")
        waiting = asyncio.create_task(producers[0].send(b"x"))
        await eventually(lambda: producers[0].statistics.waiting == 1)
        assert not waiting.done() and client.statistics.pending_bytes == LIMIT_BYTES

        broker.reachable = broker.answers_sends = True

        def stored() -> bool:
            broker.time.move(31.0)
            return waiting.done() and all(future.done() for future in futures)

        await eventually(stored)
        assert client.statistics.pending_bytes == 0
        assert all(future.exception() is None for future in futures)
    finally:
        for producer in producers:
            await producer.abort()
        await client.close()


async def test_what_timed_out_gives_its_memory_back_while_the_broker_is_still_gone() -> None:
    broker = ScriptedBroker()
    client = broker.client(memory_bytes_max=LIMIT_BYTES)
    producer = await client.create_producer(TOPIC, block_if_full=False, send_timeout_s=0.05)
    try:
        broker.reachable = False
        broker.connection.lose()
        await eventually(lambda: not producer.statistics.partitions_connected)
        future = producer.send_nowait(bytes(LIMIT_BYTES // 64))

        def timed_out() -> bool:
            broker.time.move(1.0)
            return future.done()

        await eventually(timed_out)
        assert isinstance(future.exception(), errors.SendTimedOut)
        assert client.statistics.pending_bytes == 0
    finally:
        await producer.abort()
        await client.close()
