"""What writers of ledgers have in common whose appends are answered later, in their order: what was asked for and confirmed."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable

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

Seal = Callable[[Fence, int], Awaitable[LedgerInfo]]


class AnsweredWriter:
    """Of the event loop. `confirmed_bytes`: of the entries up to `last_confirmed`. A subclass has `append`, which calls `check` and
    `count`, and calls `confirm`, where it succeeded, and `tell` for each in their order."""

    __slots__ = (
        "_after",
        "_refusal",
        "_seal",
        "_settled",
        "_waiting",
        "confirmed_bytes",
        "fence",
        "last_confirmed",
        "ledger_id",
        "length_bytes",
        "next_entry",
        "pending_bytes",
        "properties",
    )

    def __init__(self, ledger_id: int, fence: Fence, properties: dict[str, str], seal: Seal) -> None:
        self.ledger_id = ledger_id
        self.fence = fence
        self.properties = properties
        self.last_confirmed = -1
        self.confirmed_bytes = 0
        self.next_entry = 0
        self.length_bytes = 0
        self.pending_bytes = 0
        self._seal = seal
        self._after = -1  # the last entry that was asked for
        self._waiting = 0  # appends without an answer
        self._refusal: StoreError | None = None
        self._settled: list[asyncio.Future[None]] | None = None

    @property
    def sparse(self) -> bool:
        return SPARSE in self.properties

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

    @property
    def is_over(self) -> bool:
        """Whether it takes no more appends and has all its answers."""
        return self._refusal is not None and not self._waiting

    async def settled(self) -> None:
        """Waits until everything that was appended has its answer."""
        if self._waiting:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settled = [*(self._settled or ()), waiter]
            await waiter

    # --- for subclasses

    def check(self, header: bytes, data: Buffer, end_offsets: array[int], entry_bytes_max: int, header_bytes_max: int) -> None:
        """Raises `StoreError` for what is refused, `ValueError` for what no caller may ask for."""
        if self._refusal is not None:
            raise self._refusal
        check_block(data, end_offsets, entry_bytes_max, self.ledger_id)
        if len(header) > header_bytes_max:
            raise ValueError(f"a block header of {len(header)} bytes; at most {header_bytes_max} are stored")

    def count(self, entries: int, size_bytes: int) -> int:
        """One more append is on its way. Returns its last entry."""
        self.length_bytes += size_bytes
        self.pending_bytes += size_bytes
        self._waiting += 1
        self._after = self.next_entry + entries - 1
        self.next_entry = self._after + 1
        return self._after

    def confirm(self, last: int, end_bytes: int) -> None:
        """`end_bytes`: of the ledger, with this append."""
        self.last_confirmed, self.confirmed_bytes = last, end_bytes

    def tell(self, done: Done, size_bytes: int, error: StoreError | None) -> None:
        """An append has its answer."""
        self.pending_bytes -= size_bytes
        try:
            done(error)
        except Exception as raised:
            context = {"message": "a callback of the ledger store raised", "exception": raised}
            asyncio.get_running_loop().call_exception_handler(context)
        self._waiting -= 1
        if not self._waiting and self._settled is not None:
            waiters, self._settled = self._settled, None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
