"""The writer of a ledger on bookies: checks, counts, and makes each block one add."""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from messaging.bookkeeper.errors import BookkeeperError
from messaging.bookkeeper.errors import EntryTooLarge as AddTooLarge
from messaging.bookkeeper.shell.ledger_writer import LedgerWriter
from messaging.storage.answered_writer import AnsweredWriter, Seal
from messaging.storage.bookkeeper.block_format import HEADER_BYTES_MAX, encode
from messaging.storage.bookkeeper.store_errors import told
from messaging.storage.ledger_store import Buffer, Done, EntryTooLarge, Fence, LedgerClosed, LedgerInfo, StoreError


class PendingAdd(NamedTuple):
    """`end_bytes`: of the ledger, with it."""

    last: int
    size_bytes: int
    end_bytes: int
    done: Done


class WriterOwner(NamedTuple):
    """What a writer needs of its store. `why_failed` finds out what an append that failed is answered with; `confirmed` is told the
    bytes of each that did not. `withholds`: whether the outcome of an append is told later, by the call that it is given."""

    entry_bytes_max: int
    seal: Seal
    why_failed: Callable[[BookkeeperLedgerWriter, BookkeeperError], Awaitable[StoreError]]
    confirmed: Callable[[int], None]
    withholds: Callable[[Callable[[asyncio.Future[int]], None], asyncio.Future[int]], bool]


class BookkeeperLedgerWriter(AnsweredWriter):
    """`last_block` is the add of `last_confirmed`."""

    __slots__ = ("_appends", "_failing", "_owner", "bookkeeper", "last_block")

    def __init__(
        self, ledger_id: int, fence: Fence, properties: dict[str, str], bookkeeper: LedgerWriter, owner: WriterOwner
    ) -> None:
        super().__init__(ledger_id, fence, properties, owner.seal)
        self.bookkeeper = bookkeeper
        self.last_block = -1
        self._owner = owner
        self._appends: deque[PendingAdd] = deque()  # those without an answer
        self._failing: asyncio.Task[None] | None = None

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        self.check(header, data, end_offsets, self._owner.entry_bytes_max, HEADER_BYTES_MAX)
        first, size = self.next_entry, len(data)
        payload = encode(header, data, end_offsets, first, self._after, self.length_bytes + size)
        try:
            future = self.bookkeeper.append(*payload)
        except AddTooLarge as error:
            raise EntryTooLarge(f"a block of {size} bytes does not fit: {error}", self.ledger_id) from None
        except BookkeeperError as error:  # it ended, and whoever waits is told
            self.end(LedgerClosed(f"ledger {self.ledger_id} accepts no more appends: {error}", self.ledger_id))
            raise LedgerClosed(str(self._refusal), self.ledger_id) from None
        last = self.count(len(end_offsets), size)
        self._appends.append(PendingAdd(last, size, self.length_bytes, done))
        future.add_done_callback(self._answered)
        return first

    def info(self, *, sealed: bool) -> LedgerInfo:
        return LedgerInfo(self.ledger_id, self.last_confirmed, self.confirmed_bytes, sealed, dict(self.properties))

    def _answered(self, future: asyncio.Future[int]) -> None:
        """In the order of appends, for each once."""
        if not self._owner.withholds(self._tell_of, future):
            self._tell_of(future)

    def _tell_of(self, future: asyncio.Future[int]) -> None:
        error = future.exception()
        if error is None and self._failing is None:
            append = self._appends.popleft()
            self.last_block = future.result()
            self.confirm(append.last, append.end_bytes)
            self._owner.confirmed(append.size_bytes)
            self.tell(append.done, append.size_bytes, None)
        elif self._failing is None:
            assert isinstance(error, BookkeeperError)
            # The first that failed: all behind it fail as well, and are answered together.
            self.end(LedgerClosed(f"ledger {self.ledger_id} accepts no more appends: {error}", self.ledger_id))
            self._failing = asyncio.get_running_loop().create_task(self._fail(error))

    async def _fail(self, error: BookkeeperError) -> None:
        try:
            reason = await self._owner.why_failed(self, error)
        except BaseException:
            reason = told(error, self.ledger_id)
            raise
        finally:
            self.end(reason)
            while self._appends:
                append = self._appends.popleft()
                self.tell(append.done, append.size_bytes, reason)
