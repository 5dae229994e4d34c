"""A topic's record in MetaStore, as changed by its one owner: one change after another, with ledgers recorded as they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec

from messaging.storage.ledger_store import Fenced, LedgerClosed, LedgerInfo, StoreError
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import LedgerRecord, MetaConflict, TopicRecord


class OwnedTopicRecord:
    """Takes a few hundred bytes while idle: state that is needed only during a change is created for it and dropped afterwards."""

    __slots__ = ("_under_way", "closed", "failed", "record", "stamped_ms", "storage")

    def __init__(self, storage: Storage, record: TopicRecord) -> None:
        self.storage = storage
        self.record = record
        self.failed: StoreError | None = None
        self.closed = False  # this owner is closed: the record may have another owner
        self.stamped_ms = max((max(ledger.created_ms, ledger.sealed_ms) for ledger in record.ledgers), default=record.created_ms)
        self._under_way: dict[str, asyncio.Future[Any]] | None = None  # "opening" a ledger, "updating" the record, "rolling" over

    @property
    def recorded(self) -> bool:
        """Whether the topic's existence is stored. A non-persistent topic exists while it is loaded, unless it is a partition."""
        return self.record.version > 0

    @property
    def terminated(self) -> bool:
        return self.record.terminated_at is not None

    @property
    def sealed_bytes(self) -> int:
        return sum(ledger.length_bytes for ledger in self.record.ledgers)

    def stamp(self) -> int:
        """The time for the next stored block or record, in milliseconds: the broker's clock, but never earlier than a previous
        stamp of this topic.

        A clock that is set back can therefore neither make stored times fall along a topic (which would break binary searches) nor
        make new messages look old (which would expire them)."""
        now_ms = self.storage.clock_ms()
        if now_ms > self.stamped_ms:
            self.stamped_ms = now_ms
        return self.stamped_ms

    @asynccontextmanager
    async def _alone(self, what: str) -> AsyncIterator[None]:
        """Serialises changes; an asyncio lock would cost every idle topic memory."""
        while self._under_way is not None and (change := self._under_way.get(what)) is not None:
            await asyncio.wait([change])
        change = asyncio.get_running_loop().create_future()
        self._begin(what, change)
        try:
            yield
        finally:
            self._end(what)
            change.set_result(None)

    def _begin(self, what: str, future: asyncio.Future[Any]) -> None:
        if self._under_way is None:
            self._under_way = {}
        self._under_way[what] = future

    def _end(self, what: str) -> None:
        assert self._under_way is not None
        del self._under_way[what]
        if not self._under_way:
            self._under_way = None

    async def update(self, change: Callable[[TopicRecord], TopicRecord]) -> None:
        """Changes the stored record, one change after another. Raises `StoreError`; `Fenced` if another owner wrote it;
        `MetaConflict` if it was not stored yet and cannot be made."""
        async with self._alone("updating"):
            if self.closed:
                raise LedgerClosed(f"topic {self.record.name} was closed")
            wanted = change(self.record)
            try:
                self.record = await self.storage.meta.cas_topic(self.storage.fence_of(wanted.name), wanted)
            except MetaConflict as error:
                if not wanted.version:
                    raise
                self.failed = self.failed or Fenced(f"topic {self.record.name} was changed by another owner: {error}")
                raise self.failed from error
            except StoreError:
                self.record = await self._as_stored(wanted)
                if self.record.version == wanted.version:
                    raise

    async def _as_stored(self, wanted: TopicRecord) -> TopicRecord:
        """The record after a change that failed: the store may have applied it all the same."""
        with suppress(StoreError):
            stored = await self.storage.meta.get_topic(wanted.name)
            if stored is not None and stored == replace(wanted, version=stored.version):
                return stored
        return self.record

    async def _sealed(self, info: LedgerInfo) -> None:
        sealed_ms = self.stamp()

        def sealed(ledger: LedgerRecord) -> LedgerRecord:
            if ledger.ledger_id != info.ledger_id:
                return ledger
            return msgspec.structs.replace(ledger, last_entry=info.last_entry, length_bytes=info.length_bytes, sealed_ms=sealed_ms)

        await self.update(lambda record: record.with_ledgers(tuple(sealed(ledger) for ledger in record.ledgers)))

    async def _seal_left(self, current_id: int) -> None:
        """Seals the ledgers that an earlier rollover could not seal."""
        for ledger in self.record.ledgers:
            if ledger.last_entry is None and ledger.ledger_id != current_id:
                await self._sealed(await self.storage.ledgers.seal(self.storage.fence, ledger.ledger_id))
