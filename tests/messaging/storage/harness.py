"""One way to open, reopen and crash each implementation of the ledger seam."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from messaging.storage.memory import MemoryLedgerStore
from messaging.storage.seam import Fence, LedgerStore


class Harness(Protocol):
    store: LedgerStore
    fence: Fence

    async def open(self) -> None: ...
    async def reopen(self) -> None:
        """A clean stop, then a start."""

    async def crash(self) -> None:
        """The owner is gone without a stop; another opens what it left."""

    async def close(self) -> None: ...


class MemoryHarness:
    store: MemoryLedgerStore
    fence: Fence

    def __init__(self, directory: Path) -> None:
        pass

    async def open(self) -> None:
        self.store = MemoryLedgerStore(entry_bytes_max=1 << 20)
        self.fence = await self.store.start()

    async def reopen(self) -> None:
        await self.store.stop()
        self.fence = await self.store.start()

    async def crash(self) -> None:
        self.store = MemoryLedgerStore(self.store)
        self.fence = await self.store.start()

    async def close(self) -> None:
        await self.store.stop()


HARNESSES: dict[str, Callable[[Path], Harness]] = {"memory": MemoryHarness}
