"""The writing half of a managed ledger: appends in order, over ledgers that are rolled by size, entries and age.

One owner (the topic), one event loop. `chain` speaks of confirmed entries only; nothing is read, counted or reported beyond it.
After a failed append the managed ledger is `failed` and takes no more, until `recover` (or opening it again) has sealed the ledger
and so settled which entries are in it.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from messaging.storage.chain import Chain
from messaging.storage.meta_seam import LedgerRecord, MetaConflict, MetaStore, TopicRecord
from messaging.storage.offload import LedgerOffloader
from messaging.storage.retention import Limits
from messaging.storage.seam import (
    Buffer,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerInfo,
    LedgerStore,
    LedgerWriter,
    Position,
    StoreError,
)
from messaging.storage.turnover import Appended, Confirmed, Turnover


@dataclass(slots=True)
class Storage:
    """What every managed ledger of a broker shares."""

    ledgers: LedgerStore
    meta: MetaStore
    fence: Fence
    clock_ms: Callable[[], int]
    limits: Limits = field(default_factory=Limits)
    offloader: LedgerOffloader | None = None

    async def drop(self, ledger: LedgerRecord) -> None:
        """Deletes a ledger wherever it is kept; its topic's record does not name it any more. Raises `StoreError`."""
        if ledger.offloaded and self.offloader is not None:
            await self.offloader.delete(ledger.ledger_id)
        await self.ledgers.delete(self.fence, ledger.ledger_id)


