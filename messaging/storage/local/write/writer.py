"""The writer of the log: takes commits one after another, writes each in one piece, makes it durable with one sync.

Everything about the log's end happens here: which segment is written, checkpoints, the index of what was written. All of that has
one owner at a time, who has `_turn`. Mostly that is the log thread, which may wait for the disk. A small commit that needs nothing
but to be written is begun by the loop itself and ended when the kernel says so (`aio.py`): no thread wakes another for it.

An error of a write or a sync ends the store: after a failed fdatasync the kernel may have dropped the pages, and a later success
proves nothing.
"""

from __future__ import annotations

import errno
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from operator import itemgetter

from messaging.storage.ledger_store import DiskFull, StoreError, Unavailable
from messaging.storage.local.config import Durability, LocalConfig
from messaging.storage.local.device.aio import AioContext
from messaging.storage.local.format import records
from messaging.storage.local.format.records import COMMIT_BYTES, CREATED
from messaging.storage.local.log import Log
from messaging.storage.local.segment_files import NoSpace
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.commit import Commit, checkpoint_due, lay_out
from messaging.storage.local.write.queue import Committed, Item

Job = Callable[[], None]


class LogWriter:
    """Each commit ends with one call of `deliver`, in any thread, or of `committed`, on the loop."""

    def __init__(
        self,
        log: Log,
        config: LocalConfig,
        active: ActiveSegment,
        aio: AioContext | None,
        deliver: Callable[[Committed], None],
        committed: Callable[[Committed], None],
    ) -> None:
        self.failed: StoreError | None = None
        self.syncs = 0
        self.sync_s = 0.0
        self.written_bytes = 0
        self._log = log
        self._config = config
        self._active = active
        self._deliver = deliver
        self._committed = committed
        self._sync = config.durability is Durability.SYNC
        self._aio = aio if self._sync else None
        self._synced = (active.segment.number, active.offset)
        self._turn = threading.Lock()
        self._asked: deque[None] = deque()  # one for each job that the thread was given and has not ended
        self._jobs: queue.SimpleQueue[Callable[[], Committed | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="ledger-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def commit(self, items: list[Item]) -> None:
        """On the loop, one at a time: the next when this one ended."""
        if self._aio is not None and not self._asked and self._turn.acquire(blocking=False):
            if self._needs_no_wait(items):
                self._begin(items, self._aio)
                return
            self._turn.release()
        self._ask(partial(self._commit, items))

    def post(self, job: Job) -> None:
        """Runs `job` in the log thread, between commits. It must be short."""
        self._ask(job)

    def stop(self) -> None:
        """Ends the thread after what is queued. No commit is under way. Blocks."""
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        self._active.file.close()

    def _ask(self, job: Callable[[], Committed | None]) -> None:
        self._asked.append(None)
        self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            outcome: Committed | None = None
            with self._turn:
                try:
                    outcome = job()
                except Exception as error:
                    self._fail(error)
                self._asked.popleft()
            if outcome is not None:
                self._deliver(outcome)  # when nothing keeps the loop from beginning the next one
            del job, outcome  # while it waits, the thread holds on to nothing of the last commit

    # On the loop, with the turn

    def _needs_no_wait(self, items: list[Item]) -> bool:
        need = sum(map(_size_of, items))
        return (
            self.failed is None
            and self._room(need) >= self._config.reserved_bytes
            and self._fits(need)
            and not checkpoint_due(self._active, self._config.checkpoint_bytes)
            and not any(item[4] is None for item in items)
        )

    def _begin(self, items: list[Item], aio: AioContext) -> None:
        try:
            commit = lay_out(self._log, self._active, items, self._synced)
            assert commit is not None
            ended = partial(self._ended, items, commit, time.perf_counter())
            begun = self._active.file.begin_synced(commit.buffers, commit.start, commit.padding_bytes, aio, ended)
        except Exception as error:
            self._deliver(Committed(items, [], self._fail(error)))
            self._turn.release()
            return
        if not begun:
            self._ask(partial(self._finish, items, [], commit))
            self._turn.release()

    def _ended(self, items: list[Item], commit: Commit, began: float, error: OSError | None) -> None:
        if error is not None and error.errno == errno.EINVAL:  # a file system that takes nothing so: the thread finds another way
            self._ask(partial(self._finish, items, [], commit))
            self._turn.release()
            return
        reason = None
        if error is None:
            self._written(commit, began)
        else:
            reason = self._fail(error)
        self._turn.release()
        self._committed(Committed(items, [], reason))

    # In the log thread

    def _commit(self, items: list[Item]) -> Committed:
        refused: list[tuple[Item, StoreError]] = []
        commit: Commit | None = None
        try:
            if self.failed is None:
                items, refused = self._admit(items)
                commit = lay_out(self._log, self._active, items, self._synced)
        except Exception as error:
            self._fail(error)
        return self._finish(items, refused, commit)

    def _finish(self, items: list[Item], refused: list[tuple[Item, StoreError]], commit: Commit | None) -> Committed:
        """Writes `commit`, which may be nothing, unless the log failed before."""
        if commit is not None and self.failed is None:
            try:
                self._write(commit)
            except Exception as error:
                self._fail(error)
        return Committed(items, refused, self.failed)

    def _write(self, commit: Commit) -> None:
        began = time.perf_counter()
        if self._sync:
            self._active.file.write_synced(commit.buffers, commit.start, commit.padding_bytes)
        else:
            self._active.file.write(commit.buffers, commit.start)
        self._written(commit, began)

    # Either

    def _written(self, commit: Commit, began: float) -> None:
        number = self._active.segment.number
        self.written_bytes += commit.stop - commit.start
        if self._sync:
            self.sync_s += time.perf_counter() - began
            self.syncs += 1
            self._synced = (number, commit.stop)
        if commit.checkpoint:
            self._log.checkpoint_pointer.note(self._active.segment, commit.start)
        if commit.tombstoned:
            for state in commit.tombstoned:
                self._log.mark_deleted(state, number)
            self._log.reclaim_later()

    def _fail(self, error: Exception) -> StoreError:
        if self.failed is None:
            self.failed = Unavailable(f"the log in {self._log.directory} failed and takes nothing more until a restart: {error!r}")
            self._log.report("failed", str(self.failed))
        return self.failed

    def _admit(self, items: list[Item]) -> tuple[list[Item], list[tuple[Item, StoreError]]]:
        """Finds room for `items`; refuses what would take the space that is kept for cursors, seals and deletes."""
        need = sum(map(_size_of, items))
        if self._room(need) >= self._config.reserved_bytes or self._log.grow(need):
            if self._fits(need):
                return items, []
        elif any(_ordinary(item) for item in items):
            kept = [item for item in items if not _ordinary(item)]
            reason = f"the disk under {self._log.directory} is full: free some space; appending goes on by itself"
            refused: list[tuple[Item, StoreError]] = [
                (item, DiskFull(reason, item[0].ledger_id)) for item in items if _ordinary(item)
            ]
            return self._admit_reserved(kept, refused)
        return self._admit_reserved(items, [])

    def _admit_reserved(
        self, items: list[Item], refused: list[tuple[Item, StoreError]]
    ) -> tuple[list[Item], list[tuple[Item, StoreError]]]:
        need = sum(map(_size_of, items))
        if not need or self._fits(need):
            return items, refused
        try:
            self._roll(need)
        except NoSpace as error:
            reason = f"the disk under {self._log.directory} is full, the kept space too: {error}"
            return [], refused + [(item, DiskFull(reason, item[0].ledger_id)) for item in items]
        return items, refused

    def _left(self) -> int:
        """Bytes that commits may still take in the active segment."""
        active = self._active
        return active.segment.size_bytes - active.offset - active.footer_bytes()

    def _room(self, need: int) -> int:
        return self._left() + self._log.preallocated_bytes() - need

    def _fits(self, need: int) -> bool:
        # Twice the footer: a checkpoint in this commit may take as much again.
        return self._left() - self._active.footer_bytes() >= need + COMMIT_BYTES + records.FIXED_BYTES + need // 8

    def _roll(self, need: int) -> None:
        old = self._active
        segment, file = self._log.next_segment(need + need // 4 + (16 << 10))
        old.segment.data_stop = old.offset
        self._active = ActiveSegment(segment, file, self._config.extent_bytes_max)
        # `_synced` stays: the first commit of the new segment says how far the old one must be whole.
        self._log.seal_later(old)


_size_of = itemgetter(6)


def _ordinary(item: Item) -> bool:
    state, _, _, _, end_offsets, type_, _ = item
    return not state.reserved and (end_offsets is not None or type_ == CREATED)
