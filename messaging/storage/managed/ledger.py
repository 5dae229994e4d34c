"""A topic's messages as one growing sequence over many ledgers: appending, reading across ledgers, trimming, deleting. Independent
of the `LedgerStore` implementation. `appender.py` describes appends, `retention.py` which ledgers are dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

from msgspec import structs

from messaging.storage.ledger_store import (
    Block,
    Corrupt,
    NoSuchEntry,
    NoSuchLedger,
    Position,
    StoreError,
)
from messaging.storage.managed.appender import Appender
from messaging.storage.managed.retention import Retention, droppable, ending_is_due
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import CompactedLedger, LedgerRecord, MetaConflict, TopicRecord

__all__ = ["ManagedLedger", "Storage"]

logger = logging.getLogger(__name__)


async def _ended(storage: Storage, record: TopicRecord, ledger: LedgerRecord) -> LedgerRecord:
    """`ledger` with its final last entry. Raises `StoreError`."""
    if ledger.last_entry is not None:
        return ledger
    sealed_ms = max(storage.clock_ms(), ledger.created_ms)
    try:
        info = await storage.seal_ledger(ledger.ledger_id)
    except NoSuchLedger:  # recorded before it was durable: a power loss took it
        storage.damage["ledger"] += 1
        logger.critical("ledger %d of %s is lost, and all messages in it", ledger.ledger_id, record.name)
        return structs.replace(ledger, last_entry=-1, sealed_ms=sealed_ms)
    return structs.replace(ledger, last_entry=info.last_entry, length_bytes=info.length_bytes, sealed_ms=sealed_ms)


class ManagedLedger(Appender):
    __slots__ = ()

    @classmethod
    async def open(cls, storage: Storage, record: TopicRecord, properties: dict[str, str]) -> ManagedLedger:
        """Opens the topic and closes what a former owner left open: every ledger is sealed, so its last entry is final."""
        ledgers = [await _ended(storage, record, ledger) for ledger in record.ledgers]
        # Empty ledgers are dropped, except the last one: it determines where positions continue.
        kept = tuple(ledger for ledger in ledgers if ledger.last_entry != -1) or tuple(ledgers[-1:])
        if kept != record.ledgers:
            try:
                record = await storage.meta.cas_topic(storage.fence_of(record.name), record.with_ledgers(kept))
            except StoreError as error:  # a reader need not store it; the next one to open the topic finds it out again
                logger.warning("where the ledgers of %s end could not be noted: %s", record.name, error)
                return cls(storage, record.with_ledgers(tuple(ledgers)), properties)
            for ledger in ledgers:
                if ledger not in kept:
                    await storage.delete_ledger(ledger.ledger_id)
        return cls(storage, record, properties)

    @classmethod
    async def begin(cls, storage: Storage, record: TopicRecord, properties: dict[str, str], *, writable: bool) -> ManagedLedger:
        """Makes a topic of which nothing is stored yet, in one commit; `writable`: with its first ledger, if one can be made.
        Raises `MetaConflict`, `StoreError`."""
        if writable:
            made = cls(storage, record, properties)
            try:
                await made.writable()
            except StoreError as error:
                logger.warning("%s is made without a ledger: %s", record.name, error)
            else:
                return made
        return cls(storage, await storage.meta.cas_topic(storage.fence_of(record.name), record), properties)

    # --- reading

    async def read(self, position: Position, *, entries_max: int, bytes_max: int) -> list[Block]:
        """Blocks of one ledger, from the one that holds `position` on, never past the last confirmed entry. Empty at the end.

        Raises `Corrupt`, `Unavailable`."""
        position = self.ledger_list.resolve(position)
        last = self.ledger_list.last_of(position.ledger_id)
        if position.entry_id > last:
            return []
        try:
            reader = await self.storage.ledgers.open(position.ledger_id)
            try:
                return await reader.read(position.entry_id, entries_max=entries_max, bytes_max=bytes_max)
            finally:
                await reader.aclose()
        except (NoSuchEntry, NoSuchLedger) as error:
            last = self.ledger_list.last_of(position.ledger_id)
            if position.entry_id > last:  # dropped while it was read: reading continues after it
                return []
            # Confirmed earlier, and no longer in the store.
            raise Corrupt(f"what follows is lost: {error}", position.ledger_id, position.entry_id, last + 1) from error

    def forecast(self, position: Position, *, entries_max: int, bytes_max: int) -> int | Awaitable[int]:
        """The number of entries that a `read` of about this size returns: see `LedgerStore.forecast`."""
        ledger_id, first = position
        return self.storage.ledgers.forecast(ledger_id, first, entries_max=entries_max, bytes_max=bytes_max)

    # --- ending

    async def terminate(self) -> Position:
        """Refuses appends from this call on. Returns the last position once the termination is stored. Idempotent.

        Raises `StoreError`; the topic is then not terminated and accepts appends as before."""
        async with self._alone("terminating"):
            if self.record.terminated_at is not None:
                return self.record.terminated_at
            self.ended = True
            try:
                await self._rolled()
                await self.drained()  # earlier appends still count
                if self.failed is not None:
                    raise self.failed  # which of the last entries are stored is unknown until `recover`
                last = self.ledger_list.last
                await self.update(lambda record: replace(record, terminated_at=last))
            finally:
                self.ended = self.terminated
            return last

    # --- trimming and deleting

    def trims(self, before: Position, retention: Retention, consumed: Collection[int] = ()) -> bool:
        """Whether `trim` would currently do anything."""
        return self._ending_is_due(before, retention) or bool(droppable(self.record.ledgers, before, retention, consumed))

    def _ending_is_due(self, before: Position, retention: Retention) -> bool:
        writer = self._writer
        if writer is None or not writer.next_entry or self.failed:
            return False
        consumed = not self.in_flight and self.written <= before
        return ending_is_due(self.storage.safe_expiry_ms() - self._opened_ms, consumed, self.storage.limits, retention)

    async def trim(
        self,
        before: Position,
        retention: Retention,
        consumed: Collection[int] = (),
        gone: Callable[[list[LedgerRecord]], None] | None = None,
    ) -> tuple[int, int]:
        """Deletes the oldest ledgers that lie wholly at or before `before`, or are among `consumed`, and that retention no longer
        holds. First rolls over the open ledger if it grew too old, or if only its being open keeps it. `gone` is called when they
        are not in the list any more. Returns (ledgers, bytes) deleted. Raises `StoreError`.
        """
        if self._ending_is_due(before, retention):
            await self.roll()
        dropped = droppable(self.record.ledgers, before, retention, consumed)
        if not dropped:
            return 0, 0
        if dropped[-1].ledger_id == self.record.ledgers[-1].ledger_id:
            await self.writable()  # a topic keeps its last ledger, even an empty one, so that positions continue from it
        await self._forget(dropped, gone)
        return len(dropped), sum(ledger.length_bytes for ledger in dropped)

    async def _forget(self, dropped: list[LedgerRecord], gone: Callable[[list[LedgerRecord]], None] | None) -> None:
        """Removes it from the topic's list first, then from the store: a crash in between leaves an orphan, never a hole."""
        await self.update(lambda record: record.with_ledgers(tuple(ledger for ledger in record.ledgers if ledger not in dropped)))
        for ledger in dropped:
            if ledger.ledger_id in self.ledger_list.ids:  # else a concurrent call removed it
                self.ledger_list.drop(ledger.ledger_id)
        if gone is not None:
            gone(dropped)
        for ledger in dropped:
            await self.storage.delete_ledger(ledger.ledger_id)

    async def delete(self) -> None:
        """Closes and removes the topic with all its ledgers."""
        await self.close()
        await self.storage.meta.delete_topic(self.storage.fence_of(self.record.name), self.record.name)
        for ledger_id in self.record.ledger_ids:
            await self.storage.delete_ledger(ledger_id)

    # --- compaction

    async def replace_compacted(self, former: CompactedLedger | None, compacted: CompactedLedger | None) -> None:
        """From here on `compacted` stands for the entries up to its horizon. One change of the record decides; then the ledger of
        `former` is deleted. Raises `MetaConflict` if `former` is not the compacted ledger any more, `StoreError`."""

        def change(record: TopicRecord) -> TopicRecord:
            if record.compacted != former:
                raise MetaConflict(f"topic {record.name} was compacted or truncated in the meantime")
            return replace(record, compacted=compacted)

        await self.update(change)
        self.ledger_list.compacted = self.record.compacted
        if former is not None:
            try:
                await self.storage.delete_ledger(former.ledger_id)
            except StoreError as error:  # nothing refers to it any more: the next start collects it
                logger.warning("former compacted ledger %d of %s is left: %s", former.ledger_id, self.record.name, error)
