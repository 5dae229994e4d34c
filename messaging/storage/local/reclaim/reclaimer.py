"""Reclaims space: dead segments are removed, segments with little live data are rewritten without the rest (see `rewrite.py`).

Candidates are chosen by counts, and results are applied, with the log's turn; the work itself runs in the maintenance thread.
Counts only nominate a segment: its footer is read and verified before the segment is touched.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from messaging.storage.local.background import BackgroundThreads
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format.manifest import ManifestFile
from messaging.storage.local.format.segment import Segment
from messaging.storage.local.format.summary import SegmentSummary
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.ledgers import LedgerTable
from messaging.storage.local.log_thread import LogThread
from messaging.storage.local.pausing import let_others_run
from messaging.storage.local.read.footers import BadFooter, whole_footer
from messaging.storage.local.reclaim.dead_bytes import bytes_by_segment
from messaging.storage.local.reclaim.rewrite import Damaged, Interrupted, SegmentRewrite
from messaging.storage.local.segments import SegmentTable
from messaging.storage.local.snapshot.snapshot_writer import SnapshotWriter
from messaging.storage.local.write.allocator import SegmentAllocator
from messaging.storage.local.write.segment_files import PREALLOCATED_PREFIX, PreallocatedSegment

logger = logging.getLogger(__name__)

EVENT_BYTES = 150  # upper estimate for a CREATED, SEALED or DELETED record with a commit of its own


def _log(text: str) -> None:
    logger.error("ledger log: %s", text, extra={"action": "ledger_log_reclaim"})


@dataclass(slots=True)
class _Drop:
    """The removal of a segment's file. `whole`: no newer generation of the segment takes its place."""

    segment: Segment
    then: Callable[[], None]  # once it is durable
    whole: bool = False
    gone: bool = False
    refused: bool = False  # by the disk, or since files are kept, at least once
    preallocated: PreallocatedSegment | None = None


