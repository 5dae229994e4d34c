"""A cursor log over stores in memory, the cursors of loaded topics, and every way to end."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Sequence

from messaging.storage.ledger_store import (
    EARLIEST,
    StoreError,
)
from messaging.storage.managed.cursor_log import KEY, CursorLog
from messaging.storage.managed.ledger import Storage
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore
from tests.support.storage.owning import owned


class Deltas(list[bytes]):
    """A cursor here is the list of its deltas; a snapshot is those as text."""

    mark_delete = EARLIEST
    broken = False

    def snapshot(self) -> bytes:
        if self.broken:
            raise struct.error("int too large to convert")
        return b",".join(self)


class WatchedCursorLog(CursorLog):
    """Notes when it begins to refuse deltas, and when it ends."""

    def __init__(self, world: World, storage: Storage) -> None:
        self._world = world
        self._refusing: StoreError | None = None
        super().__init__(storage, checkpoint_bytes=world.checkpoint_bytes, retry_s=0.001)

    @property
    def refusing(self) -> StoreError | None:
        return self._refusing

    @refusing.setter
    def refusing(self, error: StoreError | None) -> None:
        if error is not None:
            self._world.failures.append(error)
        elif self._refusing is not None:
            self._world.repaired.append(len(self._world.failures))
        self._refusing = error


class World:
    def __init__(
        self, memory: MemoryLedgerStore | None = None, meta: MemoryMetaStore | None = None, *, checkpoint_bytes: int = 1 << 20
    ):
        self.memory = memory or MemoryLedgerStore()
        self.meta = meta or MemoryMetaStore()
        self.checkpoint_bytes = checkpoint_bytes
        self.loaded: dict[int, Deltas] = {}
        self.failures: list[StoreError] = []
        self.repaired: list[int] = []  # how many failures there had been

    async def start(self, damage: Sequence[tuple[int, int]] = (), full: StoreError | None = None) -> World:
        """`damage`: (ledger, entry) that cannot be read. `full`: what the store says to the first ledger."""
        self.store = FaultyLedgerStore(self.memory)
        if full is not None:
            self.store.fail_next("create", full)
        for ledger_id, entry_id in damage:
            self.store.damage(ledger_id, entry_id)
        storage = Storage(self.store, self.meta, await owned(self.store, self.meta), lambda: 1)
        self.log = WatchedCursorLog(self, storage)
        await self.log.start()
        return self

    def claim(self, subscription_id: int, deltas: Sequence[bytes] = ()) -> None:
        cursor = self.loaded[subscription_id] = Deltas(deltas)
        self.log.claim(subscription_id, cursor)

    async def unload(self) -> None:
        await self.log.release(list(self.loaded))
        self.loaded.clear()

    async def subscriptions(self, count: int) -> list[int]:
        ids = []
        for index in range(count):
            record = await self.meta.create_subscription(
                self.log.storage.fence, "persistent://a/b/t", f"s{index}", created_ms=0, mark_delete=EARLIEST, properties={}
            )
            self.claim(record.subscription_id)
            ids.append(record.subscription_id)
        return ids

    async def load(self) -> None:
        """Every topic is opened: snapshot first, then what the log repeats."""
        for record in await self.meta.subscriptions("persistent://a/b/t"):
            if record.subscription_id in self.loaded:
                continue
            cursor = self.log.states.cursors.get(record.subscription_id)
            if isinstance(cursor, Deltas):
                self.loaded[record.subscription_id] = cursor
                continue
            deltas = list_of(record.state)
            for delta in self.log.recovered_deltas(record.subscription_id):
                if delta not in deltas:
                    deltas.append(delta)
            self.claim(record.subscription_id, deltas)

    async def store_delta(self, subscription_id: int, delta: bytes) -> StoreError | None:
        self.loaded[subscription_id].append(delta)
        done: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        self.log.append(subscription_id, delta, done.set_result)
        return await done

    async def crash(self, damage: Sequence[tuple[int, int]] = ()) -> World:
        if self.log.checkpointing is not None:
            self.log.checkpointing.cancel()  # the dead do nothing more
            await asyncio.wait([self.log.checkpointing])
        after = World(MemoryLedgerStore(self.memory), self.meta, checkpoint_bytes=self.checkpoint_bytes)
        return await after.start(damage)

    async def ledgers(self) -> list[int]:
        return [info.ledger_id for info in await self.memory.ledgers()]

    async def named(self) -> list[int]:
        stored = await self.meta.get_value(KEY)
        assert stored is not None
        return list(json.loads(stored))


def list_of(state: bytes) -> list[bytes]:
    return state.split(b",") if state else []
