"""Decides when to write the snapshot of the index, and what must wait for it.

It is written in the maintenance thread, as soon as the footers that it does not cover list more ledgers than the snapshot would. So
writing costs about one more pass over each (ledger, segment) pair, and opening a log reads at most a small multiple of the number
of ledgers.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from messaging.storage.local.background import BackgroundThreads
from messaging.storage.local.device.disk import replace_file
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format.segment import Segment
from messaging.storage.local.ledgers import LedgerTable
from messaging.storage.local.log_thread import LogThread
from messaging.storage.local.pausing import let_others_run
from messaging.storage.local.read.footers import BadFooter, whole_footer
from messaging.storage.local.segments import SegmentTable
from messaging.storage.local.snapshot import snapshot
from messaging.storage.local.snapshot.catalog import Catalog
from messaging.storage.local.snapshot.snapshot import BadSnapshot, SegmentCounts

logger = logging.getLogger(__name__)


class _Live(NamedTuple):
    """A consistent view of the live log, taken in the log thread."""

    segments: list[Segment]  # up to the segment to cover
    counts: list[SegmentCounts]
    tombstones: dict[int, tuple[int, int]]
    deletions_pending: dict[int, tuple[int, int]]


class SnapshotWriter:
    """`covered` is the newest segment that the file on disk covers; 0 if there is no file."""

    def __init__(
        self,
        environment: LogEnvironment,
        segments: SegmentTable,
        ledgers: LedgerTable,
        thread: LogThread,
        background: BackgroundThreads,
    ) -> None:
        self.covered = 0
        self.written = 0
        self.trusted = True  # as far as known, all footers are readable
        self._environment = environment
        self._segments = segments
        self._ledgers = ledgers
        self._thread = thread
        self._background = background
        self._removing = False  # its removal is not durable yet
        self._pairs: dict[int, int] = {}  # ledgers listed by the footers of uncovered segments

    def listed(self, segment_number: int, ledgers: int) -> None:
        """Call with the log's turn, when a footer that lists this many ledgers is durable."""
        self._pairs[segment_number] = ledgers

    def write_if_due(self) -> None:
        """Call with the log's turn."""
        pairs_max = max(self._environment.config.snapshot_pairs, len(self._ledgers.states))
        if self.trusted and sum(self._pairs.values()) > pairs_max:
            self._pairs.clear()
            self._background.maintain(self.write)

    def make_way(self, segment: Segment) -> None:
        """Runs in the maintenance thread, before `segment` loses records: no snapshot may predate them. Raises `OSError`."""
        if self._removing:
            self.remove()
        if not 0 < self.covered < segment.number:
            return
        try:
            self.write()
        except OSError as error:
            logger.warning("ledger log: no snapshot of the index: %s", error, extra={"action": "ledger_log_snapshot"})
        if self.covered < segment.number:
            self.remove()

    def distrust(self, reason: Exception) -> None:
        """Call when a footer is damaged, from any thread. The next start then reads all footers and repairs what it can."""
        if self.trusted:
            self.trusted = False
            self._environment.report("corrupt", f"{reason}; it is written again at the next start")
            self._background.maintain(self.remove)

    def remove(self) -> None:
        """Raises `OSError`."""
        disk, directory = self._environment.disk, self._environment.directory
        self._removing = True
        self.covered = 0
        disk.remove(directory / snapshot.NAME)
        disk.sync_directory(directory)
        self._removing = False

    def write(self) -> None:
        """Runs in the maintenance thread. Raises `OSError`."""
        environment = self._environment
        live: _Live = self._thread.ask(self._live)
        if not live.segments or live.segments[-1].number <= self.covered or not self.trusted:
            return
        covered = live.segments[-1].number
        catalog = Catalog({}, self._ledgers.intern, let_others_run)
        try:
            content = snapshot.read(environment.disk, environment.directory, environment.store_id) if self.covered else None
            # The one on disk may be newer than `covered` says: its name was not durable when it was written.
            included = content.covered if content is not None else 0
            if content is not None:
                catalog.restore(content)
            for segment in live.segments:
                if segment.number > included:
                    catalog.apply(segment.number, whole_footer(self._segments.files, segment))
        except (BadFooter, BadSnapshot) as error:
            self.distrust(error)
            return
        # The current tombstones: for those that are gone, the removal of the CREATED record is durable.
        tombstones = {
            ledger_id: (created, deleted) for ledger_id, (created, deleted) in live.tombstones.items() if deleted <= covered
        }
        pending = {key: value for key, value in live.deletions_pending.items() if key not in catalog.states}
        data = snapshot.encode(
            environment.store_id, covered, catalog.states.values(), live.counts, tombstones, pending, let_others_run
        )
        replace_file(environment.disk, environment.directory / snapshot.NAME, data)
        self._removing = False
        self.covered = covered
        self.written += 1

    def _live(self) -> _Live:
        """Call with the log's turn."""
        by_number, ledgers = self._segments.by_number, self._ledgers
        newest = (
            min((number for number, segment in by_number.items() if not (segment.sealed and segment.index_released)), default=0) - 1
        )
        segments = sorted((segment for number, segment in by_number.items() if number <= newest), key=_number_of)
        counts = [
            SegmentCounts(segment.number, segment.generation, max(0, segment.live_bytes), segment.overhead_bytes, segment.events)
            for segment in segments
        ]
        return _Live(segments, counts, dict(ledgers.tombstones), dict(ledgers.deletions_pending))


def _number_of(segment: Segment) -> int:
    return segment.number
