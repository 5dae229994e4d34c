"""When the snapshot of the index is written, and what must wait for it.

Written in the upkeep thread, as soon as the footers that it does not cover list more ledgers than it would: so each pair of ledger
and segment costs about one more pass, and opening a log reads at most a few times as much as there are ledgers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from messaging.storage.local.device.disk import replace_file
from messaging.storage.local.format import snapshot
from messaging.storage.local.format.segment import Segment
from messaging.storage.local.format.snapshot import BadSnapshot, SegmentCounts
from messaging.storage.local.read.footers import BadFooter, whole_footer
from messaging.storage.local.recover.catalog import Catalog, let_others_run

if TYPE_CHECKING:
    from messaging.storage.local.log import Log

logger = logging.getLogger(__name__)


class _Live(NamedTuple):
    """What the log thread says, at one moment."""

    segments: list[Segment]  # up to the one to cover
    counts: list[SegmentCounts]
    tombstones: dict[int, tuple[int, int]]
    deletions_pending: dict[int, tuple[int, int]]


class SnapshotWriter:
    """`covered` is the newest segment that the file on the disk covers, 0 where there is no file."""

    def __init__(self, log: Log) -> None:
        self.covered = 0
        self.written = 0
        self.trusted = True  # all footers can be read, as far as known
        self._log = log
        self._pairs: dict[int, int] = {}  # ledgers listed by the footers of segments that are not covered

    def listed(self, segment_number: int, ledgers: int) -> None:
        """For the log thread: a footer with so many ledgers is durable."""
        self._pairs[segment_number] = ledgers

    def write_if_due(self) -> None:
        """For the log thread."""
        log = self._log
        if self.trusted and sum(self._pairs.values()) > max(log.config.snapshot_pairs, len(log.states)):
            self._pairs.clear()
            log.in_background(self.write)

    def make_way(self, segment: Segment) -> None:
        """In the upkeep thread, before `segment` loses records: no snapshot may be older than those. Raises `OSError`."""
        if not 0 < self.covered < segment.number:
            return
        try:
            self.write()
        except OSError as error:
            logger.warning("ledger log: no snapshot of the index: %s", error, extra={"action": "ledger_log_snapshot"})
        if self.covered < segment.number:
            self.remove()

    def distrust(self, reason: Exception) -> None:
        """For any thread: a footer is damaged. The next start reads all of them and mends what it can."""
        if self.trusted:
            self.trusted = False
            self._log.report("corrupt", f"{reason}; it is written again at the next start")
            self._log.in_background(self.remove)

    def remove(self) -> None:
        """Raises `OSError`."""
        log = self._log
        log.disk.remove(log.directory / snapshot.NAME)
        log.disk.sync_directory(log.directory)
        self.covered = 0

    def write(self) -> None:
        """In the upkeep thread. Raises `OSError`."""
        log = self._log
        live: _Live = log.ask(self._live)
        if not live.segments or live.segments[-1].number <= self.covered or not self.trusted:
            return
        covered = live.segments[-1].number
        catalog = Catalog({}, log.intern, let_others_run)
        try:
            content = snapshot.read(log.disk, log.directory, log.store_id) if self.covered else None
            if content is not None:
                snapshot.restore(content, catalog, (), let_others_run)
            for segment in live.segments:
                if segment.number > self.covered:
                    catalog.apply(segment.number, whole_footer(log.files, segment))
        except (BadFooter, BadSnapshot) as error:
            self.distrust(error)
            return
        # Graves as they are now: what is no longer one has durably lost its CREATED record.
        catalog.tombstones = {ledger_id: tombstone for ledger_id, tombstone in live.tombstones.items() if tombstone[1] <= covered}
        catalog.deletions_pending = {key: value for key, value in live.deletions_pending.items() if key not in catalog.states}
        data = snapshot.encode(log.store_id, covered, catalog, live.counts, let_others_run)
        replace_file(log.disk, log.directory / snapshot.NAME, data)
        self.covered = covered
        self.written += 1

    def _live(self) -> _Live:
        """In the log thread."""
        log = self._log
        newest = min((number for number, one in log.segments.items() if not (one.sealed and one.index_released)), default=0) - 1
        segments = sorted((segment for number, segment in log.segments.items() if number <= newest), key=_number_of)
        counts = [
            SegmentCounts(segment.number, segment.generation, max(0, segment.live_bytes), segment.overhead_bytes, segment.events)
            for segment in segments
        ]
        return _Live(segments, counts, dict(log.tombstones), dict(log.deletions_pending))


def _number_of(segment: Segment) -> int:
    return segment.number
