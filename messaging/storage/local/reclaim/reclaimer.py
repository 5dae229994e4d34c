"""Getting space back: dead segments go, segments with little left alive are rewritten without the rest (see `rewrite.py`).

Candidates are chosen by counts and results taken over in the log thread, which owns segments; the work is done in the upkeep
thread. The counts only nominate: what a segment holds its footer says, which is read and checked before the segment is touched.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial

from messaging.storage.local.format.segment import Segment
from messaging.storage.local.format.summary import SegmentSummary
from messaging.storage.local.log import Job, Log
from messaging.storage.local.read.footers import BadFooter, whole_footer
from messaging.storage.local.reclaim.dead_bytes import bytes_by_segment
from messaging.storage.local.reclaim.rewrite import Damaged, Interrupted, SegmentRewrite
from messaging.storage.local.recover.catalog import let_others_run
from messaging.storage.local.segment_files import PREALLOCATED_PREFIX, PreallocatedSegment

logger = logging.getLogger(__name__)

EVENT_BYTES = 150  # at most about what a record that a ledger was made, ended or deleted takes, with a commit of its own


class Reclaimer:
    def __init__(self, log: Log) -> None:
        self.rewritten = 0
        self.removed = 0
        self._log = log
        self._busy = False
        self._kept: set[int] = set()  # damaged segments
        self._waiting: set[int] = set()  # those whose rewriting failed, for want of space most likely

    def later(self) -> None:
        """For the log thread: settles what was deleted, then starts on the most worthwhile segment, unless one is under way."""
        if self._busy:
            return
        if self._log.deletions_pending:
            self._busy = True
            self._log.in_background(self._settle)
            return
        segment = self._choose()
        if segment is not None:
            self._busy = True
            self._log.in_background(lambda: self._do(segment))

    def drop_tombstones(self, rewritten: list[int]) -> None:
        """In the upkeep thread, after a start: CREATED records may be gone from segments rewritten since the snapshot."""
        log = self._log
        for number in {created for created, _ in dict(log.tombstones).values()}.intersection(rewritten):
            created = whole_footer(log.files, log.segments[number]).events.created
            log.post(partial(log.drop_tombstones, number, created))

    def _settle(self) -> None:
        """In the upkeep thread."""
        log = self._log
        dead = dict(log.deletions_pending)
        try:
            sizes = bytes_by_segment(log.segments, log.files, dead, let_others_run)
        except OSError as error:
            # Counted as living, it is not reclaimed before the next start.
            logger.error("ledger log: %s", error, extra={"action": "ledger_log_reclaim"})
            sizes = Counter()

        def subtract_dead() -> None:
            for number, size in sizes.items():
                if number in log.segments:
                    log.segments[number].live_bytes -= size
            for ledger_id in dead:
                del log.deletions_pending[ledger_id]
            self._done()

        log.post(subtract_dead)

    def _choose(self) -> Segment | None:
        chosen, best = None, self._log.config.rewrite_live_share
        for segment in self._log.segments.values():
            if not segment.sealed or not segment.index_released or segment.number in self._kept | self._waiting:
                continue
            if segment.live_bytes <= 0 and segment.live_events == 0:
                return segment
            share = _share(segment, segment.live_bytes)
            if share < best:
                chosen, best = segment, share
        return chosen

    def _do(self, segment: Segment) -> None:
        """In the upkeep thread."""
        log = self._log
        try:
            footer = whole_footer(log.files, segment)
            live_bytes = sum(
                size for ledger_id, size in zip(footer.ledgers, footer.record_bytes, strict=True) if log.alive(ledger_id)
            )
            if live_bytes == 0 and segment.live_events == 0:
                log.snapshots.make_way(segment)
                self._remove(segment)
            elif _share(segment, live_bytes) < log.config.rewrite_live_share:
                log.snapshots.make_way(segment)
                self._rewrite(segment, footer)
            else:
                log.post(lambda: self._recounted(segment, live_bytes))
        except Interrupted:
            return
        except BadFooter as error:
            log.snapshots.distrust(error)
            log.post(lambda: self._give_up(self._kept, segment.number))
        except Damaged as error:
            logger.error("ledger log: %s", error, extra={"action": "ledger_log_reclaim"})
            log.post(lambda: self._give_up(self._kept, segment.number))
        except OSError as error:
            text = f"segment {segment.number} could not be rewritten, when space returns it will be: {error}"
            logger.error("ledger log: %s", text, extra={"action": "ledger_log_reclaim"})
            log.post(lambda: self._give_up(self._waiting, segment.number))

    def _recounted(self, segment: Segment, live_bytes: int) -> None:
        segment.live_bytes = live_bytes
        self._done()

    def _give_up(self, among: set[int], segment_number: int) -> None:
        among.add(segment_number)
        self._done()

    def _done(self) -> None:
        self._busy = False
        self.later()

    def _remove(self, segment: Segment) -> None:
        log = self._log

        def forgotten() -> None:
            log.segments.pop(segment.number, None)
            log.in_background(lambda: self._drop(segment, removed))

        def removed() -> None:
            self.removed += 1
            log.drop_tombstones(segment.number)

        log.post(forgotten)

    def _drop(self, segment: Segment, dropped: Job) -> None:
        """In the upkeep thread: the file goes, then `dropped` runs in the log thread."""
        log = self._log
        preallocated = self._drop_file(segment)
        log.disk.sync_directory(log.directory)  # before any DELETED record may go that hides what stood there

        def gone() -> None:
            if preallocated is not None:
                log.add_preallocated(preallocated)
            self._waiting.clear()
            dropped()
            self._done()

        log.post(gone)

    def _drop_file(self, segment: Segment) -> PreallocatedSegment | None:
        """Removes the file, or keeps it as a spare where one is wanted."""
        log = self._log
        log.files.forget(segment.path)
        wanted = max(1, log.config.reserved_bytes)
        if segment.size_bytes == log.config.segment_bytes and log.preallocated_bytes() < wanted:
            path = log.directory / f"{PREALLOCATED_PREFIX}{log.epoch:06d}-from-{segment.number:010d}-{segment.generation:04d}.log"
            log.disk.rename(segment.path, path)
            return PreallocatedSegment(path, segment.size_bytes, recycled=True)
        log.disk.remove(segment.path)
        return None

    def _rewrite(self, segment: Segment, footer: SegmentSummary) -> None:
        log = self._log
        with log.files.use(segment.path) as file:
            copy = SegmentRewrite(log, segment, footer, file)
            fresh = copy.run()

        def taken_over() -> None:
            log.segments[segment.number] = fresh
            # What lived when the copy began, less what was buried since, as counted on the older generation.
            fresh.live_events = segment.live_events
            log.in_background(lambda: self._drop(segment, removed))

        def removed() -> None:
            self.rewritten += 1
            log.drop_tombstones(segment.number, copy.created)  # some of those may have been deleted since

        log.post(taken_over)


def _share(segment: Segment, live_bytes: int) -> float:
    """Of a segment, what rewriting would leave of it."""
    dead_bytes = min(segment.overhead_bytes, EVENT_BYTES * max(0, segment.events - segment.live_events))
    return (live_bytes + segment.overhead_bytes - dead_bytes) / max(1, segment.data_bytes)
