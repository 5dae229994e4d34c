"""Acknowledgements made durable: the deltas of every cursor of an owned range, as entries of one ledger, under the shared commit.

All deltas of one turn of the event loop are one block, so that the number of syncs depends on neither subscriptions nor consumers.
A delta is kept in the log until the snapshot of its cursor is in MetaStore: when the ledger has grown by `checkpoint_bytes`, a new
one is begun, the cursors changed since are saved in one commit, and the old ledger goes. Recovery reads the one or two ledgers
that MetaStore names and hands each cursor its deltas when its topic is loaded.

A cursor that cannot be saved (its snapshot cannot be packed, or the store refuses just that one) keeps its deltas: they are copied
from ledger to ledger, and every other cursor is saved without it. `health` says so.

When the store refuses a delta, whoever waits for it is told, and so is `on_failure`; nothing is taken for now. The cursors in
memory have every delta, so a checkpoint on a new ledger repairs it all: it is tried until it succeeds, and `on_repaired` is told.
Only a store that failed for good, or has another owner, is left alone.

Entry: ``subscription id u64 | delta``.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping

from messaging.background import ONE_OFF
from messaging.storage.ledger_store import WHOLE, Fenced, LedgerWriter, StoreError
from messaging.storage.managed.cursor_recovery import copy_deltas, entry_of, read_deltas
from messaging.storage.managed.cursor_snapshots import CursorSnapshots, StoredCursor
from messaging.storage.managed.delta_batcher import DeltaBatcher, Done
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import MetaStore

logger = logging.getLogger(__name__)

KEY = "cursor-ledgers"
CHECKPOINT_BYTES = 16 << 20
LEDGERS_MAX = 8  # each crash leaves one; beyond this a start folds them into a new one
PROPERTIES = {"reserved": "cursor"}
RETRY_S = 0.5  # after a failure; doubled from try to try
LOOP = "checkpoint_cursors"


def key_of(scope: str) -> str:
    """Where MetaStore has the list of a range's cursor ledgers."""
    return KEY if scope == WHOLE else f"{KEY}/{scope}"


async def cursor_ledgers(meta: MetaStore, scope: str) -> list[int]:
    """The ids of the ledgers that the cursor log of a range keeps its deltas in. Raises `StoreError`."""
    stored = await meta.get_value(key_of(scope))
    return json.loads(stored) if stored else []


