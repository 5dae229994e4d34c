"""What an idle topic's managed ledger costs in memory: there may be 100,000 of them."""

from __future__ import annotations

import gc
import tracemalloc
from array import array
from dataclasses import replace
from typing import Any

from messaging.storage.ledger_store import Fence, StoreError
from messaging.storage.managed.ledger import ManagedLedger, Storage
from messaging.storage.managed.owned_range import OwnedRange
from messaging.storage.managed.pending_append import PendingAppend
from messaging.storage.meta_store import TopicRecord

COUNT = 3_000
IDLE_BYTES_MAX = 560  # measured: 553


class Writer:
    __slots__ = ("answers", "ledger_id", "length_bytes", "next_entry", "pending_bytes")

    ledger_id: int
    length_bytes: int
    next_entry: int
    pending_bytes: int

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers

    def append(self, header: bytes, data: bytes, end_offsets: array[int], done: Any) -> int:
        self.answers.append(done)
        self.next_entry += len(end_offsets)
        return self.next_entry - len(end_offsets)


class Stores:
    """Both stores, keeping nothing; the writers are made before anything is counted."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.writers = [Writer(self.answers) for _ in range(COUNT)]
        self.ledger_id = 1_000

    async def next_ledger_id(self, fence: Fence, *, after: int = 0) -> int:
        self.ledger_id += 1
        return self.ledger_id

    async def create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> Writer:
        writer = self.writers.pop()
        writer.ledger_id, writer.next_entry, writer.length_bytes, writer.pending_bytes = ledger_id, 0, 0, 0
        return writer

    async def cas_topic(self, fence: Fence, record: TopicRecord) -> TopicRecord:
        return replace(record, version=record.version + 1)


class Block(PendingAppend):
    __slots__ = ()

    def confirmed(self, error: StoreError | None) -> None: ...


async def test_an_idle_one_is_small_before_and_after_it_was_used() -> None:
    stores: Any = Stores()
    clock = iter(range(1_700_000_000_000, 1_800_000_000_000))
    storage = Storage(stores, stores, OwnedRange(Fence("test", 1), 1), lambda: next(clock))
    names = [f"persistent://acme/orders/topic-{number}" for number in range(COUNT)]
    kept: list[ManagedLedger | None] = [None] * COUNT
    gc.collect()
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        for number, name in enumerate(names):
            record = TopicRecord(name, created_ms=storage.clock_ms())
            opened = kept[number] = await ManagedLedger.open(storage, record, {"tenant": "acme"})
            await opened.writable()
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - start) / COUNT
        assert each <= IDLE_BYTES_MAX, each
        for ledger in kept:
            assert ledger is not None
            ledger.stamp()
            ledger.append(b"", b"x", array("I", [1]), Block())
        for answer in stores.answers:
            answer(None)
        stores.answers.clear()
        del answer
        gc.collect()
        used = (tracemalloc.get_traced_memory()[0] - start) / COUNT
        assert used <= each + 48, used  # a later stamp, and its writer's counts
    finally:
        tracemalloc.stop()
