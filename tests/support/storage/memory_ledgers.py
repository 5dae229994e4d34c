"""In-memory twins of both stores: for tests of what stands above, and as the plainest statement of what the interfaces promise.

Nothing survives the process. `MemoryLedgerStore(previous)` opens what another instance holds, as after a crash of its owner: what
was confirmed is there, the older instance is fenced.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from typing import Self

from messaging.storage.fence_table import FenceTable, scope_of, with_scope
from messaging.storage.ledger_store import (
    READ_BYTES,
    SPARSE,
    Block,
    Buffer,
    Done,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerExists,
    LedgerInfo,
    NoSuchEntry,
    NoSuchLedger,
    StoreError,
    StoreStatistics,
    Unavailable,
    check_block,
    check_skip,
)
from tests.support.storage.memory_meta import MemoryMetaStore

__all__ = ["MemoryLedgerStore", "MemoryMetaStore"]


class _Ledger:
    """One ledger's blocks. `blocks` and `firsts` hold the confirmed ones only."""

    __slots__ = ("blocks", "deleted", "firsts", "last_entry", "length_bytes", "properties", "sealed", "writer")

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = dict(properties)
        self.blocks: list[Block] = []
        self.firsts: list[int] = []
        self.last_entry = -1
        self.length_bytes = 0
        self.sealed = False
        self.deleted = False
        self.writer: MemoryLedgerWriter | None = None

    def confirm(self, block: Block) -> None:
        self.blocks.append(block)
        self.firsts.append(block.first_entry)
        self.last_entry = block.last_entry
        self.length_bytes += len(block.data)

    def blocks_from(self, first: int, entries_max: int, bytes_max: int) -> list[Block]:
        at = max(0, bisect_right(self.firsts, first) - 1)
        if self.blocks[at].last_entry < first:
            at += 1
        blocks_read: list[Block] = []
        size = entries = 0
        for block in self.blocks[at:]:
            size += len(block.data)
            if blocks_read and (size > bytes_max or entries >= entries_max):
                break
            blocks_read.append(block)
            entries += block.last_entry + 1 - max(first, block.first_entry)
        return blocks_read

    def info(self, ledger_id: int) -> LedgerInfo:
        return LedgerInfo(ledger_id, self.last_entry, self.length_bytes, self.sealed, dict(self.properties))


class MemoryLedgerWriter:
    def __init__(self, store: MemoryLedgerStore, ledger_id: int, ledger: _Ledger) -> None:
        self.ledger_id = ledger_id
        self.last_confirmed = -1
        self.next_entry = 0
        self.length_bytes = 0
        self.pending_bytes = 0
        self._store = store
        self._ledger = ledger
        self._pending: list[tuple[Block, Done]] = []
        self.fenced = False  # its scope was taken over
        self._closed = False

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        if self.fenced or self._store.fenced:
            raise Fenced(f"ledger {self.ledger_id}: a newer owner opened the store", self.ledger_id)
        if self._closed or self._ledger.sealed:
            raise LedgerClosed(f"ledger {self.ledger_id} takes no more appends", self.ledger_id)
        check_block(data, end_offsets, self._store.entry_bytes_max, self.ledger_id)
        first = self.next_entry
        block = Block(self.ledger_id, first, header, bytes(data), array("I", end_offsets))
        self.next_entry += len(end_offsets)
        self.length_bytes += len(block.data)
        self.pending_bytes += len(block.data)
        self._pending.append((block, done))
        if len(self._pending) == 1:
            asyncio.get_running_loop().call_soon(self._flush)
        return first

    def skip_to(self, entry_id: int) -> None:
        check_skip(entry_id, self.next_entry, self._ledger.properties, self.ledger_id)
        self.next_entry = entry_id

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for block, done in pending:
            self.pending_bytes -= len(block.data)
            if self.fenced or self._store.fenced:
                done(Fenced(f"ledger {self.ledger_id}: a newer owner opened the store", self.ledger_id))
                continue
            self._ledger.confirm(block)
            self._store.written_bytes += len(block.data)
            self.last_confirmed = block.last_entry
            done(None)

    def end(self) -> None:
        """No more appends; what was appended is confirmed at once."""
        self._closed = True
        self._flush()

    async def close(self) -> LedgerInfo:
        await asyncio.sleep(0)
        if self.fenced or self._store.fenced:
            raise Fenced(f"ledger {self.ledger_id}: a newer owner opened the store", self.ledger_id)
        if self._ledger.deleted:
            raise NoSuchLedger(f"ledger {self.ledger_id} was deleted", self.ledger_id)
        self.end()
        self._ledger.sealed = True
        return self._ledger.info(self.ledger_id)


