"""Makes acknowledgements durable: the deltas of every cursor of an owned range are entries of one ledger, under the shared commit.

All deltas of one turn of the event loop form one block, so the number of syncs depends on neither subscriptions nor consumers. A
delta stays in the log until a snapshot of its cursor is in MetaStore: when the ledger has grown by `checkpoint_bytes`, a new one is
started, the cursors changed since then are saved in one commit, and the old ledger is deleted. Recovery reads the one or two
ledgers that MetaStore names and hands each cursor its deltas when its topic is loaded.

A cursor that cannot be saved (its snapshot cannot be packed, or the store refuses only this one) keeps its deltas: they are copied
from ledger to ledger, and every other cursor is saved without it. `health` reports it.

When the store refuses a delta, those waiting for it are told, and deltas are refused for now: `refusing` says why. The cursors in
memory include every delta, so a checkpoint on a new ledger repairs everything: it is retried until it succeeds. It is not retried
if the store failed permanently or has another owner. A start on a full disk is such a case: deltas are refused from the beginning.
A ledger may also refuse deltas when the next one has taken its place: then deltas are taken, and those refused are as durable as
their cursors, which the checkpoint saves.

Entry: ``subscription id u64 | delta``. No delta: what came before of this cursor is in MetaStore, and another broker may go on
with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import NamedTuple

from messaging.background import ONE_OFF
from messaging.storage.ledger_store import EARLIEST, WHOLE, DiskFull, Fenced, LedgerWriter, Position, StoreError, Unavailable
from messaging.storage.managed.cursor_recovery import copy_deltas, read_deltas
from messaging.storage.managed.cursor_snapshots import CursorSnapshots, StoredCursor
from messaging.storage.managed.delta_batcher import DeltaBatcher, Done
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import MetaStore

logger = logging.getLogger(__name__)

KEY = "cursor-ledgers"
CHECKPOINT_BYTES = 16 << 20  # at most
LEDGERS_MAX = 8  # each crash leaves one; above this number, a start with disk space merges them into a new one
PROPERTIES = {"reserved": "cursor"}
SAVED_AT_ONCE = 1_000  # cursors that are restored and saved without their topics, at a time
RETRY_S = 0.5  # after a failure; doubled after each attempt
UNREADABLE_AFTER = 4  # attempts, where an operator accepts the loss
LOOP = "checkpoint_cursors"


def checkpoint_bytes(reserved_bytes: int) -> int:
    """How long a ledger may grow where so much of the disk is kept for cursors: on a full disk, an old ledger, its successor and
    segments that wait to be reclaimed must fit there. 0 bytes kept: a full disk refuses acknowledgements, whatever we do."""
    return min(CHECKPOINT_BYTES, reserved_bytes // 4 or CHECKPOINT_BYTES)


def key_of(scope: str) -> str:
    """The MetaStore key of the list of a range's cursor ledgers."""
    return KEY if scope == WHOLE else f"{KEY}/{scope}"


async def cursor_ledgers(meta: MetaStore, scope: str) -> list[int]:
    """The ids of the ledgers in which the cursor log of a range keeps its deltas. Raises `StoreError`."""
    stored = await meta.get_value(key_of(scope))
    try:
        named = json.loads(stored) if stored else []
        if not isinstance(named, list) or not all(isinstance(ledger_id, int) for ledger_id in named):
            raise ValueError("it is no list of ledgers")
    except ValueError as error:
        raise StoreError(f"the metadata cannot be read: the value {key_of(scope)} is damaged: {error}") from error
    return named


async def name_readable(storage: Storage) -> int:
    """Leaves in the list of a range's cursor ledgers those that can be read, where their loss was accepted. How many it left out.
    Raises `StoreError`."""
    try:
        named = await cursor_ledgers(storage.meta, storage.fence.scope)
        lost = 0
    except Unavailable:
        raise
    except StoreError:
        named, lost = [], 1
    readable = []
    for ledger_id in named:
        error = await _why_unreadable(storage, ledger_id)
        if error is None:
            readable.append(ledger_id)
        else:
            lost += 1
            logger.critical("cursor ledger %d is given up, and its acknowledgements with it: %s", ledger_id, error)
    await storage.meta.put_value(storage.fence, key_of(storage.fence.scope), json.dumps(readable).encode())
    return lost


