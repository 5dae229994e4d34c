"""Entries that are unpacked on threads for consumers that take single messages."""

from __future__ import annotations

from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.local.unpacking import INLINE_BYTES_MAX, THREADS, Packed, Unpacker
from messaging.fairness.turns import FairTurns
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import compress
from messaging.storage.ledger_store import Position
from tests.support.waiting import eventually

BODY = bytes(2 * INLINE_BYTES_MAX)


def large_entry() -> Packed:
    metadata = pb.Metadata(
        producer_name="p", sequence_id=0, publish_time=1, compression=pb.LZ4, uncompressed_size=len(BODY)
    ).SerializeToString()
    payload = len(metadata).to_bytes(4, "big") + metadata + compress(pb.LZ4, BODY)
    return Packed(Position(1, 0), payload, 1, 0, 1)


def asking(tenant: str, turns: FairTurns, opened: list[str]) -> Unpacker:
    asked_for = SharedPermits()
    unpacker = Unpacker(
        MemoryLimiter(1 << 30).egress,
        tenant,
        1 << 20,
        -1,
        asked_for=asked_for,
        turns=turns,
        deliver=lambda messages: opened.extend(tenant for message in messages if message.payload == BODY),
        open_bits=lambda position, size: (1 << size) - 1,
        finished=lambda permits: None,
    )
    asked_for.ask(1)
    unpacker.add(large_entry())
    return unpacker


async def test_threads_that_unpack_are_taken_in_turns_by_tenant() -> None:
    """They were two, first come, first served."""
    turns, opened = FairTurns(1), list[str]()
    await turns.begin("busy")
    for _ in range(3):
        asking("a", turns, opened)
    gone = asking("a", turns, opened)
    asking("b", turns, opened)
    await eventually(lambda: turns.slots.waiting.total() == 5)
    gone.close()
    assert opened == []
    turns.end("busy")
    await eventually(lambda: len(opened) == 4)
    assert opened == ["a", "b", "a", "a"]
    assert gone.held_bytes == 0 and turns.slots.free == 1


async def test_a_tenant_leaves_a_thread_to_others() -> None:
    turns, opened = FairTurns(THREADS), list[str]()
    for _ in range(THREADS - 1):
        await turns.begin("a")
    asking("a", turns, opened)
    asking("b", turns, opened)
    await eventually(lambda: opened)
    assert opened == ["b"] and turns.slots.waiting["a"] == 1
    turns.end("a")
    await eventually(lambda: opened == ["b", "a"])
