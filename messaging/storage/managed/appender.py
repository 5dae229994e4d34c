"""The writing half of a managed ledger: appends in order to ledgers that are rolled over by size, entries and age.

One owner (the topic), one event loop. `ledger_list` counts confirmed entries only; later entries are not read, counted or shown.
After a failed append the managed ledger is `failed` and accepts nothing until `recover` (or reopening it) has sealed the ledger;
then it is known which entries are in it. A rollover that cannot create a ledger (the disk is full) does no harm: appends continue
on the current ledger, and a later append starts the rollover again.
"""

from __future__ import annotations

import asyncio
import logging
from array import array

from messaging.storage.ledger_store import (
    Buffer,
    Fenced,
    LedgerClosed,
    LedgerWriter,
    Position,
    StoreError,
)
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.managed.pending_append import LedgerRollover, PendingAppend
from messaging.storage.managed.storage import Storage
from messaging.storage.managed.topic_record import OwnedTopicRecord
from messaging.storage.meta_store import LedgerRecord, MetaConflict, TopicRecord

logger = logging.getLogger(__name__)

ROLL_RETRY_MS = 1_000  # after a rollover that could not create a ledger


class Appender(OwnedTopicRecord):
    __slots__ = (
        "_opened_ms",
        "_roll_after_ms",
        "_writer",
        "drain_waiters",
        "ended",
        "in_flight",
        "ledger_list",
        "properties",
        "rollover",
    )

    def __init__(self, storage: Storage, record: TopicRecord, properties: dict[str, str]) -> None:
        super().__init__(storage, record)
        self.properties = storage.intern_properties(properties)
        self.ledger_list = LedgerList(
            [(ledger.ledger_id, -1 if ledger.last_entry is None else ledger.last_entry) for ledger in record.ledgers]
        )
        self.ledger_list.compacted = record.compacted
        self.ended = record.terminated_at is not None  # terminated, or about to be: no append is accepted any more
        self.in_flight = 0  # blocks appended but not completed
        self.rollover: LedgerRollover | None = None
        self.drain_waiters: list[asyncio.Future[None]] | None = None  # callers that wait until nothing is in flight
        self._opened_ms = 0  # when the current ledger was created
        self._roll_after_ms = 0  # no rollover starts earlier: the last one failed
        self._writer: LedgerWriter | None = None

    @property
    def writing_to(self) -> int:
        """The id of the ledger that appends go to; -1 if there is none."""
        return self._writer.ledger_id if self._writer is not None else -1

    @property
    def written(self) -> Position:
        """The last entry that was given to the log, durable or not; the durable position if nothing is open."""
        writer, rollover = self._writer, self.rollover
        if writer is not None and writer.next_entry:
            return Position(writer.ledger_id, writer.next_entry - 1)
        return self.ledger_list.last if rollover is None else rollover.written

    @property
    def stored_bytes(self) -> int:
        return self.sealed_bytes + self.writing_bytes

    @property
    def writing_bytes(self) -> int:
        """Of the ledger that is written to, whose length the record does not have."""
        return self._writer.length_bytes if self._writer else 0

    @property
    def pending_bytes(self) -> int:
        return self._writer.pending_bytes if self._writer else 0

    def check_open(self) -> LedgerWriter:
        """The open ledger. Raises `LedgerClosed` if there is none or if it refused an append."""
        writer = self._writer
        if writer is None or self.failed is not None or self.ended:
            raise LedgerClosed("this topic was terminated" if self.ended else "this topic accepts no messages until it is reloaded")
        return writer

    @property
    def rolling(self) -> asyncio.Future[StoreError | None] | None:
        """The rollover in progress, if any. Its result is the error that prevented it, or None."""
        return self._under_way.get("rolling") if self._under_way is not None else None

    # --- writing

    async def writable(self) -> None:
        """Opens a ledger to write to if there is none. Call before the first `append`. Raises `StoreError`; `MetaConflict` if the
        record was not stored yet and cannot be made."""
        async with self._alone("opening"):
            if self.failed:
                raise self.failed
            if self._writer is None:
                writer = await self._create()
                self.ledger_list.add(writer.ledger_id)
                self._writer = writer

    async def _create(self) -> LedgerWriter:
        ledger_id = await self.storage.meta.next_ledger_id(self.storage.fence)
        try:
            writer = await self.storage.ledgers.create(self.storage.fence, ledger_id, self.properties)
            added = LedgerRecord(ledger_id, created_ms=self.stamp())
            try:
                await self.update(lambda record: record.with_ledgers((*record.ledgers, added)))
            except (StoreError, MetaConflict):
                await self._drop_unnamed(ledger_id)
                raise
        except asyncio.CancelledError:
            self.storage.leave(ledger_id, self.record.name)
            raise
        self._opened_ms = added.created_ms
        return writer

    async def _drop_unnamed(self, ledger_id: int) -> None:
        """Deletes a ledger that could not be added to the record, if that is certain; else this is decided later."""
        try:
            stored = await self.storage.meta.get_topic(self.record.name)
            if stored is None or ledger_id not in stored.ledger_ids:
                await self.storage.ledgers.delete(self.storage.fence, ledger_id)
        except StoreError:
            self.storage.leave(ledger_id, self.record.name)

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], pending: PendingAppend) -> Position:
        """Appends a block and returns the position of its first entry immediately. `pending.confirmed` runs on the loop, in append
        order over the whole managed ledger, with None once the block is durable. Raises what `LedgerWriter.append` raises.

        Call `stamp` first, for the block's header: if the ledger has grown too old by that time, a rollover starts."""
        writer = self.check_open()
        pending.ledger = self
        entry = writer.append(header, data, end_offsets, pending)
        pending.first = first = Position(writer.ledger_id, entry)
        pending.last_entry = last = entry + len(end_offsets) - 1
        self.in_flight += 1
        limits = self.storage.limits
        if (
            (
                last >= limits.entries_max
                or writer.length_bytes >= limits.bytes_max
                or self.stamped_ms - self._opened_ms >= limits.age_max_ms
            )
            and self.rolling is None
            and self.stamped_ms >= self._roll_after_ms
        ):
            self._begin_roll()
        return first

    def completed(self, append: PendingAppend, error: StoreError | None) -> None:
        """The ledger completed one block. Each ledger completes in order; here the order is kept across two ledgers."""
        rollover = self.rollover
        if rollover is None:
            self._confirm(append, error)
        elif append.first.ledger_id >= rollover.new_id:
            rollover.parked.append((append, error))
        else:
            self._confirm(append, error)
            rollover.left -= 1
            if not rollover.left:
                self._end_rollover(rollover)

    def _confirm(self, append: PendingAppend, error: StoreError | None) -> None:
        # After a failure no later block counts, even if another ledger confirmed it: entries must stay in order.
        if error is not None and self.failed is None:
            self.failed = error
        if self.failed is None:
            self.ledger_list.confirm(append.first.ledger_id, append.last_entry)
        self.in_flight -= 1
        try:
            append.confirmed(self.failed)
        finally:
            self.notify_drained()

    def notify_drained(self) -> None:
        """Wakes the callers of `drained` if nothing is in flight."""
        if self.drain_waiters is not None and not self.in_flight:
            waiters, self.drain_waiters = self.drain_waiters, None
            for future in waiters:
                if not future.done():
                    future.set_result(None)

    def _end_rollover(self, rollover: LedgerRollover) -> None:
        """Nothing of the old ledger is in flight any more: only now may readers treat it as ended and continue in the new one."""
        self.rollover = None
        if self.failed is None:
            self.ledger_list.add(rollover.new_id)
        for append, error in rollover.parked:
            self._confirm(append, error)
        rollover.ended.set_result(None)

    def _begin_roll(self) -> None:
        self._begin("rolling", asyncio.get_running_loop().create_task(self._roll(), name=f"roll {self.record.name}"))

    async def _roll(self) -> StoreError | None:
        old = self._writer
        assert old is not None
        try:
            return await self._go_on_after(old)
        except Exception as error:  # nobody awaits this task: an unexpected error is raised to the next append
            logger.exception("rolling the ledger of %s failed", self.record.name)
            self.failed = self.failed or StoreError(f"ledger rollover failed: {error!r}")
            return self.failed
        finally:
            self._end("rolling")

    async def _go_on_after(self, old: LedgerWriter) -> StoreError | None:
        """Returns the error that prevented the new ledger; everything then stays as it was. A ledger that could not be sealed is
        sealed with the next one."""
        try:
            new = await self._create()
        except StoreError as error:
            self._roll_after_ms = self.stamped_ms + ROLL_RETRY_MS
            if isinstance(error, Fenced):
                self.failed = self.failed or error
            else:
                logger.warning("%s goes on in ledger %d: no other could be made: %s", self.record.name, old.ledger_id, error)
            return error
        rollover = self.rollover = LedgerRollover(new.ledger_id, self.in_flight, self.written)
        self._writer = new
        if not rollover.left:
            self._end_rollover(rollover)
        try:
            await self._sealed(await old.close())
            await self._seal_left(new.ledger_id)
        except Fenced as error:
            self.failed = self.failed or error
        except StoreError as error:
            logger.warning("ledger %d of %s is sealed later: %s", old.ledger_id, self.record.name, error)
        await rollover.ended
        return None

    async def _rolled(self) -> StoreError | None:
        rolling = self.rolling
        if rolling is None:
            return None
        await asyncio.wait([rolling])
        return rolling.result()

    async def roll(self) -> None:
        """Rolls over to a new ledger, or waits for the rollover in progress. Does nothing if no ledger is open or the open one is
        empty. Raises `StoreError`."""
        if self.rolling is None and self._writer is not None and self._writer.next_entry:
            self._begin_roll()
        error = await self._rolled() or self.failed
        if error:
            raise error

    async def recover(self) -> None:
        """Call after a failed append: seals the open ledger, so that the outcome of every entry is known and `writable` can start
        afresh.

        Entries whose outcome was unknown count from now on if they are in the ledger. Raises `StoreError`."""
        await self._rolled()
        await self.drained()
        async with self._alone("opening"):
            self._writer = None
            for ledger in self.record.ledgers:
                if ledger.last_entry is None:
                    info = await self.storage.ledgers.seal(self.storage.fence, ledger.ledger_id)
                    await self._sealed(info)
                    if self.ledger_list.last_id < ledger.ledger_id:
                        self.ledger_list.add(ledger.ledger_id)
                    self.ledger_list.confirm(ledger.ledger_id, info.last_entry)
            self.failed = None

    async def drained(self) -> None:
        """Waits until every block that was appended is durable or has failed."""
        if self.in_flight:
            drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.drain_waiters = [*(self.drain_waiters or ()), drained]
            await drained

    async def close(self) -> None:
        """Waits for appends in flight and seals the open ledger. Never raises: what could not be sealed is sealed when it is opened
        next."""
        await self._rolled()
        await self.drained()
        async with self._alone("opening"):  # a ledger that is still being opened is sealed too
            writer, self._writer = self._writer, None
            self.failed = self.failed or LedgerClosed("the topic is closed")
        try:
            if writer is not None:
                await self._sealed(await writer.close())
        except StoreError:
            pass
        async with self._alone("updating"):
            self.closed = True
