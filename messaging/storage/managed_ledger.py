"""A topic's messages as one growing list over many ledgers: rolling, reading across ledgers, trimming, deleting. Written once,
above every `LedgerStore`.

One owner (the topic), one event loop. `chain` speaks of confirmed entries only; nothing is read, counted or reported beyond it.
After a failed append the managed ledger is `failed` and takes no more: its owner closes the topic and opens it again, which seals
the ledger and so settles which entries are in it.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from messaging.storage.chain import Chain
from messaging.storage.meta_seam import LedgerRecord, MetaConflict, MetaStore, TopicRecord
from messaging.storage.seam import (
    Block,
    Buffer,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerInfo,
    LedgerStore,
    LedgerWriter,
    NoSuchEntry,
    Position,
    StoreError,
)

ENTRIES_PER_LEDGER_MAX = 1 << 30  # entry ids stay below 2^32, the width of the cursors' bitmaps
BYTES_PER_LEDGER_MAX = 2 << 30

Confirmed = Callable[[StoreError | None], None]


@dataclass(slots=True)
class Storage:
    """What every managed ledger of a broker shares."""

    ledgers: LedgerStore
    meta: MetaStore
    fence: Fence
    clock_ms: Callable[[], int]
    entries_per_ledger_max: int = ENTRIES_PER_LEDGER_MAX
    bytes_per_ledger_max: int = BYTES_PER_LEDGER_MAX


class _Pending:
    """One appended block whose confirmation is due. Confirmations leave in append order, across ledgers too."""

    __slots__ = ("confirmed", "error", "finished", "last_entry", "ledger_id")

    def __init__(self, ledger_id: int, last_entry: int, confirmed: Confirmed) -> None:
        self.ledger_id = ledger_id
        self.last_entry = last_entry
        self.confirmed = confirmed
        self.finished = False
        self.error: StoreError | None = None


class ManagedLedger:
    def __init__(self, storage: Storage, record: TopicRecord, properties: dict[str, str]) -> None:
        self.storage = storage
        self.record = record
        self.properties = properties
        self.chain = Chain(
            [(ledger.ledger_id, -1 if ledger.last_entry is None else ledger.last_entry) for ledger in record.ledgers]
        )
        self.sealed_bytes = sum(ledger.length_bytes for ledger in record.ledgers)
        self.failed: StoreError | None = None
        self._writer: LedgerWriter | None = None
        self._pending: deque[_Pending] = deque()
        self._rolling: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._updating = asyncio.Lock()
        self._drained: asyncio.Event = asyncio.Event()
        self._drained.set()

    @classmethod
    async def open(cls, storage: Storage, record: TopicRecord, properties: dict[str, str]) -> ManagedLedger:
        """Settles what a former owner left open: every ledger is sealed, so that each has its final last entry."""
        ledgers = []
        for ledger in record.ledgers:
            if ledger.last_entry is None:
                info = await storage.ledgers.seal(storage.fence, ledger.ledger_id)
                ledger = replace(ledger, last_entry=info.last_entry, length_bytes=info.length_bytes, sealed_ms=storage.clock_ms())
            ledgers.append(ledger)
        kept = tuple(ledger for ledger in ledgers if ledger.last_entry != -1)
        if kept != record.ledgers:
            record = await storage.meta.cas_topic(record.with_ledgers(kept))
            for ledger in ledgers:
                if ledger.last_entry == -1:
                    await storage.ledgers.delete(storage.fence, ledger.ledger_id)
        return cls(storage, record, properties)

    @property
    def terminated(self) -> bool:
        return self.record.terminated_at is not None

    @property
    def stored_bytes(self) -> int:
        return self.sealed_bytes + (self._writer.length_bytes if self._writer else 0)

    @property
    def pending_bytes(self) -> int:
        return self._writer.pending_bytes if self._writer else 0

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
        added = LedgerRecord(ledger_id, created_ms=self.storage.clock_ms())
        await self.update(lambda record: record.with_ledgers((*record.ledgers, added)))
        return writer

    def append(self, header: bytes, data: Buffer, stops: array[int], confirmed: Confirmed) -> Position:
        """Appends a block; returns the position of its first entry at once. `confirmed` runs on the loop, in append order over
        the whole managed ledger, with None once the block is durable. Raises what `LedgerWriter.append` raises."""
        writer = self._writer
        if writer is None or self.failed:
            raise LedgerClosed("this topic takes no messages until it is opened again")
        pending = _Pending(writer.ledger_id, -1, confirmed)
        first = writer.append(header, data, stops, lambda error: self._finished(pending, error))
        pending.last_entry = first + len(stops) - 1
        self._pending.append(pending)
        self._drained.clear()
        if self._rolling is None and (
            pending.last_entry >= self.storage.entries_per_ledger_max or writer.length_bytes >= self.storage.bytes_per_ledger_max
        ):
            self._rolling = asyncio.get_running_loop().create_task(self._roll(), name=f"roll {self.record.name}")
        return Position(writer.ledger_id, first)

    def _finished(self, pending: _Pending, error: StoreError | None) -> None:
        pending.finished = True
        pending.error = error
        queue = self._pending
        while queue and queue[0].finished:
            first = queue.popleft()
            # After one failure nothing later counts, even if another ledger confirmed it: order first.
            self.failed = self.failed or first.error
            if self.failed is None:
                # A ledger rolled to joins the chain with its first confirmed entry: all entries before it are confirmed by then,
                # and until then nobody may take the ledger before it for ended.
                if self.chain.ids[-1:] < [first.ledger_id]:
                    self.chain.add(first.ledger_id)
                self.chain.confirm(first.ledger_id, first.last_entry)
            first.confirmed(self.failed)
        if not queue:
            self._drained.set()

    async def _roll(self) -> None:
        old = self._writer
        assert old is not None
        try:
            self._writer = await self._create()
            await self._sealed(await old.close())
        except StoreError as error:
            self.failed = self.failed or error
        finally:
            self._rolling = None

    async def _sealed(self, info: LedgerInfo) -> None:
        def sealed(ledger: LedgerRecord) -> LedgerRecord:
            if ledger.ledger_id != info.ledger_id:
                return ledger
            return replace(ledger, last_entry=info.last_entry, length_bytes=info.length_bytes, sealed_ms=self.storage.clock_ms())

        await self.update(lambda record: record.with_ledgers(tuple(sealed(ledger) for ledger in record.ledgers)))
        self.sealed_bytes += info.length_bytes

    async def recover(self) -> None:
        """After a failed append: seals what is open, which settles the fate of every entry, so that `writable` can begin anew.

        Entries whose outcome was unknown and that are in the ledger count from here on. Raises `StoreError`."""
        if self._rolling:
            await self._rolling
        await self._drained.wait()
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
        """Waits until every block appended so far is durable or has failed."""
        await self._drained.wait()

    async def close(self) -> None:
        """Waits for what is pending and seals the open ledger. Never raises: what could not be sealed, the next open seals."""
        if self._rolling:
            await self._rolling
        await self._drained.wait()
        writer, self._writer = self._writer, None
        self.failed = self.failed or LedgerClosed("the topic is closed")
        if writer is not None:
            try:
                await self._sealed(await writer.close())
            except StoreError:
                pass

    # --- reading

    async def read(self, position: Position, *, entries_max: int, bytes_max: int) -> list[Block]:
        """Blocks of one ledger from the one that holds `position` on, never past the last confirmed entry. Empty at the end.

        Raises `Corrupt`, `Unavailable`."""
        position = self.chain.settle(position)
        last = self.chain.last_of(position.ledger_id)
        if position.entry_id > last:
            return []
        reader = await self.storage.ledgers.open(position.ledger_id)
        try:
            return await reader.read(position.entry_id, entries_max=entries_max, bytes_max=bytes_max)
        except NoSuchEntry:
            return []
        finally:
            await reader.aclose()

    # --- forgetting

    async def trim(self, before: Position, *, older_than_ms: int, larger_than_bytes: int) -> tuple[int, int]:
        """Drops the oldest sealed ledgers that lie wholly before `before` and that retention no longer holds: sealed before
        `older_than_ms`, and while more than `larger_than_bytes` of such ledgers are kept (-1: size holds them for ever).

        Returns (ledgers, bytes) dropped."""
        # Acknowledged ledgers, oldest first; the last ledger of the chain stays, so that positions go on from it.
        gone = []
        for ledger in self.record.ledgers[:-1]:
            if ledger.last_entry is None or Position(ledger.ledger_id, ledger.last_entry) > before:
                break
            gone.append(ledger)
        kept_bytes = sum(ledger.length_bytes for ledger in gone)
        dropped = []
        for ledger in gone:
            too_old = ledger.sealed_ms < older_than_ms
            too_much = 0 <= larger_than_bytes < kept_bytes
            if not (too_old or too_much):
                break
            dropped.append(ledger)
            kept_bytes -= ledger.length_bytes
        if not dropped:
            return 0, 0
        await self._forget(dropped)
        return len(dropped), sum(ledger.length_bytes for ledger in dropped)

    async def _forget(self, dropped: list[LedgerRecord]) -> None:
        """First out of the topic's list, then out of the store: a crash between leaves an orphan, never a hole."""
        await self.update(lambda record: record.with_ledgers(tuple(one for one in record.ledgers if one not in dropped)))
        for ledger in dropped:
            if self.chain.ids[:1] == [ledger.ledger_id]:  # else another call was faster
                self.chain.drop_first()
                self.sealed_bytes -= ledger.length_bytes
            await self.storage.ledgers.delete(self.storage.fence, ledger.ledger_id)

    async def delete(self) -> None:
        """Closes and removes the topic with all its ledgers."""
        await self.close()
        await self.storage.meta.delete_topic(self.record.name)
        for ledger in self.record.ledgers:
            await self.storage.ledgers.delete(self.storage.fence, ledger.ledger_id)