class CursorLog:
    def __init__(self, storage: Storage, *, checkpoint_bytes: int = CHECKPOINT_BYTES, retry_s: float = RETRY_S) -> None:
        self.storage = storage
        self.checkpoint_bytes = checkpoint_bytes
        self.retry_s = retry_s
        self.health = storage.background.register(LOOP)
        answers = storage.background.register(ONE_OFF)
        self._batches = DeltaBatcher(storage.clock_ms, self.health, answers, self._refuse, self._written)
        self.recovered: dict[int, list[bytes]] = {}  # deltas of cursors whose topics are not loaded since the start
        self._carried_bytes = 0  # of recovered deltas, copied from ledger to ledger until their topics are loaded
        self._changed: set[int] = set()  # cursors with deltas in the current ledger, or refused
        self._ledgers: list[int] = []
        self._failing = False  # `on_failure` was told, and `on_repaired` not yet
        self.checkpointing: asyncio.Task[None] | None = None  # in the background
        self._one_at_a_time = asyncio.Lock()
        self._stopping = False
        self.states = CursorSnapshots(storage.meta, storage.fence)
        self.on_failure: Callable[[StoreError], None] = lambda _: None
        self.on_repaired: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Reads what the last run left and begins a ledger of this run. Raises `StoreError`."""
        self._ledgers = await cursor_ledgers(self.storage.meta, self.storage.fence.scope)
        for ledger_id in self._ledgers:
            for subscription_id, delta in await read_deltas(self.storage, ledger_id):
                if subscription_id:
                    self.recovered.setdefault(subscription_id, []).append(delta)
        await self._begin_ledger()
        if len(self._ledgers) > LEDGERS_MAX:
            await self.checkpoint()

    async def _begin_ledger(self) -> None:
        """Made, then named, then used: a former owner is fenced before it can write our list of ledgers over."""
        ledgers, fence = self.storage.ledgers, self.storage.fence
        ledger_id = await self.storage.meta.next_ledger_id(fence)
        writer = await ledgers.create(fence, ledger_id, PROPERTIES)
        try:
            await self._name_ledgers([*self._ledgers, ledger_id])
        except StoreError:
            await ledgers.delete(fence, ledger_id)
            raise
        self._ledgers.append(ledger_id)
        self._batches.use(writer)

    async def _name_ledgers(self, ledgers: list[int]) -> None:
        fence = self.storage.fence
        await self.storage.meta.put_value(fence, key_of(fence.scope), json.dumps(ledgers).encode())

    # --- cursors come and go

    def recovered_deltas(self, subscription_id: int) -> list[bytes]:
        """The deltas that the cursor of a topic now being loaded has to repeat, oldest first. They stay until `claim`."""
        return self.recovered.get(subscription_id, [])

    def is_saved(self, subscription_id: int) -> bool:
        """Of a topic that is not loaded: whether what MetaStore has of this cursor is all there is."""
        return subscription_id not in self.recovered and subscription_id not in self.states.cursors

    def claim(self, subscription_id: int, cursor: StoredCursor) -> None:
        """From here on checkpoints save this cursor, which has repeated its recovered deltas. Call it when nothing about the load
        can fail any more."""
        self.states.cursors[subscription_id] = cursor
        if self.recovered.pop(subscription_id, None):
            self._changed.add(subscription_id)

    async def release(self, ids: list[int]) -> None:
        """A topic is unloaded: saves its cursors and lets go of them. What cannot be saved stays for the next load. Raises
        nothing."""
        try:
            failed = await self.states.save(ids)
        except StoreError as error:
            failed = dict.fromkeys(ids, error)
        for subscription_id in ids:
            if subscription_id not in failed:
                self.states.forget(subscription_id)
        if failed:
            self._changed |= failed.keys()
            self._report(failed)
            self.begin_checkpoint()

    def forget(self, subscription_id: int) -> None:
        """The subscription was deleted."""
        self.states.forget(subscription_id)
        self.recovered.pop(subscription_id, None)
        self._changed.discard(subscription_id)

    def _report(self, failed: Mapping[int, Exception]) -> None:
        for subscription_id, error in failed.items():
            self.health.failed(error, subscription_id=subscription_id)

    # --- deltas

    def append(self, subscription_id: int, delta: bytes, done: Done | None = None) -> None:
        """Stores a delta; `done` runs on the loop when it is durable. Never blocks; deltas of one loop turn share one block."""
        self._changed.add(subscription_id)
        self._batches.append(entry_of(subscription_id, delta), done)

    def when_durable(self, done: Done) -> None:
        """`done` runs when every delta appended so far is durable: at once where they are."""
        self._batches.when_durable(done)

    def _written(self, writer: LedgerWriter) -> None:
        if writer.length_bytes > self.checkpoint_bytes + self._carried_bytes:
            self.begin_checkpoint()

    # --- trouble

    def _refuse(self, writer: LedgerWriter, error: StoreError) -> None:
        """A ledger takes no more. Where it was left already, the checkpoint that left it has what it refused."""
        if writer is not self._batches.writer:
            return
        self._batches.refused = self._batches.refused or error
        self._failed(error)
        if not self._hopeless(error):
            self.begin_checkpoint()

    def _failed(self, error: StoreError) -> None:
        if not self._failing:
            self._failing = True
            self.on_failure(error)

    def _hopeless(self, error: StoreError) -> bool:
        return self.storage.ledgers.failed is not None or isinstance(error, Fenced)

    def begin_checkpoint(self) -> None:
        """In the background, tried until it succeeds. One runs at a time."""
        if self.checkpointing is None and not self._stopping:
            task = self.storage.background.until_done(LOOP, self._checkpoint_or_raise, retry_s=self.retry_s)
            self.checkpointing = task
            task.add_done_callback(self._checkpoint_ended)

    def _checkpoint_ended(self, task: asyncio.Task[None]) -> None:
        if self.checkpointing is task:
            self.checkpointing = None

    async def _checkpoint_or_raise(self) -> None:
        """Returns when it is done, or will never be."""
        error: Exception | None
        try:
            await self.checkpoint()
            error = self._batches.refused
        except StoreError as failure:
            error = failure
        if error is not None:
            self._failed(error)
            if self._hopeless(error):
                self.health.failed(error)
                return
            raise error
        if self._failing:
            self._failing = False
            self.on_repaired()

    # --- checkpoints

    async def checkpoint(self) -> None:
        """Saves every changed cursor to MetaStore and drops the ledgers that only repeat them. Raises `StoreError`.

        Deltas of cursors whose topics are not loaded are carried over into the new ledger as they are."""
        async with self._one_at_a_time:
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        old_writer, old = self._batches.writer, list(self._ledgers)
        assert old_writer is not None
        await self._forget_deleted()
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
            await self._close(old_writer)
            error = await flushed
            if error is not None:
                raise error
            # Taken only now: a cursor that was saved meanwhile, because its topic was unloaded, must not be set back.
            failed = await self.states.save(changed)
            kept = [await copy_deltas(self.storage, old, failed.keys(), PROPERTIES)] if failed else []
        except BaseException:
            self._changed |= changed  # their deltas are in the old ledgers only, which therefore stay
            raise
        self._changed |= failed.keys()
        self._report(failed)
        self._ledgers = kept + [one for one in self._ledgers if one not in old]
        await self._name_ledgers(self._ledgers)
        for ledger_id in old:
            await self.storage.ledgers.delete(self.storage.fence, ledger_id)

    async def _close(self, writer: LedgerWriter) -> None:
        """Waits for what is on its way. A ledger that failed cannot be closed; nothing of it is needed any more."""
        try:
            await writer.close()
        except Fenced:
            raise
        except StoreError as error:
            logger.warning("cursor ledger %d was not closed: %s", writer.ledger_id, error)

    async def _forget_deleted(self) -> None:
        """Of a subscription that was deleted nobody will ever adopt the deltas: they would be carried for ever."""
        if self.recovered:
            existing = await self.storage.meta.existing_subscriptions(list(self.recovered))
            for subscription_id in self.recovered.keys() - existing:
                self.recovered.pop(subscription_id, None)

    async def stop(self) -> None:
        """Flushes, saves and leaves nothing to repeat, where it can; what it cannot save is repeated by the next start."""
        self._batches.flush()
        self._stopping = True
        running, self.checkpointing = self.checkpointing, None
        if running is not None:
            if self._failing:
                running.cancel()
            await asyncio.wait([running])
        try:
            await self.checkpoint()
        except StoreError as error:
            self._failed(error)
