"""What a store on bookies does for a backup that copies its ledgers while they are written.

The moment of a backup is when all brokers are held. Appends go on to the bookies meanwhile, but nobody is told of their outcome,
nor of a ledger that was made, sealed or taken over. So what a broker knew at that moment is all that the metadata beside it can
refer to, and holding needs no answer of any server.

From then on until the backup has ended, ledgers that are to be deleted stay, and those that are made are noted: they are not of the
moment. Nothing of it is stored. If this broker ends, what it was still to delete is referred to by nothing, and is collected as any
other orphan.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from heapq import merge
from itertools import islice

from messaging.storage.bookkeeper.writer import BookkeeperLedgerWriter
from messaging.storage.ledger_store import Fence, Fenced, StoreError
from messaging.storage.noted_ledgers import NOT_OF_THE_MOMENT, LedgerEnd

TOLD_AT_ONCE = 256  # appends that are answered in one turn of the event loop, when a hold has ended
NOTED_AT_ONCE = 4096
DELETES_AT_ONCE = 16
AGAIN_S = 10.0  # until what could not be deleted is tried again


class HeldLedgers:
    """Of the event loop. `delete` deletes a ledger at last."""

    def __init__(self, delete: Callable[[Fence, int], Awaitable[None]]) -> None:
        self.kept = False
        self.scopes: dict[str, int] = {}  # of ledgers that were written at the moment, and the epoch of their writer
        self._delete = delete
        self._held = False
        self._withheld: deque[tuple[Callable[[asyncio.Future[int]], None], asyncio.Future[int]]] = deque()
        self._going = asyncio.Event()
        self._going.set()
        self._making: set[int] = set()
        self._deleting: set[int] = set()
        self._deferred: dict[int, Fence] = {}
        self._ends: dict[int, int] = {}
        self._sorted: list[int] | None = None
        self._deletes: asyncio.Task[None] | None = None

    # --- the moment

    async def hold(self, writers: Mapping[int, BookkeeperLedgerWriter]) -> None:
        """From the call on nothing is answered; returns when it is noted where ledgers end. A writer that is over has nothing that
        anybody could still be told: its ledger ends where it is closed, or where its next owner finds the end."""
        self._held = True
        self._going.clear()
        self._sorted, self.scopes = None, {}
        self._ends = dict.fromkeys((*self._making, *self._deleting), NOT_OF_THE_MOMENT)
        there = list(writers.values())
        for start in range(0, len(there), NOTED_AT_ONCE):
            for writer in there[start : start + NOTED_AT_ONCE]:
                if writer.is_over:
                    continue
                self._ends.setdefault(writer.ledger_id, writer.last_block)
                self.scopes[writer.fence.scope] = max(writer.fence.epoch, self.scopes.get(writer.fence.scope, 0))
            await asyncio.sleep(0)

    def resume(self) -> None:
        if self._held:
            self._held = False
            self._tell()

    def keep(self, kept: bool) -> None:
        """Whether ledgers that are needed no longer stay."""
        self.kept = kept
        if not kept:
            self._ends, self._sorted, self.scopes = {}, None, {}
            if self._deferred and (self._deletes is None or self._deletes.done()):
                self._deletes = asyncio.get_running_loop().create_task(self._delete_deferred())

    async def ends(self, after: int, ends_max: int) -> list[LedgerEnd]:
        """By id, of those above `after`, with those that came since the moment and are not of it. The first call settles which."""
        if self._sorted is None:
            await self._sort()
        if self._sorted is None:
            return []  # files are kept no longer
        start = bisect_right(self._sorted, after)
        return [LedgerEnd(ledger_id, self._ends[ledger_id]) for ledger_id in self._sorted[start : start + ends_max]]

    async def _sort(self) -> None:
        """In slices: 100,000 ledgers at once would hold the loop up for everybody."""
        ends = self._ends
        ids = list(ends)
        runs = []
        for start in range(0, len(ids), NOTED_AT_ONCE):
            runs.append(sorted(ids[start : start + NOTED_AT_ONCE]))
            await asyncio.sleep(0)
        in_order = list[int]()
        merged = merge(*runs)
        while some := list(islice(merged, NOTED_AT_ONCE)):
            in_order += some
            await asyncio.sleep(0)
        if self._ends is ends and self._sorted is None:
            self._sorted = in_order

    async def stop(self) -> None:
        """What is still to be deleted is left."""
        self.resume()
        while self._withheld:
            self._tell()
        if self._deletes is not None:
            self._deletes.cancel()
            await asyncio.gather(self._deletes, return_exceptions=True)

    # --- what the store does meanwhile

    def withholds(self, told: Callable[[asyncio.Future[int]], None], future: asyncio.Future[int]) -> bool:
        """Whether `told` is called later with the outcome of an append: while ledgers are held, and until those before it were."""
        if not self._held and not self._withheld:
            return False
        self._withheld.append((told, future))
        return True

    async def going(self) -> None:
        """Returns when nothing is held."""
        while not self._going.is_set():
            await self._going.wait()

    @contextmanager
    def making(self, ledger_id: int) -> Iterator[None]:
        """Around all that is done before whoever wants the ledger is told of it."""
        self._making.add(ledger_id)
        if self.kept:
            self._ends[ledger_id] = NOT_OF_THE_MOMENT
        try:
            yield
        finally:
            self._making.discard(ledger_id)

    @contextmanager
    def deleting(self, ledger_id: int) -> Iterator[None]:
        self._deleting.add(ledger_id)
        try:
            yield
        finally:
            self._deleting.discard(ledger_id)

    def defer(self, fence: Fence, ledger_id: int) -> None:
        self._deferred[ledger_id] = fence

    def is_deferred(self, ledger_id: int) -> bool:
        """Whether it is deleted for everybody but the backup."""
        return ledger_id in self._deferred

    # --- inside

    def _tell(self) -> None:
        for _ in range(min(TOLD_AT_ONCE, len(self._withheld))):
            if self._held:  # again
                return
            told, future = self._withheld.popleft()
            told(future)
        if self._withheld:
            asyncio.get_running_loop().call_soon(self._tell_on)
        elif not self._held:
            self._going.set()

    def _tell_on(self) -> None:
        if not self._held:
            self._tell()

    async def _delete_deferred(self) -> None:
        """A few at a time, again and again, until all are gone or the next backup keeps them. What fails goes behind the others."""
        while self._deferred and not self.kept:
            some = list(self._deferred.items())[:DELETES_AT_ONCE]
            outcomes = await asyncio.gather(*(self._delete_one(fence, ledger_id) for ledger_id, fence in some))
            if not all(outcomes):
                await asyncio.sleep(AGAIN_S)

    async def _delete_one(self, fence: Fence, ledger_id: int) -> bool:
        """Whether it needs no other attempt now."""
        if self.kept:
            return True
        try:
            await self._delete(fence, ledger_id)
        except Fenced:
            pass  # it is an orphan of the new owner's
        except StoreError:
            self._deferred[ledger_id] = self._deferred.pop(ledger_id)
            return False
        self._deferred.pop(ledger_id, None)
        return True