class Reclaimer:
    def __init__(
        self,
        environment: LogEnvironment,
        manifest: ManifestFile,
        segments: SegmentTable,
        ledgers: LedgerTable,
        thread: LogThread,
        background: BackgroundThreads,
        allocator: SegmentAllocator,
        snapshots: SnapshotWriter,
    ) -> None:
        self.rewritten = 0
        self.removed = 0
        self.keeps_files = False  # somebody copies them: none is removed or used for another segment meanwhile
        self._environment = environment
        self._manifest = manifest
        self._segments = segments
        self._ledgers = ledgers
        self._thread = thread
        self._background = background
        self._allocator = allocator
        self._snapshots = snapshots
        self._busy = False
        self._kept: set[int] = set()  # damaged segments
        self._waiting: set[int] = set()  # segments whose rewrite failed, most likely for lack of space
        self._counting_waits = False

    def start_if_due(self) -> None:
        """Call with the log's turn: counts deleted ledgers, then starts on the best candidate, unless a job is in progress."""
        if self._busy:
            return
        if self._ledgers.deletions_pending and not self._counting_waits:
            self._busy = True
            self._background.maintain(self._count_dead)
            return
        segment = self._choose()
        if segment is not None:
            self._busy = True
            self._background.maintain(lambda: self._do(segment))

    def deleted(self, ledgers: list[LedgerState], segment_number: int) -> None:
        """Call with the log's turn: the DELETED records of `ledgers` are durable in the given segment."""
        for state in ledgers:
            self._ledgers.mark_deleted(state, segment_number)
        self.start_if_due()

    def drop_tombstones(self, rewritten: list[int]) -> None:
        """Runs in the maintenance thread after a start: segments rewritten since the snapshot may have lost CREATED records."""
        for number in {created for created, _ in dict(self._ledgers.tombstones).values()}.intersection(rewritten):
            created = whole_footer(self._segments.files, self._segments.by_number[number]).events.created
            self._thread.post(partial(self._ledgers.drop_tombstones, number, created))

    def _count_dead(self) -> None:
        """Runs in the maintenance thread."""
        dead = dict(self._ledgers.deletions_pending)
        try:
            sizes = bytes_by_segment(self._segments.by_number, self._segments.files, dead, let_others_run)
        except OSError as error:
            _log(f"what deleted ledgers left could not be counted, it will be tried again: {error}")
            self._thread.post(partial(self._wait, counting=True))
            return
        except Exception as error:  # a bug: they count as live, so nothing of them is reclaimed before the next start
            _log(f"what deleted ledgers left cannot be counted: {error!r}")
            sizes = Counter()

        def subtract_dead() -> None:
            for number, size in sizes.items():
                if number in self._segments.by_number:
                    self._segments.by_number[number].live_bytes -= size
            for ledger_id in dead:
                del self._ledgers.deletions_pending[ledger_id]
            self._done()

        self._thread.post(subtract_dead)

    def _choose(self) -> Segment | None:
        chosen, best = None, self._environment.config.rewrite_live_share
        for segment in self._segments.by_number.values():
            if not segment.sealed or not segment.index_released or segment.number in self._kept | self._waiting:
                continue
            if segment.live_bytes <= 0 and segment.live_events == 0:
                return segment
            share = _share(segment, segment.live_bytes)
            if share < best:
                chosen, best = segment, share
        return chosen

    def _do(self, segment: Segment) -> None:
        """Runs in the maintenance thread."""
        try:
            footer = whole_footer(self._segments.files, segment)
            live_bytes = sum(
                size for ledger_id, size in zip(footer.ledgers, footer.record_bytes, strict=True) if self._ledgers.alive(ledger_id)
            )
            if live_bytes == 0 and segment.live_events == 0:
                self._snapshots.make_way(segment)
                self._remove(segment)
            elif _share(segment, live_bytes) < self._environment.config.rewrite_live_share:
                self._snapshots.make_way(segment)
                self._rewrite(segment, footer)
            else:
                self._thread.post(lambda: self._recounted(segment, live_bytes))
        except Interrupted:
            return
        except BadFooter as error:
            self._snapshots.distrust(error)
            self._thread.post(lambda: self._give_up(segment))
        except Damaged as error:
            _log(str(error))
            self._thread.post(lambda: self._give_up(segment))
        except OSError as error:
            _log(f"segment {segment.number} could not be reclaimed, it will be tried again: {error}")
            self._thread.post(lambda: self._wait(segment))
        except Exception as error:  # a bug: the others are reclaimed all the same
            _log(f"segment {segment.number} cannot be reclaimed: {error!r}")
            self._thread.post(lambda: self._give_up(segment))

    def _recounted(self, segment: Segment, live_bytes: int) -> None:
        segment.live_bytes = live_bytes
        self._done()

    def _give_up(self, segment: Segment) -> None:
        self._kept.add(segment.number)
        self._done()

    def _wait(self, segment: Segment | None = None, *, counting: bool = False) -> None:
        """What the disk refused is tried again when space returns, and after a while; the others go on."""
        if segment is not None:
            self._waiting.add(segment.number)
        self._counting_waits = self._counting_waits or counting
        self._background.maintain_later(self._environment.config.reclaim_retry_s, lambda: self._thread.post(self._try_again))
        self._done()

    def _try_again(self) -> None:
        self._waiting.clear()
        self._counting_waits = False
        self.start_if_due()

    def _done(self) -> None:
        self._busy = False
        self.start_if_due()

    def _remove(self, segment: Segment) -> None:

        def forgotten() -> None:
            self._segments.by_number.pop(segment.number, None)
            self._background.maintain(lambda: self._drop(drop))

        def removed() -> None:
            self.removed += 1
            self._ledgers.drop_tombstones(segment.number)

        drop = _Drop(segment, removed, whole=True)
        self._thread.post(forgotten)

    def _drop(self, drop: _Drop) -> None:
        """Runs in the maintenance thread: removes the file, then runs `drop.then` in the log thread."""
        if self.keeps_files:
            self._drop_later(drop)
            return
        try:
            if drop.whole:
                self._manifest.forget_segment(drop.segment.number)
            if not drop.gone:
                drop.preallocated = self._drop_file(drop.segment)
                drop.gone = True
            # Before any DELETED record that covers its contents may be dropped.
            self._environment.disk.sync_directory(self._environment.directory)
        except OSError as error:
            _log(f"{drop.segment.path} could not be removed, it will be tried again: {error}")
            self._drop_later(drop)
            return

        def gone() -> None:
            if drop.preallocated is not None:
                self._allocator.add(drop.preallocated)
            drop.then()
            if drop.refused:
                self._try_again()
            else:
                self._waiting.clear()
                self._done()

        self._thread.post(gone)

    def _drop_later(self, drop: _Drop) -> None:
        self._background.maintain_later(self._environment.config.reclaim_retry_s, lambda: self._drop(drop))
        if not drop.refused:  # the others go on
            drop.refused = True
            self._thread.post(self._done)

    def _drop_file(self, segment: Segment) -> PreallocatedSegment | None:
        """Removes the file, or keeps it as a preallocated segment if one is needed. Raises `OSError`; it is unchanged then."""
        self._segments.files.forget(segment.path)
        wanted = max(1, self._environment.config.reserved_bytes)
        if segment.size_bytes == self._environment.config.segment_bytes and self._allocator.ready_bytes < wanted:
            path = (
                self._environment.directory
                / f"{PREALLOCATED_PREFIX}{self._environment.epoch:06d}-from-{segment.number:010d}-{segment.generation:04d}.log"
            )
            self._environment.disk.rename(segment.path, path)
            return PreallocatedSegment(path, segment.size_bytes, recycled=True)
        self._environment.disk.remove(segment.path)
        return None

    def _rewrite(self, segment: Segment, footer: SegmentSummary) -> None:
        with self._segments.files.use(segment.path) as file:
            copy = SegmentRewrite(self._environment, self._ledgers, self._background, self._allocator, segment, footer, file)
            fresh = copy.run()

        def taken_over() -> None:
            self._segments.by_number[segment.number] = fresh
            # The live bytes when the copy began, minus deletes since then, as counted on the older generation.
            fresh.live_events = segment.live_events
            self._background.maintain(lambda: self._drop(_Drop(segment, removed)))

        def removed() -> None:
            self.rewritten += 1
            self._ledgers.drop_tombstones(segment.number, copy.created)  # some of those may have been deleted since

        self._thread.post(taken_over)


def _share(segment: Segment, live_bytes: int) -> float:
    """The share of a segment that a rewrite would keep."""
    dead_bytes = min(segment.overhead_bytes, EVENT_BYTES * max(0, segment.events - segment.live_events))
    return (live_bytes + segment.overhead_bytes - dead_bytes) / max(1, segment.data_bytes)
