"""Reading and writing the compacted ledger of a topic: one sparse ledger, with the ids of `compacted_ids.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from messaging.storage.ledger_store import EARLIEST, SPARSE, Block, LedgerWriter, Position, StoreError
from messaging.storage.managed.compacted_ids import ENTRY_MASK, LEDGERS_MAX, compacted_id, entries_in
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import CompactedLedger


class CompactedLog:
    """Reads one compacted ledger, as a log of that ledger alone."""

    __slots__ = ("_storage", "compacted", "ledger_list")

    def __init__(self, storage: Storage, compacted: CompactedLedger) -> None:
        self._storage = storage
        self.compacted = compacted
        self.ledger_list = LedgerList([(compacted.ledger_id, compacted_id(compacted.last, compacted.base_ledger_id))])

    async def read(self, position: Position, *, entries_max: int, bytes_max: int) -> list[Block]:
        """Blocks from the one on that holds the id of `position` or follows it. Raises `StoreError`."""
        reader = await self._storage.ledgers.open(position.ledger_id)
        try:
            return await reader.read(position.entry_id, entries_max=entries_max, bytes_max=bytes_max)
        finally:
            await reader.aclose()

    def forecast(self, position: Position, *, entries_max: int, bytes_max: int) -> int | Awaitable[int]:
        """0: where a read of a sparse ledger ends is not known before."""
        return 0


class CompactedWriter:
    """Writes a compacted ledger that nothing refers to yet: whoever made it deletes it, or hands what `finish` returns to the
    topic's record. After a crash it is an orphan."""

    def __init__(self, storage: Storage, writer: LedgerWriter) -> None:
        self._storage = storage
        self._writer = writer
        self._base_ledger_id = -1
        self._entries = 0
        self._last = EARLIEST

    @classmethod
    async def create(cls, storage: Storage, properties: dict[str, str]) -> CompactedWriter:
        """Raises `StoreError`."""
        ledger_id = await storage.meta.next_ledger_id(storage.fence)
        return cls(storage, await storage.ledgers.create(storage.fence, ledger_id, {**properties, SPARSE: "1"}))

    async def append(self, blocks: list[Block]) -> None:
        """Writes `blocks`, in the ids of the original ledgers, after everything before. Returns when they are durable. Raises
        `ValueError` for a block that does not follow, `StoreError`."""
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[None]] = []
        try:
            for block in blocks:
                done: asyncio.Future[None] = loop.create_future()
                self._append(block, done)
                waiting.append(done)
        finally:
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    def _append(self, block: Block, done: asyncio.Future[None]) -> None:
        first, last = Position(block.ledger_id, block.first_entry), Position(block.ledger_id, block.last_entry)
        if self._base_ledger_id < 0:
            self._base_ledger_id = block.ledger_id
        if first <= self._last or first.entry_id < 0 or last.entry_id > ENTRY_MASK:
            raise ValueError(f"entries {tuple(first)} to {tuple(last)} do not follow {tuple(self._last)}")
        if block.ledger_id - self._base_ledger_id >= LEDGERS_MAX:
            raise ValueError(f"ledger {block.ledger_id} is too far behind the first one, {self._base_ledger_id}")

        def appended(error: StoreError | None) -> None:
            if not done.done():
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)

        self._writer.skip_to(compacted_id(first, self._base_ledger_id))
        self._writer.append(block.header, block.data, block.end_offsets, appended)
        self._entries += entries_in(block.end_offsets)
        self._last = last

    async def finish(self, horizon: Position, last_batch_index: int) -> CompactedLedger:
        """Seals it. Raises `StoreError`."""
        await self._writer.close()
        return CompactedLedger(
            self._writer.ledger_id,
            horizon,
            max(0, self._base_ledger_id),
            self._entries,
            self._writer.length_bytes,
            self._last,
            last_batch_index,
            self._storage.clock_ms(),
        )

    async def drop(self) -> None:
        """Deletes it. Raises `StoreError`."""
        await self._storage.delete_ledger(self._writer.ledger_id)
