"""What killed brokers left in storage, and a start on it."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path

from messaging.storage.ledger_store import EARLIEST, StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.ledger import Storage
from tests.support.storage.cursor_world import Deltas, list_of
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.faulty_meta import FaultyMetaStore
from tests.support.storage.memory_meta import MemoryMetaStore
from tests.support.storage.owning import owned

DIRECTORY = Path("/log")
TOPIC = "persistent://a/b/t"
CONFIG = LocalConfig(
    segment_bytes=64 << 10,
    commit_bytes_max=8 << 10,
    reserved_bytes=64 << 10,
    entry_bytes_max=16 << 10,
    checkpoint_bytes=8 << 10,
    snapshot_pairs=0,
)
DISK_BYTES = 4 << 20
MERGED_S = 60.0  # of virtual time


class Left:
    """What earlier lives left: a disk, metadata, and the deltas that were durable."""

    def __init__(self, disk: FakeDisk, meta: MemoryMetaStore, durable: list[bytes]) -> None:
        self.disk = disk
        self.meta = meta
        self.durable = durable

    def on(self, disk: FakeDisk) -> Left:
        """A copy, with this in place of its disk."""
        return Left(disk, copy.deepcopy(self.meta), list(self.durable))


class Life:
    """The storage of a broker from its start on. There is one subscription; its deltas are numbers."""

    def __init__(self, left: Left, meta: FaultyMetaStore | None = None) -> None:
        self.store = LocalLedgerStore(DIRECTORY, CONFIG, disk=left.disk)
        self._left = left
        self._meta = meta or FaultyMetaStore(left.meta)
        self.cursors: CursorLog

    async def start(self) -> None:
        """Waits for the merging of cursor ledgers too, unless it is tried again and again."""
        storage = Storage(self.store, self._meta, await owned(self.store, self._meta), lambda: 1)
        self.cursors = CursorLog(storage, retry_s=0.01)
        await self.cursors.start()
        if self.cursors.checkpointing is not None:
            await asyncio.wait([self.cursors.checkpointing], timeout=MERGED_S)

    async def stop(self) -> None:
        if hasattr(self, "cursors"):
            await self.cursors.stop()
        await self.store.stop()

    async def load(self) -> None:
        """The topic is loaded, and its subscription knows everything that was durable."""
        (record,) = await self._left.meta.subscriptions(TOPIC)
        deltas = Deltas(list_of(record.state))
        deltas += [delta for delta in self.cursors.recovered_deltas(record.subscription_id) if delta not in deltas]
        self.cursors.claim(record.subscription_id, deltas)
        assert set(self._left.durable) <= set(deltas)
        self._subscription_id, self._held = record.subscription_id, deltas

    async def acknowledge(self, number: int) -> StoreError | None:
        delta = b"%04d" % number
        self._held.append(delta)
        done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        self.cursors.append(self._subscription_id, delta, done.set_result)
        error = await done
        if error is None:
            self._left.durable.append(delta)
        return error


async def live(left: Left) -> None:
    """Starts, acknowledges, and is killed."""
    life = Life(left)
    await life.start()
    if not left.durable:
        fence = life.cursors.storage.fence
        await left.meta.create_subscription(fence, TOPIC, "s", created_ms=0, mark_delete=EARLIEST, properties={})
    await life.load()
    assert await life.acknowledge(len(left.durable)) is None
    left.disk = left.disk.frozen()
