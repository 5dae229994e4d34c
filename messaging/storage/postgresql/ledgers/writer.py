"""The writer of a ledger in PostgreSQL: checks, counts, and puts each append into the queue of the commit thread."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from messaging.storage.ledger_store import (
    SPARSE,
    Buffer,
    Done,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerInfo,
    StoreError,
    check_block,
    check_skip,
)

HEADER_BYTES_MAX = 1 << 20


@dataclass(frozen=True, eq=False, slots=True)
class Append:
    """`after`: the last entry before its first. `end_bytes`: of the ledger, with it."""

    writer: PostgresqlLedgerWriter
    first: int
    after: int
    end_bytes: int
    header: bytes
    data: Buffer
    end_offsets: array[int]
    done: Done

    @property
    def fence(self) -> Fence:
        return self.writer.fence

    @property
    def last(self) -> int:
        return self.first + len(self.end_offsets) - 1

    @property
    def size_bytes(self) -> int:
        return len(self.data) + len(self.header) + 4 * len(self.end_offsets)


class PostgresqlLedgerWriter:
    """`failed` is the commit thread's: an append failed, so none of those behind it may succeed. The rest is of the event loop.
    `confirmed_bytes`: of the entries up to `last_confirmed`."""

    __slots__ = (
        "_after",
        "_entry_bytes_max",
        "_put",
        "_refusal",
        "_seal",
        "_settled",
        "_waiting",
        "confirmed_bytes",
        "failed",
        "fence",
        "last_confirmed",
        "ledger_id",
        "length_bytes",
        "next_entry",
        "pending_bytes",
        "properties",
    )

    def __init__(
        self,
        ledger_id: int,
        fence: Fence,
        properties: dict[str, str],
        entry_bytes_max: int,
        put: Callable[[str, Append], None],
        seal: Callable[[Fence, int], Awaitable[LedgerInfo]],
    ) -> None:
        self.ledger_id = ledger_id
        self.fence = fence
        self.properties = properties
        self.last_confirmed = -1
        self.confirmed_bytes = 0
        self.next_entry = 0
        self.length_bytes = 0
        self.pending_bytes = 0
        self.failed = False
        self._after = -1
        self._waiting = 0  # appends without an answer
        self._refusal: StoreError | None = None
        self._settled: list[asyncio.Future[None]] | None = None
        self._entry_bytes_max = entry_bytes_max
        self._put = put
        self._seal = seal

    @property
    def turn(self) -> str:
        """The tenant whose share of a commit its appends use."""
        return self.properties.get("tenant", "")

    @property
    def sparse(self) -> bool:
        return SPARSE in self.properties

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        if self._refusal is not None:
            raise self._refusal
        check_block(data, end_offsets, self._entry_bytes_max, self.ledger_id)
        if len(header) > HEADER_BYTES_MAX:
            raise ValueError(f"a block header of {len(header)} bytes; at most {HEADER_BYTES_MAX} are stored")
        first = self.next_entry
        self.length_bytes += len(data)
        self.pending_bytes += len(data)
        self._waiting += 1
        append = Append(self, first, self._after, self.length_bytes, header, data, end_offsets, done)
        self._after = append.last
        self.next_entry = append.last + 1
        self._put(self.turn, append)
        return first

    def skip_to(self, entry_id: int) -> None:
        check_skip(entry_id, self.next_entry, self.properties, self.ledger_id)
        self.next_entry = entry_id

    async def close(self) -> LedgerInfo:
        self.end(LedgerClosed(f"ledger {self.ledger_id} was closed", self.ledger_id))
        return await self._seal(self.fence, self.ledger_id)

    def end(self, reason: StoreError) -> None:
        """No more appends. That another one has the ledger now is the better reason."""
        if self._refusal is None or isinstance(reason, Fenced):
            self._refusal = reason

    async def settled(self) -> None:
        """Waits until everything that was appended has its answer."""
        if self._waiting:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled = [*(self._settled or ()), waiter]
            await waiter

    def answer(self, append: Append, error: StoreError | None) -> None:
        """On the loop, in the order of appends."""
        size = len(append.data)
        self.pending_bytes -= size
        if error is None:
            self.last_confirmed = append.last
            self.confirmed_bytes = append.end_bytes
        elif not isinstance(self._refusal, Fenced):
            self.end(LedgerClosed(f"ledger {self.ledger_id} accepts no more appends: {error}", self.ledger_id))
        try:
            append.done(error)
        except Exception as raised:
            context = {"message": "a callback of the ledger store raised", "exception": raised}
            asyncio.get_running_loop().call_exception_handler(context)
        self._waiting -= 1
        if not self._waiting and self._settled is not None:
            waiters, self._settled = self._settled, None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
