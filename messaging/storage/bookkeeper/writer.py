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
from messaging.storage.bookkeeper.block_format import HEADER_BYTES_MAX, encode
from messaging.storage.bookkeeper.store_errors import told
from messaging.storage.ledger_store import (
    SPARSE,
    Buffer,
    Done,
    EntryTooLarge,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerInfo,
    StoreError,
    check_block,
    check_skip,
)


class PendingAdd(NamedTuple):
    """`end_bytes`: of the ledger, with it."""

    last: int
    size_bytes: int
    end_bytes: int
    done: Done


class WriterOwner(NamedTuple):
    """What a writer needs of its store. `why_failed` finds out what an append that failed is answered with; `confirmed` is told the
    bytes of each that did not."""

    entry_bytes_max: int
    seal: Callable[[Fence, int], Awaitable[LedgerInfo]]
    why_failed: Callable[[BookkeeperLedgerWriter, BookkeeperError], Awaitable[StoreError]]
    confirmed: Callable[[int], None]


class BookkeeperLedgerWriter:
    """`last_block` is the add of `last_confirmed`, and `confirmed_bytes` are those of the entries up to it."""

    __slots__ = (
        "_after",
        "_appends",
        "_failing",
        "_owner",
        "_refusal",
        "_settled",
        "bookkeeper",
        "confirmed_bytes",
        "fence",
        "last_block",
        "last_confirmed",
        "ledger_id",
        "length_bytes",
        "next_entry",
        "pending_bytes",
        "properties",
    )

    def __init__(
        self, ledger_id: int, fence: Fence, properties: dict[str, str], bookkeeper: LedgerWriter, owner: WriterOwner
    ) -> None:
        self.ledger_id = ledger_id
        self.fence = fence
        self.properties = properties
        self.bookkeeper = bookkeeper
        self.last_confirmed = self.last_block = -1
        self.confirmed_bytes = 0
        self.next_entry = 0
        self.length_bytes = 0
        self.pending_bytes = 0
        self._owner = owner
        self._after = -1
        self._appends: deque[PendingAdd] = deque()  # those without an answer
        self._failing: asyncio.Task[None] | None = None
        self._refusal: StoreError | None = None
        self._settled: list[asyncio.Future[None]] | None = None

    @property
    def sparse(self) -> bool:
        return SPARSE in self.properties

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        if self._refusal is not None:
            raise self._refusal
        check_block(data, end_offsets, self._owner.entry_bytes_max, self.ledger_id)
        if len(header) > HEADER_BYTES_MAX:
            raise ValueError(f"a block header of {len(header)} bytes; at most {HEADER_BYTES_MAX} are stored")
        first, size = self.next_entry, len(data)
        payload = encode(header, data, end_offsets, first, self._after, self.length_bytes + size)
        try:
            future = self.bookkeeper.append(*payload)
        except AddTooLarge as error:
            raise EntryTooLarge(f"a block of {size} bytes does not fit: {error}", self.ledger_id) from None
        except BookkeeperError as error:  # it ended, and whoever waits is told
            self.end(LedgerClosed(f"ledger {self.ledger_id} accepts no more appends: {error}", self.ledger_id))
            raise LedgerClosed(str(self._refusal), self.ledger_id) from None
        self.length_bytes += size
        self.pending_bytes += size
        self._after = last = first + len(end_offsets) - 1
        self.next_entry = last + 1
        self._appends.append(PendingAdd(last, size, self.length_bytes, done))
        future.add_done_callback(self._answered)
        return first

    def skip_to(self, entry_id: int) -> None:
        check_skip(entry_id, self.next_entry, self.properties, self.ledger_id)
        self.next_entry = entry_id

    async def close(self) -> LedgerInfo:
        self.end(LedgerClosed(f"ledger {self.ledger_id} was closed", self.ledger_id))
        return await self._owner.seal(self.fence, self.ledger_id)

    def end(self, reason: StoreError) -> None:
        """No more appends. That another one has the ledger now is the better reason."""
        if self._refusal is None or isinstance(reason, Fenced):
            self._refusal = reason

    async def settled(self) -> None:
        """Waits until everything that was appended has its answer."""
        if self._appends:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled = [*(self._settled or ()), waiter]
            await waiter

    def info(self, *, sealed: bool) -> LedgerInfo:
        return LedgerInfo(self.ledger_id, self.last_confirmed, self.confirmed_bytes, sealed, dict(self.properties))

    def _answered(self, future: asyncio.Future[int]) -> None:
        """In the order of appends, for each once."""
        error = future.exception()
        if error is None and self._failing is None:
            append = self._appends.popleft()
            self.last_block = future.result()
            self.last_confirmed, self.confirmed_bytes = append.last, append.end_bytes
            self._owner.confirmed(append.size_bytes)
            self._answer(append, None)
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
                self._answer(self._appends.popleft(), reason)

    def _answer(self, append: PendingAdd, error: StoreError | None) -> None:
        self.pending_bytes -= append.size_bytes
        try:
            append.done(error)
        except Exception as raised:
            context = {"message": "a callback of the ledger store raised", "exception": raised}
            asyncio.get_running_loop().call_exception_handler(context)
        if not self._appends and self._settled is not None:
            waiters, self._settled = self._settled, None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
