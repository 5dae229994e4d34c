"""The writing half of a managed ledger: appends in order, over ledgers that are rolled by size, entries and age.

One owner (the topic), one event loop. `chain` speaks of confirmed entries only; nothing is read, counted or reported beyond it.
After a failed append the managed ledger is `failed` and takes no more, until `recover` (or opening it again) has sealed the ledger
and so settled which entries are in it.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from messaging.storage.chain import Chain
from messaging.storage.meta_seam import LedgerRecord, MetaConflict, TopicRecord
from messaging.storage.pending import Pending, Turnover
from messaging.storage.seam import (
    Buffer,
    Fenced,
    LedgerClosed,
    LedgerInfo,
    LedgerWriter,
    Position,
    StoreError,
)
from messaging.storage.shared import Storage


class Appends:
    """An idle one costs a few hundred bytes: what is needed only while something happens is made then, and let go of after."""

    __slots__ = (
        "_opened_ms",
        "_under_way",
        "_writer",
        "chain",
        "closed",
        "ended",
        "failed",
        "in_flight",
        "properties",
        "record",
        "settling",
        "stamped_ms",
        "storage",
        "turnover",
    )

    def __init__(self, storage: Storage, record: TopicRecord, properties: dict[str, str]) -> None:
        self.storage = storage
        self.record = record
        self.properties = storage.shared(properties)
        self.chain = Chain([(one.ledger_id, -1 if one.last_entry is None else one.last_entry) for one in record.ledgers])
        self.failed: StoreError | None = None
        self.ended = record.terminated_at is not None  # terminated, or about to be: no append is taken any more
        self.closed = False  # this owner is done with it: the record is another's to change
        self.stamped_ms = max((max(one.created_ms, one.sealed_ms) for one in record.ledgers), default=record.created_ms)
        self.in_flight = 0  # blocks appended and not yet answered
        self.turnover: Turnover | None = None
        self.settling: list[asyncio.Future[None]] | None = None  # who waits until nothing is in flight
        self._opened_ms = 0  # when the ledger now written to was made
        self._writer: LedgerWriter | None = None
        self._under_way: dict[str, asyncio.Future[None]] | None = None  # "opening" a ledger, "updating" the record, "rolling"

    @property
    def terminated(self) -> bool:
        return self.record.terminated_at is not None

    @property
    def sealed_bytes(self) -> int:
        return sum(ledger.length_bytes for ledger in self.record.ledgers)

    @property
    def stored_bytes(self) -> int:
        return self.sealed_bytes + (self._writer.length_bytes if self._writer else 0)

    @property
    def pending_bytes(self) -> int:
        return self._writer.pending_bytes if self._writer else 0

    def stamp(self) -> int:
        """The time for what is stored next, in milliseconds: the broker's clock, but never before an earlier stamp of this topic.

        A clock that is set back cannot make stored times fall along a topic (halving over them would go astray), nor make new
        messages look old (expiry would take them)."""
        now_ms = self.storage.clock_ms()
        if now_ms > self.stamped_ms:
            self.stamped_ms = now_ms
        return self.stamped_ms

    @asynccontextmanager
    async def _alone(self, what: str) -> AsyncIterator[None]:
        """One after the other; a lock of asyncio would cost each idle topic its bytes."""
        while self._under_way is not None and (held := self._under_way.get(what)) is not None:
            await asyncio.wait([held])
        held = asyncio.get_running_loop().create_future()
        self._begin(what, held)
        try:
            yield
        finally:
            self._end(what)
            held.set_result(None)

    def _begin(self, what: str, future: asyncio.Future[None]) -> None:
        if self._under_way is None:
            self._under_way = {}
        self._under_way[what] = future

    def _end(self, what: str) -> None:
        assert self._under_way is not None
        del self._under_way[what]
        if not self._under_way:
            self._under_way = None

    @property
    def rolling(self) -> asyncio.Future[None] | None:
        """The change to another ledger that is under way; never fails, see `failed`."""
        return self._under_way.get("rolling") if self._under_way is not None else None

    # --- writing

    async def writable(self) -> None:
        """Opens a ledger to write to, if there is none. Call before the first `append`. Raises `StoreError`."""
        async with self._alone("opening"):
            if self.failed:
                raise self.failed
            if self._writer is None:
                writer = await self._create()
                self.chain.add(writer.ledger_id)
                self._writer = writer

    async def update(self, change: Callable[[TopicRecord], TopicRecord]) -> None:
        """Changes the stored record, one change after the other. Raises `StoreError`; `Fenced` where another owner wrote it."""
        async with self._alone("updating"):
            if self.closed:
                raise LedgerClosed(f"topic {self.record.name} was closed")
            try:
                self.record = await self.storage.meta.cas_topic(change(self.record))
            except MetaConflict as error:
                raise Fenced(f"topic {self.record.name} was changed by another owner: {error}") from error

    async def _create(self) -> LedgerWriter:
        ledger_id = await self.storage.meta.next_ledger_id()
        writer = await self.storage.ledgers.create(self.storage.fence, ledger_id, self.properties)
        added = LedgerRecord(ledger_id, created_ms=self.stamp())
        await self.update(lambda record: record.with_ledgers((*record.ledgers, added)))
        self._opened_ms = added.created_ms
        return writer

    def append(self, header: bytes, data: Buffer, stops: array[int], pending: Pending) -> Position:
        """Appends a block; returns the position of its first entry at once. `pending.confirmed` runs on the loop, in append order
        over the whole managed ledger, with None once the block is durable. Raises what `LedgerWriter.append` raises.

        Call `stamp` before, for the block's header: a ledger that grew too old by that time is followed by another."""
        writer = self._writer
        if writer is None or self.failed is not None or self.ended:
            raise LedgerClosed(
                "this topic was terminated" if self.ended else "this topic takes no messages until it is opened again"
            )
        pending.ledger = self
        entry = writer.append(header, data, stops, pending)
        pending.first = first = Position(writer.ledger_id, entry)
        pending.last_entry = last = entry + len(stops) - 1
        self.in_flight += 1
        limits = self.storage.limits
        if (
            last >= limits.entries_max
            or writer.length_bytes >= limits.bytes_max
            or self.stamped_ms - self._opened_ms >= limits.age_max_ms
        ) and self.rolling is None:
            self._begin_roll()
        return first

    def finished(self, one: Pending, error: StoreError | None) -> None:
        """The ledger answered one block. It answers in order; across two ledgers the order is kept here."""
        turnover = self.turnover
        if turnover is None:
            self._answer(one, error)
        elif one.first.ledger_id >= turnover.new_id:
            turnover.parked.append((one, error))
        else:
            self._answer(one, error)
            turnover.left -= 1
            if not turnover.left:
                self._turn_over(turnover)

    def _answer(self, one: Pending, error: StoreError | None) -> None:
        # After one failure nothing later counts, even if another ledger confirmed it: order first.
        if error is not None and self.failed is None:
            self.failed = error
        if self.failed is None:
            self.chain.confirm(one.first.ledger_id, one.last_entry)
        self.in_flight -= 1
        one.confirmed(self.failed)
        self.settle()

    def settle(self) -> None:
        """Lets go on who waits in `settled`, if nothing is in flight."""
        if self.settling is not None and not self.in_flight:
            settling, self.settling = self.settling, None
            for future in settling:
                if not future.done():
                    future.set_result(None)

    def _turn_over(self, turnover: Turnover) -> None:
        """Nothing of the old ledger is on its way any more: only now may readers take it for ended and go on in the new one."""
        self.turnover = None
        if self.failed is None:
            self.chain.add(turnover.new_id)
        for one, error in turnover.parked:
            self._answer(one, error)
        turnover.ended.set_result(None)

    def _begin_roll(self) -> None:
        self._begin("rolling", asyncio.get_running_loop().create_task(self._roll(), name=f"roll {self.record.name}"))

    async def _roll(self) -> None:
        old = self._writer
        assert old is not None
        try:
            self._writer = new = await self._create()
            turnover = self.turnover = Turnover(new.ledger_id, self.in_flight)
            if not turnover.left:
                self._turn_over(turnover)
            await self._sealed(await old.close())
            await turnover.ended
        except StoreError as error:
            self.failed = self.failed or error
        finally:
            self._end("rolling")

    async def _rolled(self) -> None:
        if self.rolling is not None:
            await asyncio.wait([self.rolling])

    async def roll(self) -> None:
        """Ends the ledger that is written to and goes on in another; waits for a roll that is under way. Nothing happens where
        none is open, or where it is empty. Raises `StoreError`."""
        if self.rolling is None and self._writer is not None and self._writer.next_entry:
            self._begin_roll()
        await self._rolled()
        if self.failed:
            raise self.failed

    async def _sealed(self, info: LedgerInfo) -> None:
        sealed_ms = self.stamp()

        def sealed(ledger: LedgerRecord) -> LedgerRecord:
            if ledger.ledger_id != info.ledger_id:
                return ledger
            return msgspec.structs.replace(ledger, last_entry=info.last_entry, length_bytes=info.length_bytes, sealed_ms=sealed_ms)

        await self.update(lambda record: record.with_ledgers(tuple(sealed(ledger) for ledger in record.ledgers)))

    async def recover(self) -> None:
        """After a failed append: seals what is open, which settles the fate of every entry, so that `writable` can begin anew.

        Entries whose outcome was unknown and that are in the ledger count from here on. Raises `StoreError`."""
        await self._rolled()
        await self.settled()
        async with self._alone("opening"):
            self._writer = None
            for ledger in self.record.ledgers:
                if ledger.last_entry is None:
                    info = await self.storage.ledgers.seal(self.storage.fence, ledger.ledger_id)
                    await self._sealed(info)
                    if self.chain.last_id < ledger.ledger_id:
                        self.chain.add(ledger.ledger_id)
                    self.chain.confirm(ledger.ledger_id, info.last_entry)
            self.failed = None

    async def settled(self) -> None:
        """Waits until every block that was appended is durable or has failed."""
        if self.in_flight:
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.settling = [*(self.settling or ()), settled]
            await settled

    async def close(self) -> None:
        """Waits for what is pending and seals the open ledger. Never raises: what could not be sealed, the next open seals."""
        await self._rolled()
        await self.settled()
        async with self._alone("opening"):  # a ledger that is just being opened is sealed like any other
            writer, self._writer = self._writer, None
            self.failed = self.failed or LedgerClosed("the topic is closed")
        try:
            if writer is not None:
                await self._sealed(await writer.close())
        except StoreError:
            pass
        async with self._alone("updating"):
            self.closed = True
