"""Acknowledgements made durable: the deltas of every cursor of a broker, as entries of one ledger, under the shared commit.

All deltas of one turn of the event loop are one block, so that the number of syncs depends on neither subscriptions nor consumers.
A delta is kept in the log until the snapshot of its cursor is in MetaStore: when the ledger has grown by `checkpoint_bytes`, a new
one is begun, the cursors changed since are saved in one commit, and the old ledger goes. Recovery reads the one or two ledgers
that MetaStore names and hands each cursor its deltas when its topic is loaded.

Entry: ``subscription id u64 | delta``.
"""

from __future__ import annotations

import asyncio
import json
from array import array
from collections.abc import Callable

from messaging.storage.block_header import BlockHeader
from messaging.storage.managed_ledger import Storage
from messaging.storage.seam import LedgerWriter, NoSuchLedger, Position, StoreError

KEY = "cursor-ledgers"
CHECKPOINT_BYTES = 16 << 20
LEDGERS_MAX = 8  # each crash leaves one; beyond this a start folds them into a new one
PROPERTIES = {"reserved": "cursor"}

Done = Callable[[StoreError | None], None]
# Given ids of changed cursors, the (id, mark-delete, snapshot) of those that are loaded; the others were saved when unloaded.
Snapshots = Callable[[set[int]], list[tuple[int, Position, bytes]]]


class CursorLog:
    def __init__(self, storage: Storage, *, checkpoint_bytes: int = CHECKPOINT_BYTES) -> None:
        self.storage = storage
        self.checkpoint_bytes = checkpoint_bytes
        self.recovered: dict[int, list[bytes]] = {}  # deltas of cursors whose topics are not loaded since the start
        self._carried_bytes = 0  # of recovered deltas, copied from ledger to ledger until their topics are loaded
        self._changed: set[int] = set()  # cursors with deltas in the current ledger
        self._writer: LedgerWriter | None = None
        self._ledgers: list[int] = []
        self._turn: list[bytes] = []
        self._turn_done: list[Done] = []
        self._scheduled = False
        self._checkpointing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.snapshots: Snapshots = lambda _: []
        self.on_failure: Callable[[StoreError], None] = lambda _: None

    async def start(self) -> None:
        """Reads what the last run left and begins a ledger of this run. Raises `StoreError`."""
        self._loop = asyncio.get_running_loop()
        stored = await self.storage.meta.get_value(KEY)
        self._ledgers = json.loads(stored) if stored else []
        for ledger_id in self._ledgers:
            await self._recover(ledger_id)
        await self._begin_ledger()
        if len(self._ledgers) > LEDGERS_MAX:
            await self.checkpoint()

    async def _recover(self, ledger_id: int) -> None:
        try:
            info = await self.storage.ledgers.seal(self.storage.fence, ledger_id)
        except NoSuchLedger:  # named before it was created, or deleted before it was unnamed
            return
        reader = await self.storage.ledgers.open(ledger_id)
        entry = 0
        while entry <= info.last_entry:
            for block in await reader.read(entry, entries_max=100_000, bytes_max=4 << 20):
                view, start = bytes(block.data), 0
                for stop in block.stops:
                    subscription_id = int.from_bytes(view[start : start + 8], "big")
                    if subscription_id:  # 0: a marker of the checkpoint
                        self.recovered.setdefault(subscription_id, []).append(view[start + 8 : stop])
                    start = stop
                entry = block.last_entry + 1
        await reader.aclose()

    async def _begin_ledger(self) -> None:
        ledger_id = await self.storage.meta.next_ledger_id()
        await self.storage.meta.put_value(KEY, json.dumps([*self._ledgers, ledger_id]).encode())
        writer = await self.storage.ledgers.create(self.storage.fence, ledger_id, PROPERTIES)
        self._ledgers.append(ledger_id)
        self._writer = writer

    def recovered_deltas(self, subscription_id: int) -> list[bytes]:
        """The deltas that the cursor of a topic now being loaded has to repeat, oldest first. Call `adopted` when it has."""
        return self.recovered.get(subscription_id, [])

    def adopted(self, subscription_id: int) -> None:
        """From here on `snapshots` knows this cursor, with its recovered deltas repeated."""
        if self.recovered.pop(subscription_id, None):
            self._changed.add(subscription_id)

    def append(self, subscription_id: int, delta: bytes, done: Done | None = None) -> None:
        """Stores a delta; `done` runs on the loop when it is durable. Never blocks; deltas of one loop turn share one block."""
        self._turn.append(subscription_id.to_bytes(8, "big") + delta)
        if done is not None:
            self._turn_done.append(done)
        self._changed.add(subscription_id)
        if not self._scheduled:
            self._scheduled = True
            assert self._loop is not None
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        entries, self._turn = self._turn, []
        waiting, self._turn_done = self._turn_done, []
        if not entries:
            return
        stops, total = array("I"), 0
        for entry in entries:
            total += len(entry)
            stops.append(total)
        header = BlockHeader(self.storage.clock_ms(), len(entries), 0, 0, b"").encode()

        def durable(error: StoreError | None) -> None:
            for done in waiting:
                done(error)
            if error is not None:
                self.on_failure(error)

        assert self._writer is not None
        try:
            self._writer.append(header, b"".join(entries), stops, durable)
        except StoreError as error:
            durable(error)
            return
        if self._writer.length_bytes > self.checkpoint_bytes + self._carried_bytes and self._checkpointing is None:
            assert self._loop is not None
            self._checkpointing = self._loop.create_task(self._checkpoint_logged(), name="cursor checkpoint")

    async def _checkpoint_logged(self) -> None:
        try:
            await self.checkpoint()
        except StoreError as error:
            self.on_failure(error)
        finally:
            self._checkpointing = None

    async def checkpoint(self) -> None:
        """Saves every changed cursor to MetaStore and drops the ledgers that only repeat them.

        Deltas of cursors whose topics are not loaded are carried over into the new ledger as they are."""
        old_writer, old = self._writer, list(self._ledgers)
        assert old_writer is not None
        await self._begin_ledger()
        carried = [(key, delta) for key, deltas in self.recovered.items() for delta in deltas]
        self._carried_bytes = sum(len(delta) + 8 for _, delta in carried)
        changed, self._changed = self._changed, set()
        try:
            for subscription_id, delta in carried:
                self.append(subscription_id, delta)
            self._changed.difference_update(self.recovered)
            flushed: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
            self.append(0, b"", flushed.set_result)
            await old_writer.close()
            error = await flushed
            if error is not None:
                raise error
            # Taken only now: a cursor that was saved meanwhile, because its topic was unloaded, must not be set back.
            await self.storage.meta.save_cursors(self.snapshots(changed))
        except BaseException:
            self._changed |= changed  # their deltas are in the old ledgers only, which therefore stay
            raise
        self._ledgers = self._ledgers[len(old) :]
        await self.storage.meta.put_value(KEY, json.dumps(self._ledgers).encode())
        for ledger_id in old:
            await self.storage.ledgers.delete(self.storage.fence, ledger_id)

    async def stop(self) -> None:
        """Flushes, saves and leaves nothing to repeat, where it can; what it cannot save is repeated by the next start."""
        self._flush()
        if self._checkpointing:
            await self._checkpointing
        try:
            await self.checkpoint()
        except StoreError as error:
            self.on_failure(error)
