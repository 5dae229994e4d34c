"""The log as a set of files: its segments, the spares, and what is done to them aside from the log thread.

The log thread calls this for a next segment; the upkeep thread (one) writes footers, prepares spares and reclaims space, and hands
what it found back to the log thread as short jobs, since they need the log's turn (see `log_writer.py`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Container
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from messaging.storage.local.config import LocalConfig
from messaging.storage.local.device.disk import Disk, DiskFile
from messaging.storage.local.format.checkpoint_pointer import CheckpointPointer
from messaging.storage.local.format.segment import PAGE_BYTES, Segment
from messaging.storage.local.ledger_state import TOMBSTONED, Extents, LedgerState
from messaging.storage.local.recover.snapshot_writer import SnapshotWriter
from messaging.storage.local.segment_files import (
    PREALLOCATED_PREFIX,
    NoSpace,
    OpenFiles,
    PreallocatedSegment,
    make_segment,
    preallocate,
)
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.seal import write_footer

logger = logging.getLogger(__name__)

INTERNED_MAX = 10_000
SHORT_SEGMENTS = 16  # with less room than for so many, winning space back is urgent
RELEASE_LEDGERS = 1000  # index entries moved between two commits

Job = Callable[[], None]
Answer = TypeVar("Answer")


class Log:
    def __init__(self, directory: Path, disk: Disk, config: LocalConfig, store_id: int, epoch: int) -> None:
        self.directory = directory
        self.disk = disk
        self.config = config
        self.store_id = store_id
        self.epoch = epoch
        self.files = OpenFiles(disk, config.files_open_max)
        self.segments: dict[int, Segment] = {}
        self.states: dict[int, LedgerState] = {}
        self.tombstones: dict[int, tuple[int, int]] = {}  # for these two see `Catalog`
        self.deletions_pending: dict[int, tuple[int, int]] = {}
        self.sequence = epoch << 40  # of the last commit; rises with the epoch, so that older bytes never continue newer ones
        self.last_number = 0  # of the newest segment, whether readable or not
        self.full = False  # no spare can be made
        self.lost: set[int] = set()  # segments of which something cannot be read: what began there is found where it went on
        self.checkpoint_pointer = CheckpointPointer(directory, disk)
        self.snapshots = SnapshotWriter(self)
        # Footers and spares do not wait behind the copying of a whole segment.
        self._sealing = ThreadPoolExecutor(1, thread_name_prefix="ledger-sealing")
        self._maintenance = ThreadPoolExecutor(1, thread_name_prefix="ledger-upkeep")
        self.post: Callable[[Job], None] = lambda job: job()  # into the log thread; set once it runs
        self.on_report: Callable[[str, str], None] = lambda kind, text: None
        self._properties: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._preallocated: list[PreallocatedSegment] = []
        self._preallocated_number = 0
        self._preallocating = False
        self._releasing: deque[tuple[Segment, list[Extents]]] = deque()
        self._stopping = False
        self.reclaim_later: Job = lambda: None  # set once the log runs

    def report(self, kind: str, text: str) -> None:
        """Something an operator must know. `kind`: failed, torn, corrupt, full."""
        logger.error("ledger log: %s", text, extra={"action": f"ledger_log_{kind}"})
        self.on_report(kind, text)

    def intern(self, properties: dict[str, str]) -> dict[str, str]:
        """The one dictionary that all ledgers with these properties share; never change it."""
        if len(self._properties) >= INTERNED_MAX:
            self._properties.clear()
        return self._properties.setdefault(tuple(sorted(properties.items())), dict(properties))

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    # Space

    def add_preallocated(self, preallocated: PreallocatedSegment) -> None:
        self._preallocated.append(preallocated)

    def preallocated_bytes(self) -> int:
        return sum(preallocated.size_bytes - PAGE_BYTES for preallocated in self._preallocated)

    def grow(self, need: int) -> bool:
        """Makes one more spare now, unless the disk was full when last tried. Whether ordinary appends may go on."""
        if self.full:
            return False
        try:
            self._grow(need)
        except NoSpace as error:
            self.full = True
            self.report("full", f"no more space for messages: {error}")
            return False
        return True

    def _grow(self, need: int) -> None:
        while self.preallocated_bytes() < self.config.reserved_bytes + need:
            self._preallocated.append(self._preallocate(self.config.segment_bytes, self.config.reserved_bytes))

    def retry_space(self) -> bool:
        """For the log thread: tries again after the disk was full."""
        if self.full:
            try:
                self._grow(0)
            except NoSpace:
                return False
            self.full = False
            logger.warning("ledger log: there is space again", extra={"action": "ledger_log_space"})
        return True

    def next_segment(self, need: int) -> tuple[Segment, DiskFile]:
        """The next segment, with room for `need` bytes. Raises `NoSpace` and `OSError`."""
        size = need + PAGE_BYTES
        preallocated = next((preallocated for preallocated in self._preallocated if preallocated.size_bytes >= size), None)
        if preallocated is None:
            # Space kept free on the disk is for this: seals, deletes and cursors.
            preallocated = self._preallocate(max(size, self.config.segment_bytes), 0)
        else:
            self._preallocated.remove(preallocated)
        self.last_number += 1
        number = self.last_number
        segment, file = make_segment(self.disk, preallocated, self.store_id, number)
        self.segments[number] = segment
        self.prepare_preallocated()
        return segment, file

    def prepare_preallocated(self) -> None:
        """Has a spare made aside from commits, if there is none."""
        if self._preallocating or self._stopping or self.full or self.preallocated_bytes() >= max(1, self.config.reserved_bytes):
            return
        self._preallocating = True

        def make() -> None:
            try:
                preallocated = self._preallocate(self.config.segment_bytes, self.config.reserved_bytes)
            except (NoSpace, OSError):
                self.post(made)  # the log thread will meet it when it needs the space, and say so
                return
            self.post(lambda: made(preallocated))

        def made(preallocated: PreallocatedSegment | None = None) -> None:
            self._preallocating = False
            if preallocated is not None:
                self._preallocated.append(preallocated)
                self.prepare_preallocated()

        self._submit(self._sealing, make)

    def _preallocate(self, size_bytes: int, keep_free_bytes: int) -> PreallocatedSegment:
        self._preallocated_number += 1
        path = self.directory / f"{PREALLOCATED_PREFIX}{self.epoch:06d}-{self._preallocated_number:06d}.log"
        return preallocate(self.disk, path, size_bytes, keep_free_bytes)

    # Aside from commits

    def in_background(self, job: Job) -> None:
        """Runs `job` in the upkeep thread, one after another."""
        self._submit(self._maintenance, job)

    def _submit(self, executor: Executor, job: Job) -> None:
        if not self._stopping:
            executor.submit(self._guarded, job)

    def _guarded(self, job: Job) -> None:
        try:
            job()
        except Exception as error:
            text = f"upkeep of the log failed and will be done at the next start: {error!r}"
            logger.error("ledger log: %s", text, extra={"action": "ledger_log_upkeep"})

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """For the upkeep thread: what the log thread answers, between two commits."""
        answer: Future[Answer] = Future()
        self.post(lambda: answer.set_result(question()))
        return answer.result()

    def seal_later(self, active: ActiveSegment) -> None:
        active.segment.index_released = False

        def seal() -> None:
            try:
                write_footer(active)
            except OSError as error:
                failure = error
                self.post(lambda: _raise(failure))  # a sync failed: the store trusts this disk no more
                return
            self.post(lambda: self._sealed(active))

        self._submit(self._sealing, seal)

    def _sealed(self, active: ActiveSegment) -> None:
        self.snapshots.listed(active.segment.number, len(active.touched))
        self._releasing.append((active.segment, active.touched))
        if len(self._releasing) == 1:
            self._release_index(0)

    def _release_index(self, start: int) -> None:
        """One segment after another: what is left in memory of a ledger is always the newest of it."""
        segment, touched = self._releasing[0]
        for extents in touched[start : start + RELEASE_LEDGERS]:
            state = self.states.get(extents.ledger_id)
            if state is not None:
                state.release_index(extents)
        if start + RELEASE_LEDGERS < len(touched):
            self.post(lambda: self._release_index(start + RELEASE_LEDGERS))
            return
        segment.index_released = True
        self._releasing.popleft()
        self.snapshots.write_if_due()
        self.reclaim_later()
        if self._releasing:
            self.post(lambda: self._release_index(0))

    def mark_deleted(self, state: LedgerState, deleted_segment: int) -> None:
        """The DELETED record of `state`, in that segment, is durable."""
        state.phase = TOMBSTONED
        if state.last_segment:
            self.deletions_pending[state.ledger_id] = (state.last_segment, state.created_segment)
        self.tombstones[state.ledger_id] = (state.created_segment, deleted_segment)
        for extents in state.extents_in_memory():
            segment = self.segments.get(extents.segment)
            if segment is not None:
                segment.live_bytes -= extents.record_bytes
        self._count_events(state.created_segment, -1)
        self._count_events(state.sealed_segment, -1)
        self._count_events(deleted_segment, 1)

    def drop_tombstones(self, segment_number: int, kept: Container[int] = ()) -> None:
        """Of the CREATED records in that segment only those of `kept` are left: the DELETED records of the others may go."""
        for ledger_id, (created, deleted) in list(self.tombstones.items()):
            if created == segment_number and ledger_id not in kept:
                del self.tombstones[ledger_id]
                self._count_events(deleted, -1)

    def _count_events(self, number: int, change: int) -> None:
        segment = self.segments.get(number)
        if segment is not None:
            segment.live_events += change

    def alive(self, ledger_id: int) -> bool:
        """Whether its blocks and records must be kept. For any thread."""
        state = self.states.get(ledger_id)
        return state is not None and state.phase != TOMBSTONED

    @property
    def stopping(self) -> bool:
        return self._stopping

    def short_of_space(self) -> bool:
        return self.full or self.disk.free_bytes(self.directory) < SHORT_SEGMENTS * self.config.segment_bytes

    def stop(self) -> None:
        """Waits for upkeep under way. Blocks."""
        self._stopping = True
        self._sealing.shutdown(wait=True)
        self._maintenance.shutdown(wait=True)

    def close(self) -> None:
        self.checkpoint_pointer.close()
        self.files.close()


def _raise(error: OSError) -> None:
    raise error
