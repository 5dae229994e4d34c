"""A metadata store in the memory of this process, for tests: it forgets everything with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.errors import NoSuchLedger
from messaging.bookkeeper.metadata.store import BookieAddress, MetadataConflict, MetadataStore


class MemoryMetadataStore(MetadataStore):
    """Several clients of one event loop may share it."""

    def __init__(self) -> None:
        self._stored: dict[int, tuple[bytes, int]] = {}
        self._bookies: dict[str, BookieAddress] = {}
        self._watches: dict[int, list[Callable[[], None]]] = {}
        self._bookie_watches: list[Callable[[], None]] = []
        self._last_id = -1

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def register(self, address: BookieAddress) -> None:
        self._bookies[address.bookie] = address
        self._tell(self._bookie_watches)

    def unregister(self, bookie: str) -> None:
        self._bookies.pop(bookie, None)
        self._tell(self._bookie_watches)

    async def create(self, metadata: LedgerMetadata) -> LedgerMetadata:
        if metadata.ledger_id in self._stored:
            raise MetadataConflict
        self._stored[metadata.ledger_id] = (metadata.encode(), 0)
        return replace(metadata, version=0)

    async def read(self, ledger_id: int) -> LedgerMetadata:
        if ledger_id not in self._stored:
            raise NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
        data, version = self._stored[ledger_id]
        return LedgerMetadata.decode(ledger_id, data, version)

    async def write(self, metadata: LedgerMetadata) -> LedgerMetadata:
        stored = await self.read(metadata.ledger_id)
        if stored.version != metadata.version:
            raise MetadataConflict
        version = (stored.version or 0) + 1
        self._stored[metadata.ledger_id] = (metadata.encode(), version)
        self._tell(self._watches.get(metadata.ledger_id, []))
        return replace(metadata, version=version)

    async def delete(self, ledger_id: int) -> None:
        if self._stored.pop(ledger_id, None) is None:
            raise NoSuchLedger(f"there is no ledger {ledger_id}", ledger_id)
        self._tell(self._watches.get(ledger_id, []))

    async def ledgers(self) -> AsyncIterator[int]:
        for ledger_id in list(self._stored):
            yield ledger_id

    async def new_ledger_id(self) -> int:
        self._last_id = max([self._last_id, *self._stored]) + 1
        return self._last_id

    def watch(self, ledger_id: int, changed: Callable[[], None]) -> Callable[[], None]:
        callbacks = self._watches.setdefault(ledger_id, [])
        callbacks.append(changed)
        return lambda: callbacks.remove(changed)

    async def bookies(self) -> list[BookieAddress]:
        return list(self._bookies.values())

    def watch_bookies(self, changed: Callable[[], None]) -> None:
        self._bookie_watches.append(changed)

    @staticmethod
    def _tell(callbacks: list[Callable[[], None]]) -> None:
        loop = asyncio.get_running_loop()
        for callback in callbacks:
            loop.call_soon(callback)