class MemoryLedgerReader:
    def __init__(self, ledger_id: int, ledger: _Ledger) -> None:
        self.ledger_id = ledger_id
        self._ledger = ledger

    async def read(self, first: int, *, entries_max: int, bytes_max: int) -> list[Block]:
        ledger = self._ledger
        if ledger.deleted:
            raise NoSuchLedger(f"ledger {self.ledger_id} was deleted", self.ledger_id)
        if not 0 <= first <= ledger.last_entry:
            raise NoSuchEntry(f"ledger {self.ledger_id} ends at entry {ledger.last_entry}; {first} was asked for", self.ledger_id)
        return ledger.blocks_from(first, entries_max, bytes_max)

    async def aclose(self) -> None:
        return None


class MemoryLedgerStore:
    """`LedgerStore` in memory. `previous`: an instance whose ledgers this one takes over, fencing it."""

    def __init__(self, previous: Self | None = None, *, entry_bytes_max: int = 5 << 20) -> None:
        self.read_bytes = READ_BYTES
        self.entry_bytes_max: int = entry_bytes_max if previous is None else previous.entry_bytes_max
        self.failed: StoreError | None = None
        self.fenced = False
        self.written_bytes = 0
        self._previous = previous
        self._ledgers: dict[int, _Ledger] = {} if previous is None else previous._ledgers
        self.epoch: int = 0 if previous is None else previous.epoch
        self._fences = FenceTable(0)
        self._running = False

    async def start(self) -> None:
        if self._previous is not None:
            self._previous.fenced = True
            self.epoch = max(self.epoch, self._previous.epoch)
        self.epoch += 1
        self._fences = FenceTable(self.epoch)
        self._running = True

    async def take_over(self, fence: Fence) -> None:
        if self._fences.admit(fence):
            for ledger in self._ledgers.values():
                if ledger.writer is not None and scope_of(ledger.properties) == fence.scope:
                    ledger.writer.end()
                    ledger.writer.fenced = True

    async def stop(self) -> None:
        for ledger in self._ledgers.values():
            if ledger.writer is not None:
                ledger.writer.end()
                ledger.writer = None
        self._running = False

    async def create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> MemoryLedgerWriter:
        self._check(fence)
        await asyncio.sleep(0)
        if ledger_id in self._ledgers:
            raise LedgerExists(f"ledger {ledger_id} exists", ledger_id)
        ledger = self._ledgers[ledger_id] = _Ledger(with_scope(properties, fence.scope))
        ledger.writer = MemoryLedgerWriter(self, ledger_id, ledger)
        return ledger.writer

    async def seal(self, fence: Fence, ledger_id: int) -> LedgerInfo:
        self._check(fence)
        await asyncio.sleep(0)
        ledger = self._get(ledger_id)
        if ledger.writer is not None:
            ledger.writer.end()
            ledger.writer = None
        ledger.sealed = True
        return ledger.info(ledger_id)

    async def open(self, ledger_id: int) -> MemoryLedgerReader:
        return MemoryLedgerReader(ledger_id, self._get(ledger_id))

    def forecast(self, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> int:
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or SPARSE in ledger.properties or not 0 <= first <= ledger.last_entry:
            return 0
        return ledger.blocks_from(first, entries_max, bytes_max)[-1].last_entry + 1 - first

    async def delete(self, fence: Fence, ledger_id: int) -> None:
        self._check(fence)
        await asyncio.sleep(0)
        ledger = self._ledgers.pop(ledger_id, None)
        if ledger is not None:
            if ledger.writer is not None:
                ledger.writer.end()
            ledger.deleted = True

    async def info(self, ledger_id: int) -> LedgerInfo:
        return self._get(ledger_id).info(ledger_id)

    async def ledgers(self) -> list[LedgerInfo]:
        return [ledger.info(ledger_id) for ledger_id, ledger in sorted(self._ledgers.items())]

    async def ledger_ids(self, scope: str) -> list[int]:
        return [ledger_id for ledger_id, ledger in self._ledgers.items() if scope_of(ledger.properties) == scope]

    def statistics(self) -> StoreStatistics:
        """Memory is no file and is never forced anywhere; the bytes are those of ledgers that exist."""
        return StoreStatistics(0, 0.0, self.written_bytes, 0, sum(ledger.info(0).length_bytes for ledger in self._ledgers.values()))

    def _get(self, ledger_id: int) -> _Ledger:
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            raise NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
        return ledger

    def _check(self, fence: Fence) -> None:
        if not self._running:
            raise Unavailable("the store is not running")
        if self.fenced:
            raise Fenced(f"epoch {fence.epoch} no longer owns the store")
        self._fences.check(fence)