async def _why_unreadable(storage: Storage, ledger_id: int) -> Exception | None:
    """Asks again where that may help. Raises `Fenced`."""
    for attempt in range(UNREADABLE_AFTER):
        try:
            await read_deltas(storage, ledger_id)
            return None
        except Fenced:
            raise
        except (StoreError, ValueError, LookupError) as error:
            if not isinstance(error, Unavailable) or attempt == UNREADABLE_AFTER - 1:
                return error
            await asyncio.sleep(RETRY_S)
    return None


class DeltaRefusal(NamedTuple):
    """The last one of a cursor. Those of all cursors are numbered in their order."""

    number: int
    error: StoreError


class CursorLog:
    def __init__(self, storage: Storage, *, checkpoint_bytes: int = CHECKPOINT_BYTES, retry_s: float = RETRY_S) -> None:
        self.storage = storage
        self.checkpoint_bytes = checkpoint_bytes
        self.retry_s = retry_s
        self.health = storage.background.register(LOOP)
        answers = storage.background.register(ONE_OFF)
        self._batches = DeltaBatcher(storage.clock_ms, self.health, answers, self._refuse, self._written)
        self.recovered: dict[int, list[bytes]] = {}  # deltas of cursors whose topics have not been loaded since the start
        self._carried_bytes = 0  # size of recovered deltas, copied from ledger to ledger until their topics are loaded
        self._changed: set[int] = set()  # cursors with deltas in the current ledger, or with refused deltas
        self._kept: set[int] = set()  # cursors of topics that are not loaded any more, and that could not be saved
        self._refused: dict[int, DeltaRefusal] = {}  # cursors with deltas that no ledger has, and that were not saved since
        self._refusals = 0
        self._ledgers: list[int] = []
        self.refusing: StoreError | None = None  # why acknowledgements are not stored; None while they are
        self.checkpointing: asyncio.Task[None] | None = None  # in the background
        self._one_at_a_time = asyncio.Lock()
        self._started = self._stopping = False
        self.states = CursorSnapshots(storage.meta, storage.fence)
        self.opened_ms = 0  # when the current ledger was begun

    async def start(self) -> None:
        """Reads what the last run left and starts a new ledger; where the disk is full, that is tried until it succeeds, and deltas
        are refused until then. Raises `StoreError`."""
        self._ledgers = await cursor_ledgers(self.storage.meta, self.storage.fence.scope)
        for ledger_id in self._ledgers:
            for subscription_id, delta in await read_deltas(self.storage, ledger_id):
                if subscription_id and delta:
                    self.recovered.setdefault(subscription_id, []).append(delta)
                else:
                    self.recovered.pop(subscription_id, None)
        self._started = True
        try:
            await self._begin_ledger()
        except DiskFull as error:
            self._batches.refused = error
            self._failed(error)
        if self.refusing or (len(self._ledgers) > LEDGERS_MAX and not self.storage.reserve.disk_full):
            self.begin_checkpoint()

    async def _begin_ledger(self) -> None:
        """Created, then recorded in MetaStore, then used: that fences a former owner before it could overwrite our ledger list."""
        ledgers, fence = self.storage.ledgers, self.storage.fence
        ledger_id = await self.storage.meta.next_ledger_id(fence)
        writer = await ledgers.create(fence, ledger_id, PROPERTIES)
        try:
            await self._name_ledgers([*self._ledgers, ledger_id])
        except StoreError:
            await ledgers.delete(fence, ledger_id)
            raise
        self._ledgers.append(ledger_id)
        self.opened_ms = self.storage.clock_ms()
        self._batches.use(writer)

    @property
    def last(self) -> Position:
        """The last delta: its ledger takes those of every cursor. `EARLIEST` while none can be stored."""
        writer = self._batches.writer
        return EARLIEST if writer is None else Position(writer.ledger_id, writer.next_entry - 1)

    async def _name_ledgers(self, ledgers: list[int]) -> None:
        fence = self.storage.fence
        await self.storage.meta.put_value(fence, key_of(fence.scope), json.dumps(ledgers).encode())

    # --- loading and unloading cursors

    def recovered_deltas(self, subscription_id: int) -> list[bytes]:
        """The deltas that a cursor of a topic being loaded must apply, oldest first. They are kept until `claim`."""
        return self.recovered.get(subscription_id, [])

    def is_saved(self, subscription_id: int) -> bool:
        """For a topic that is not loaded: whether MetaStore holds the cursor's complete state."""
        return subscription_id not in self.recovered and subscription_id not in self.states.cursors

    def claim(self, subscription_id: int, cursor: StoredCursor) -> None:
        """From now on checkpoints save this cursor, which has applied its recovered deltas. Call it when the load can no longer
        fail."""
        self.states.cursors[subscription_id] = cursor
        self._kept.discard(subscription_id)
        if self.recovered.pop(subscription_id, None):
            self._changed.add(subscription_id)

    async def release(self, ids: list[int]) -> None:
        """Called when a topic is unloaded: saves its cursors and drops them from memory. What cannot be saved is kept for the next
        load. Never raises."""
        try:
            failed = await self.states.save(ids)
        except StoreError as error:
            failed = dict.fromkeys(ids, error)
        self._dropped(set(ids) - failed.keys())
        if failed:
            self._changed |= failed.keys()
            self._kept |= failed.keys()
            self._report(failed)
            self.begin_checkpoint()

    def _dropped(self, ids: set[int]) -> None:
        """They are saved, and not in memory any more."""
        self._kept -= ids
        for subscription_id in sorted(ids):
            self.states.forget(subscription_id)
            self._refused.pop(subscription_id, None)
            if self.storage.bundle_fence is not None:  # where it is loaded next, what is in this log must not be applied again
                self._batches.append(subscription_id, b"", None)

    async def saved(self) -> None:
        """Returns when another broker may go on with any cursor that was released: nothing that is in this log counts for it any
        more. Raises `StoreError`, and what one of them acknowledged is still here alone."""
        if self._kept:
            failed = await self.states.save(self._kept)
            self._dropped(self._kept - failed.keys())
            if failed:
                subscription_id, error = next(iter(failed.items()))
                raise Unavailable(f"the cursor of subscription {subscription_id} cannot be saved: {error}")
        stored: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        self._batches.when_durable(stored.set_result)
        error_of_log = await stored or self.refusing
        if error_of_log is not None:
            raise error_of_log
        for subscription_id in self._refused.keys() - self.states.cursors.keys():  # until a checkpoint has ended its ledgers
            raise self._refused[subscription_id].error

    async def save_recovered(self, restored: Callable[[dict[int, list[bytes]]], Awaitable[dict[int, StoredCursor]]]) -> None:
        """Saves what the last run left, without loading topics, and keeps nothing of it. `restored` makes the cursors of some
        subscriptions from their deltas; those that it leaves out are somebody else's. Raises `StoreError`."""
        if not self.recovered:
            return
        while self.recovered:
            some = dict(islice(self.recovered.items(), SAVED_AT_ONCE))
            cursors = await restored(some)
            for subscription_id in some:
                if subscription_id in cursors:
                    self.claim(subscription_id, cursors[subscription_id])
                else:
                    self.forget(subscription_id)
            await self.release(list(cursors))
            await self.saved()
        await self.checkpoint()

    async def end(self) -> None:
        """Nothing is left in this log, and nobody writes to it any more. Raises `StoreError`."""
        await self.stop()
        await self._name_ledgers([])
        for ledger_id in self._ledgers:
            await self.storage.ledgers.delete(self.storage.fence, ledger_id)

    def forget(self, subscription_id: int) -> None:
        """The subscription was deleted."""
        self._kept.discard(subscription_id)
        self.states.forget(subscription_id)
        self.recovered.pop(subscription_id, None)
        self._changed.discard(subscription_id)
        self._refused.pop(subscription_id, None)

    def _report(self, failed: Mapping[int, Exception]) -> None:
        for subscription_id, error in failed.items():
            self.health.failed(error, subscription_id=subscription_id)

    # --- deltas

    def append(self, subscription_id: int, delta: bytes, done: Done | None = None) -> None:
        """Stores a delta; `done` runs on the loop once it is durable. Never blocks; deltas of one loop turn share one block."""
        self._changed.add(subscription_id)
        self._batches.append(subscription_id, delta, done)

    def when_durable(self, subscription_id: int, done: Done) -> None:
        """Runs `done` once every delta of the cursor appended so far is durable; immediately if they all are. With an error if one
        was refused, until a checkpoint has saved the cursor."""
        refusal = self._refused.get(subscription_id)
        if refusal is not None:
            done(refusal.error)
        else:
            self._batches.when_durable(done)

    def _written(self, writer: LedgerWriter) -> None:
        if writer.length_bytes > self.checkpoint_bytes + self._carried_bytes:
            self.begin_checkpoint()

    # --- failures

    def _refuse(self, writer: LedgerWriter | None, ids: set[int], error: StoreError) -> None:
        """A ledger accepts no more deltas. If it is no longer the current one, the checkpoint that replaced it covers what it
        refused."""
        self._refusals += 1
        self._refused |= dict.fromkeys(ids, DeltaRefusal(self._refusals, error))
        if writer is self._batches.writer:
            self._batches.refused = self._batches.refused or error
            self._failed(error)
        if not self._hopeless(error):
            self.begin_checkpoint()

    def _failed(self, error: StoreError) -> None:
        if self.refusing is None:
            logger.critical("acknowledgements cannot be stored: %s", error)
            self.refusing = error

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
        """Returns when the checkpoint is complete or can never succeed; raises an error that a retry may fix."""
        error: Exception | None
        try:
            await self.checkpoint()
            error = self._batches.refused
        except StoreError as failure:
            error = failure
        if error is not None:
            hopeless = self._hopeless(error)
            if hopeless or self._batches.refused:  # or else the current ledger goes on taking deltas
                self._failed(error)
            if hopeless:
                self.health.failed(error)
                return
            raise error
        if self.refusing is not None:  # everything acknowledged meanwhile is durable, whatever those who waited were told
            logger.warning("acknowledgements are stored again, those since the failure too")
            self.refusing = None

    # --- checkpoints

    async def checkpoint(self) -> None:
        """Saves every changed cursor to MetaStore and deletes the ledgers that are no longer needed. Raises `StoreError`.

        Deltas of cursors whose topics are not loaded are copied to the new ledger."""
        async with self._one_at_a_time:
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        old_writer, old = self._batches.writer, list(self._ledgers)
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
            if old_writer is not None:
                await self._close(old_writer)
            error = await flushed
            if error is not None:
                raise error
            # Read only now, so that a cursor saved meanwhile, because its topic was unloaded, is not set back.
            refusals = self._refusals
            failed = await self.states.save(changed)
            kept = [await copy_deltas(self.storage, old, failed.keys(), PROPERTIES)] if failed else []
        except BaseException:
            self._changed |= changed  # their deltas are in the old ledgers only, which are therefore kept
            raise
        self._changed |= failed.keys()
        self._refused = {key: refusal for key, refusal in self._refused.items() if key in failed or refusal.number > refusals}
        self._report(failed)
        self._ledgers = kept + [ledger for ledger in self._ledgers if ledger not in old]
        await self._name_ledgers(self._ledgers)
        for ledger_id in old:
            await self.storage.ledgers.delete(self.storage.fence, ledger_id)

    async def _close(self, writer: LedgerWriter) -> None:
        """Waits for appends in flight. A ledger that failed cannot be closed, and nothing in it is needed any more."""
        try:
            await writer.close()
        except Fenced:
            raise
        except StoreError as error:
            logger.warning("cursor ledger %d was not closed: %s", writer.ledger_id, error)

    async def _forget_deleted(self) -> None:
        """Drops the deltas of deleted subscriptions: nobody will claim them, so they would be copied forever."""
        if self.recovered:
            existing = await self.storage.meta.existing_subscriptions(list(self.recovered))
            for subscription_id in self.recovered.keys() - existing:
                self.recovered.pop(subscription_id, None)

    async def stop(self) -> None:
        """Flushes and saves, so that nothing is left to replay if possible; the next start replays what could not be saved. After a
        start that failed, changes nothing: it does not know what there is to replay."""
        if not self._started:
            return
        self._batches.flush()
        self._stopping = True
        running, self.checkpointing = self.checkpointing, None
        if running is not None:
            running.cancel()  # it may be waiting for another try; what it had begun, the checkpoint below does
            await asyncio.wait([running])
        try:
            await self.checkpoint()
        except StoreError as error:
            self.health.failed(error)
