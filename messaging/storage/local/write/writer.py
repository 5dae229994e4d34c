"""The writer of the log: takes commits one after another, writes each in one piece, makes it durable with one sync.

Everything about the log's end happens here: which segment is written, checkpoints, the index of what was written; each step with
the log's turn (`log_thread.py`). Mostly that is the log thread, which may wait for the disk. A small commit that needs nothing but
to be written is begun by the loop itself and ended when the kernel says so (`device/aio.py`): no thread wakes another for it.

An error of a write or a sync ends the store: after a failed fdatasync the kernel may have dropped the pages, and a later success
proves nothing.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from functools import partial

from messaging.storage.ledger_store import DiskFull, StoreError
from messaging.storage.local.config import Durability
from messaging.storage.local.device.aio import AioContext
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format import records
from messaging.storage.local.format.checkpoint_pointer import CheckpointPointer
from messaging.storage.local.format.records import COMMIT_BYTES, CREATED
from messaging.storage.local.format.segment import LogPosition
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.log_thread import LogFailure, LogThread
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.allocator import SegmentAllocator
from messaging.storage.local.write.commit import Commit, CommitLayout
from messaging.storage.local.write.queue import Committed, Item, size_of
from messaging.storage.local.write.sealer import SegmentSealer
from messaging.storage.local.write.segment_files import NoSpace


class LogWriter:
    """Each commit ends with one call of `deliver`, in any thread, or of `committed`, on the loop. `deleted` is called with the
    log's turn when DELETED records are durable: with the states of their ledgers and the segment that has the records."""

    def __init__(
        self,
        environment: LogEnvironment,
        failure: LogFailure,
        thread: LogThread,
        allocator: SegmentAllocator,
        sealer: SegmentSealer,
        checkpoint_pointer: CheckpointPointer,
        deleted: Callable[[list[LedgerState], int], None],
        active: ActiveSegment,
        aio: AioContext | None,
        deliver: Callable[[Committed], None],
        committed: Callable[[Committed], None],
    ) -> None:
        config = environment.config
        self.syncs = 0
        self.sync_s = 0.0
        self.written_bytes = 0
        self.active = active
        self._config = config
        self._failure = failure
        self._thread = thread
        self._allocator = allocator
        self._sealer = sealer
        self._checkpoint_pointer = checkpoint_pointer
        self._deleted = deleted
        self._layout = CommitLayout(environment.epoch, config.checkpoint_bytes)
        self._deliver = deliver
        self._committed = committed
        self._sync = config.durability is Durability.SYNC
        self._aio = aio if self._sync else None
        self._synced = LogPosition(active.segment.number, active.offset)

    @property
    def durable_end(self) -> LogPosition:
        """Up to where the log is certainly durable."""
        return self._synced

    def commit(self, items: list[Item]) -> None:
        """On the loop, one at a time: the next when this one ended."""
        if self._aio is not None and self._thread.try_turn():
            if self._needs_no_wait(items):
                self._begin(items, self._aio)
                return
            self._thread.end_turn()
        self._thread.post(partial(self.commit_in_thread, items))

    def close(self) -> None:
        """When the log thread has ended."""
        self.active.file.close()

    # On the loop, with the turn

    def _needs_no_wait(self, items: list[Item]) -> bool:
        if self._failure.error is not None or self._layout.checkpoint_due(self.active):
            return False
        need = 0
        for _, _, _, _, end_offsets, _, size_bytes in items:
            if end_offsets is None:
                return False
            need += size_bytes
        return self._room(need) >= self._config.reserved_bytes and self._fits(need)

    def _begin(self, items: list[Item], aio: AioContext) -> None:
        try:
            commit = self._layout.lay_out(self.active, items, self._synced)
            assert commit is not None
            ended = partial(self._ended, items, commit, time.perf_counter())
            begun = self.active.file.begin_synced(commit.buffers, commit.start, commit.padding_bytes, aio, ended)
        except Exception as error:
            self._deliver(Committed(items, [], self._failure.fail(error)))
            self._thread.end_turn()
            return
        if not begun:
            self._thread.post(partial(self._finish, items, [], commit))
            self._thread.end_turn()

    def _ended(self, items: list[Item], commit: Commit, began: float, error: OSError | None) -> None:
        if error is not None and error.errno == errno.EINVAL:  # the file system refuses this: the log thread takes over
            self._thread.post(partial(self._finish, items, [], commit))
            self._thread.end_turn()
            return
        reason = None
        if error is None:
            self._written(commit, began)
        else:
            reason = self._failure.fail(error)
        self._thread.end_turn()
        self._committed(Committed(items, [], reason))

    # In the log thread

    def commit_in_thread(self, items: list[Item]) -> Callable[[], None]:
        refused: list[tuple[Item, StoreError]] = []
        commit: Commit | None = None
        try:
            if self._failure.error is None:
                items, refused = self._admit(items)
                commit = self._layout.lay_out(self.active, items, self._synced)
        except Exception as error:
            self._failure.fail(error)
        return self._finish(items, refused, commit)

    def _finish(self, items: list[Item], refused: list[tuple[Item, StoreError]], commit: Commit | None) -> Callable[[], None]:
        """Writes `commit`, which may be nothing, unless the log failed before; what tells of it runs without the turn."""
        if commit is not None and self._failure.error is None:
            try:
                self._write(commit)
            except Exception as error:
                self._failure.fail(error)
        return partial(self._deliver, Committed(items, refused, self._failure.error))

    def _write(self, commit: Commit) -> None:
        began = time.perf_counter()
        if self._sync:
            self.active.file.write_synced(commit.buffers, commit.start, commit.padding_bytes)
        else:
            self.active.file.write(commit.buffers, commit.start)
        self._written(commit, began)

    # Either

    def _written(self, commit: Commit, began: float) -> None:
        number = self.active.segment.number
        self.written_bytes += commit.stop - commit.start
        if self._sync:
            self.sync_s += time.perf_counter() - began
            self.syncs += 1
            self._synced = LogPosition(number, commit.stop)
        if commit.checkpoint:
            self._checkpoint_pointer.note(self.active.segment, commit.start)
        if commit.deleted:
            self._deleted(commit.deleted, number)

    def _admit(self, items: list[Item]) -> tuple[list[Item], list[tuple[Item, StoreError]]]:
        """Finds room for `items`; refuses what would take the space that is kept for cursors, seals and deletes."""
        need = sum(size_bytes for _, _, _, _, _, _, size_bytes in items)
        if self._room(need) >= self._config.reserved_bytes or self._allocator.grow(need):
            if self._fits(need):
                return items, []
        elif any(_ordinary(item) for item in items):
            kept = [item for item in items if not _ordinary(item)]
            reason = f"{self._allocator.why_full}; appending goes on by itself"
            return self._admit_reserved(kept, [_refused(item, reason) for item in items if _ordinary(item)])
        return self._admit_reserved(items, [])

    def _admit_reserved(
        self, items: list[Item], refused: list[tuple[Item, StoreError]]
    ) -> tuple[list[Item], list[tuple[Item, StoreError]]]:
        need = sum(size_bytes for _, _, _, _, _, _, size_bytes in items)
        if not need or self._fits(need):
            return items, refused
        try:
            self._roll(need)
        except NoSpace as error:
            reason = f"nothing is left of the kept space either: {error}"
            waiting = [item for item in items if not size_of(item)]
            return waiting, refused + [_refused(item, reason) for item in items if size_of(item)]
        return items, refused

    def _left(self) -> int:
        """Bytes that commits may still take in the active segment."""
        active = self.active
        return active.segment.size_bytes - active.offset - active.footer_bytes()

    def _room(self, need: int) -> int:
        return self._left() + self._allocator.ready_bytes - need

    def _fits(self, need: int) -> bool:
        # Twice the footer: a checkpoint in this commit may take as much again.
        return self._left() - self.active.footer_bytes() >= need + COMMIT_BYTES + records.FIXED_BYTES + need // 8

    def _roll(self, need: int) -> None:
        old = self.active
        segment, file = self._allocator.next_segment(need + need // 4 + (16 << 10))
        old.segment.data_stop = old.offset
        self.active = ActiveSegment(segment, file, self._config.extent_bytes_max)
        # `_synced` stays: the first commit of the new segment says how far the old one must be whole.
        self._sealer.seal_later(old)


def _refused(item: Item, reason: str) -> tuple[Item, StoreError]:
    state, _, _, _, _, _, _ = item
    return item, DiskFull(reason, state.ledger_id)


def _ordinary(item: Item) -> bool:
    state, _, _, _, end_offsets, type_, _ = item
    return not state.reserved and (end_offsets is not None or type_ == CREATED)
