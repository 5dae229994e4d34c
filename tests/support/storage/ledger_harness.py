"""One way to open, reopen and crash each implementation of the ledger store interface."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from messaging.bookkeeper_url import BookkeeperUrl
from messaging.storage.bookkeeper.store import BookkeeperLedgerStore
from messaging.storage.ledger_store import Fence, LedgerStore
from messaging.storage.local import Durability, LocalConfig, LocalLedgerStore
from messaging.storage.local.device.aio import aio_available
from messaging.storage.local.device.direct import open_past_cache
from messaging.storage.local.device.disk import Disk, OsDisk
from messaging.storage.postgresql.ledgers.store import PostgresqlLedgerStore
from tests.support.bookkeeper.cluster import Cluster
from tests.support.bookkeeper.fake_bookie import FakeCluster
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore
from tests.support.storage.owning import started


class Harness(Protocol):
    @property
    def store(self) -> LedgerStore: ...
    @property
    def fence(self) -> Fence: ...

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
        self.fence = await started(self.store)

    async def reopen(self) -> None:
        await self.store.stop()
        self.fence = await started(self.store)

    async def crash(self) -> None:
        self.store = MemoryLedgerStore(self.store)
        self.fence = await started(self.store)

    async def close(self) -> None:
        await self.store.stop()


HARNESSES: dict[str, Callable[[Path], Harness]] = {"memory": MemoryHarness}


class LocalHarness:
    """Small segments, so that every test crosses several. A crash leaves the old store running on a copy's original."""

    store: LocalLedgerStore
    fence: Fence

    def __init__(self, directory: Path, durability: Durability = Durability.SYNC, disk: Disk | None = None) -> None:
        self._root = directory
        self._disk = disk
        self._number = 0
        self._crashed: list[LocalLedgerStore] = []
        self.config = LocalConfig(
            durability=durability,
            segment_bytes=256 << 10,
            commit_bytes_max=64 << 10,
            reserved_bytes=64 << 10,
            entry_bytes_max=1 << 20,
            checkpoint_bytes=32 << 10,
            snapshot_pairs=0,
        )

    async def open(self) -> None:
        self.store = LocalLedgerStore(self._root / f"log-{self._number}", self.config, disk=self._disk)
        self.fence = await started(self.store)

    async def reopen(self) -> None:
        await self.store.stop()
        await self.open()

    async def crash(self) -> None:
        """The copy is taken between two commits; the old store goes on, on its own files."""
        self._crashed.append(self.store)
        self._number += 1
        reached, copied = threading.Event(), threading.Event()

        def pause() -> None:
            reached.set()
            copied.wait(30)

        self.store.log.thread.post(pause)
        await asyncio.to_thread(reached.wait, 30)
        shutil.copytree(self.store.directory, self._root / f"log-{self._number}")
        copied.set()
        await self.open()

    async def close(self) -> None:
        for store in (*self._crashed, self.store):
            await store.stop()


class OldDisk(OsDisk):
    """Of a system where a thread has to wait for every write."""

    def aio(self, loop: asyncio.AbstractEventLoop) -> None:
        return None


def needs_the_kernel(folder: Path) -> None:
    """Skips the test where the kernel cannot read and write files of `folder` by itself, past the page cache."""
    if not aio_available():
        pytest.skip("needs Linux's asynchronous I/O (io_submit)")
    with tempfile.TemporaryFile(dir=folder) as file:
        descriptor = open_past_cache(file.fileno(), os.O_RDWR)
    if descriptor < 0:
        pytest.skip(f"the file system of {folder} has no writing past the page cache")
    os.close(descriptor)


HARNESSES["local"] = LocalHarness
HARNESSES["local-by-thread"] = lambda directory: LocalHarness(directory, disk=OldDisk())


class FaultyHarness(MemoryHarness):
    """The wrapper keeps every promise as long as no fault is asked for."""

    async def open(self) -> None:
        await super().open()
        self.store = FaultyLedgerStore(self.store)  # type: ignore[assignment]

    async def crash(self) -> None:
        inner = self.store.store  # type: ignore[attr-defined]
        self.store = MemoryLedgerStore(inner)
        self.fence = await started(self.store)


HARNESSES["faulty"] = FaultyHarness
HARNESSES["local-lose-on-power-loss"] = lambda directory: LocalHarness(directory, Durability.LOSE_ON_POWER_LOSS)
HARNESSES["local-lose-on-crash"] = lambda directory: LocalHarness(directory, Durability.LOSE_ON_CRASH)


class PostgresqlHarness:
    """A crash leaves the old store running on the same database."""

    store: PostgresqlLedgerStore
    fence: Fence

    def __init__(self, url: str) -> None:
        self._url = url
        self._crashed: list[PostgresqlLedgerStore] = []

    async def open(self) -> None:
        self.store = PostgresqlLedgerStore(self._url, entry_bytes_max=1 << 20)
        self.fence = await started(self.store)

    async def reopen(self) -> None:
        await self.store.stop()
        await self.open()

    async def crash(self) -> None:
        self._crashed.append(self.store)
        await self.open()

    async def close(self) -> None:
        for store in (*self._crashed, self.store):
            await store.stop()


class BookkeeperHarness:
    """On bookies of this event loop. A crash leaves the old store running."""

    store: BookkeeperLedgerStore
    fence: Fence

    def __init__(self, directory: Path) -> None:
        self.cluster = FakeCluster()
        self._crashed: list[BookkeeperLedgerStore] = []

    async def open(self) -> None:
        self.store = await self._made()
        self.fence = await started(self.store)

    async def _made(self) -> BookkeeperLedgerStore:
        while len(self.cluster.bookies) < 3:
            await self.cluster.add()
        url = BookkeeperUrl("zookeeper:2181")
        return BookkeeperLedgerStore(url, metadata_store=lambda _: self.cluster.store, entry_bytes_max=1 << 20)

    async def reopen(self) -> None:
        await self.store.stop()
        await self.open()

    async def crash(self) -> None:
        self._crashed.append(self.store)
        await self.open()

    async def close(self) -> None:
        for store in (*self._crashed, self.store):
            await store.stop()
        for bookie in self.cluster.bookies.values():
            await bookie.stop()


HARNESSES["bookkeeper"] = BookkeeperHarness


class RealBookiesHarness(BookkeeperHarness):
    """Each has a store of its own in the cluster."""

    _numbers = itertools.count(1)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.folder)
        self._url = BookkeeperUrl.parse(f"bookkeeper://{cluster.hosts}/ledgers?store=contract-{next(self._numbers)}")

    async def _made(self) -> BookkeeperLedgerStore:
        return BookkeeperLedgerStore(self._url, entry_bytes_max=1 << 20)