class Appends:
    def __init__(self, storage: Storage, record: TopicRecord, properties: dict[str, str]) -> None:
        self.storage = storage
        self.record = record
        self.properties = properties
        self.chain = Chain(
            [(ledger.ledger_id, -1 if ledger.last_entry is None else ledger.last_entry) for ledger in record.ledgers]
        )
        self.sealed_bytes = sum(ledger.length_bytes for ledger in record.ledgers)
        self.failed: StoreError | None = None
        self.stamped_ms = max((max(one.created_ms, one.sealed_ms) for one in record.ledgers), default=record.created_ms)
        self._opened_ms = 0  # when the ledger now written to was made
        self._writer: LedgerWriter | None = None
        self._in_flight = 0  # blocks appended and not yet answered
        self._turnover: Turnover | None = None
        self._rolling: asyncio.Task[None] | None = None
        self._settling: list[asyncio.Future[None]] | None = None
        self._opening = asyncio.Lock()
        self._updating = asyncio.Lock()

    @property
    def terminated(self) -> bool:
        return self.record.terminated_at is not None

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

    # --- writing

    async def writable(self) -> None:
        """Opens a ledger to write to, if there is none. Call before the first `append`. Raises `StoreError`."""
        async with self._opening:
            if self.failed:
                raise self.failed
            if self._writer is None:
                writer = await self._create()
                self.chain.add(writer.ledger_id)
                self._writer = writer

    async def update(self, change: Callable[[TopicRecord], TopicRecord]) -> None:
        """Changes the stored record, one change after the other. Raises `StoreError`; `Fenced` where another owner wrote it."""
        async with self._updating:
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

    def append(self, header: bytes, data: Buffer, stops: array[int], confirmed: Confirmed) -> Position:
        """Appends a block; returns the position of its first entry at once. `confirmed` runs on the loop, in append order over
        the whole managed ledger, with None once the block is durable. Raises what `LedgerWriter.append` raises.

        Call `stamp` before, for the block's header: a ledger that grew too old by that time is followed by another."""
        writer = self._writer
        if writer is None or self.failed:
            raise LedgerClosed("this topic takes no messages until it is opened again")
        ledger_id = writer.ledger_id
        appended = Appended(self, ledger_id, confirmed)
        first = writer.append(header, data, stops, appended)
        appended.last_entry = last = first + len(stops) - 1
        self._in_flight += 1
        limits = self.storage.limits
        if (
            last >= limits.entries_max
            or writer.length_bytes >= limits.bytes_max
            or self.stamped_ms - self._opened_ms >= limits.age_max_ms
        ) and self._rolling is None:
            self._begin_roll()
        return Position(ledger_id, first)

    def finished(self, one: Appended, error: StoreError | None) -> None:
        """The ledger answered one block. It answers in order; across two ledgers the order is kept here."""
        turnover = self._turnover
        if turnover is None:
            self._answer(one, error)
        elif one.ledger_id >= turnover.new_id:
            turnover.parked.append((one, error))
        else:
            self._answer(one, error)
            turnover.left -= 1
            if not turnover.left:
                self._turn_over(turnover)

    def _answer(self, one: Appended, error: StoreError | None) -> None:
        # After one failure nothing later counts, even if another ledger confirmed it: order first.
        if error is not None and self.failed is None:
            self.failed = error
        if self.failed is None:
            self.chain.confirm(one.ledger_id, one.last_entry)
        self._in_flight -= 1
        one.confirmed(self.failed)
        if self._settling and not self._in_flight:
            settling, self._settling = self._settling, None
            for future in settling:
                if not future.done():
                    future.set_result(None)

    def _turn_over(self, turnover: Turnover) -> None:
        """Nothing of the old ledger is on its way any more: only now may readers take it for ended and go on in the new one."""
        self._turnover = None
        if self.failed is None:
            self.chain.add(turnover.new_id)
        for one, error in turnover.parked:
            self._answer(one, error)
        turnover.ended.set_result(None)

    def _begin_roll(self) -> asyncio.Task[None]:
        self._rolling = asyncio.get_running_loop().create_task(self._roll(), name=f"roll {self.record.name}")
        return self._rolling

    async def _roll(self) -> None:
        old = self._writer
        assert old is not None
        try:
            self._writer = new = await self._create()
            turnover = self._turnover = Turnover(new.ledger_id, self._in_flight)
            if not turnover.left:
                self._turn_over(turnover)
            await self._sealed(await old.close())
            await turnover.ended
        except StoreError as error:
            self.failed = self.failed or error
        finally:
            self._rolling = None

    async def roll(self) -> None:
        """Ends the ledger that is written to and goes on in another; waits for a roll that is under way. Nothing happens where
        none is open, or where it is empty. Raises `StoreError`."""
        if self._rolling is None and self._writer is not None and self._writer.next_entry:
            self._begin_roll()
        if self._rolling is not None:
            await asyncio.wait([self._rolling])
        if self.failed:
            raise self.failed

    async def _sealed(self, info: LedgerInfo) -> None:
        sealed_ms = self.stamp()

        def sealed(ledger: LedgerRecord) -> LedgerRecord:
            if ledger.ledger_id != info.ledger_id:
                return ledger
            return replace(ledger, last_entry=info.last_entry, length_bytes=info.length_bytes, sealed_ms=sealed_ms)

        await self.update(lambda record: record.with_ledgers(tuple(sealed(ledger) for ledger in record.ledgers)))
        self.sealed_bytes += info.length_bytes

    async def recover(self) -> None:
        """After a failed append: seals what is open, which settles the fate of every entry, so that `writable` can begin anew.

        Entries whose outcome was unknown and that are in the ledger count from here on. Raises `StoreError`."""
        if self._rolling:
            await self._rolling
        await self.settled()
        async with self._opening:
            self._writer = None
            for ledger in self.record.ledgers:
                if ledger.last_entry is None:
                    info = await self.storage.ledgers.seal(self.storage.fence, ledger.ledger_id)
                    await self._sealed(info)
                    if self.chain.ids[-1:] < [ledger.ledger_id]:
                        self.chain.add(ledger.ledger_id)
                    self.chain.confirm(ledger.ledger_id, info.last_entry)
            self.failed = None

    async def settled(self) -> None:
        """Waits until every block that was appended is durable or has failed."""
        if self._in_flight:
            settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._settling = [*(self._settling or ()), settled]
            await settled

    async def close(self) -> None:
        """Waits for what is pending and seals the open ledger. Never raises: what could not be sealed, the next open seals."""
        if self._rolling:
            await self._rolling
        await self.settled()
        writer, self._writer = self._writer, None
        self.failed = self.failed or LedgerClosed("the topic is closed")
        if writer is not None:
            try:
                await self._sealed(await writer.close())
            except StoreError:
                pass
