"""The writer of a ledger: checks, counts, and one push into the commit queue per append."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable

from messaging.storage.ledger_store import (
    Buffer,
    Done,
    Fence,
    LedgerClosed,
    LedgerInfo,
    StoreError,
    check_block,
    check_skip,
)
from messaging.storage.local.append_state import AppendState
from messaging.storage.local.format.records import FIXED_BYTES, SKIPPED
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.write.queue import CommitQueue, Item

HEADER_BYTES_MAX = 1 << 20


class LocalLedgerWriter(AppendState):
    __slots__ = ("_fence", "_queue", "_seal", "_state")

    def __init__(
        self,
        state: LedgerState,
        queue: CommitQueue,
        fence: Fence,
        seal: Callable[[LedgerState, Fence], Awaitable[LedgerInfo]],
    ) -> None:
        super().__init__(state.ledger_id)
        self._fence = fence
        self._state = state
        self._queue = queue
        self._seal = seal

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        if self.refusal is not None:
            raise self.refusal
        size = len(data)
        count = len(end_offsets)
        queue = self._queue
        if not count or end_offsets[-1] != size or size > queue.entry_bytes_max:
            check_block(data, end_offsets, queue.entry_bytes_max, self.ledger_id)
        if len(header) > HEADER_BYTES_MAX:
            raise ValueError(f"a block header of {len(header)} bytes; at most {HEADER_BYTES_MAX} are stored")
        first = self.next_entry
        self.next_entry = first + count
        self.length_bytes += size
        self.pending_bytes += size
        record_bytes = FIXED_BYTES + len(header) + 4 * count + size
        # `queue.push` inlined
        queue.pending.append((self._state, done, header, data, end_offsets, first, record_bytes))
        queue.pending_bytes += record_bytes
        if not queue.busy:
            queue.begin()
        return first

    def skip_to(self, entry_id: int) -> None:
        check_skip(entry_id, self.next_entry, self._state.properties, self.ledger_id)

    async def close(self) -> LedgerInfo:
        self.end(LedgerClosed(f"ledger {self.ledger_id} was closed", self.ledger_id))
        return await self._seal(self._state, self._fence)


class SparseLedgerWriter(LocalLedgerWriter):
    """Every block says how many ids were left out before it: so a reader can tell a gap from damage."""

    __slots__ = ("_skipped",)

    def __init__(
        self,
        state: LedgerState,
        queue: CommitQueue,
        fence: Fence,
        seal: Callable[[LedgerState, Fence], Awaitable[LedgerInfo]],
    ) -> None:
        super().__init__(state, queue, fence, seal)
        self._skipped = 0

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        first = super().append(SKIPPED.pack(self._skipped) + header, data, end_offsets, done)
        self._skipped = 0
        return first

    def skip_to(self, entry_id: int) -> None:
        super().skip_to(entry_id)
        self._skipped += entry_id - self.next_entry
        self.next_entry = entry_id


def control(loop: asyncio.AbstractEventLoop, state: LedgerState, type_: int, header: bytes) -> tuple[Item, asyncio.Future[None]]:
    """A record about a ledger, and the future that its commit completes."""
    future: asyncio.Future[None] = loop.create_future()

    def done(error: StoreError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    return (state, done, header, b"", None, type_, FIXED_BYTES + len(header) if type_ else 0), future
