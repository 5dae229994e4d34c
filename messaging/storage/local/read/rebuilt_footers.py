"""Footers that can no longer be read, rebuilt in memory from the commits of their segments.

Readers use these until the next start writes them to the disk. Without them, every ledger in such a segment would be unreadable
until then.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.device.open_files import OpenFiles
from messaging.storage.local.format import summary as summary
from messaging.storage.local.format.extents import Extents
from messaging.storage.local.format.records import BLOCK
from messaging.storage.local.format.segment import PAGE_BYTES, Segment, SegmentName
from messaging.storage.local.format.summary import Events, SegmentSummary
from messaging.storage.local.read.commit_scan import Scan

EXTENT_BYTES_MAX = 64 << 10
DOUBT_S = 5.0  # a footer of a segment that could not be read whole is kept no longer
NUMBERS_MAX = 1 << 20  # bytes of all rebuilt footers: 8 MiB; the newest is kept whatever its size


class RebuiltFooter:
    """The lookups of `footers.Footer`, on a summary in memory."""

    def __init__(self, summary: SegmentSummary, doubtful_until_s: float | None) -> None:
        self._summary = summary
        self.doubtful_until_s = doubtful_until_s  # some of the segment could not be read: it is read again then
        self.numbers_held = 7 * len(summary.ledgers) + len(summary.table)

    def find(self, ledger_id: int) -> int:
        ids = self._summary.ledgers
        at = bisect_left(ids, ledger_id)
        return at if at < len(ids) and ids[at] == ledger_id else -1

    def number(self, column: str, at: int) -> int:
        values: array[int] = getattr(self._summary, column)
        return values[at]

    def extents_at(self, at: int) -> array[int]:
        return self._summary.extents_at(at)


class FooterRebuilder:
    """Thread-safe. `on_damaged` is called with the reason before a footer is rebuilt."""

    def __init__(self, files: OpenFiles, on_damaged: Callable[[Exception], None]) -> None:
        self._files = files
        self._on_damaged = on_damaged
        self._rebuilt: OrderedDict[SegmentName, RebuiltFooter] = OrderedDict()
        self._damaged: dict[SegmentName, Exception] = {}  # includes evicted ones
        self._rebuilding = threading.Lock()  # of two concurrent readers, the second uses the footer that the first rebuilt

    def get(self, segment: Segment) -> RebuiltFooter | None:
        """The rebuilt footer; None unless the footer on disk is known to be damaged. Rebuilds an evicted one, see `rebuild`."""
        name = segment.name
        if name not in self._damaged:
            return None
        if self._expired(name):
            del self._damaged[name]  # the disk may return the real one by now
            return None
        return self._rebuilt.get(name) or self.rebuild(segment, self._damaged[name])

    def doubtful_since(self, segment: int) -> float | None:
        """When the disk was asked for the rebuilt footer of this segment, if that may lack what is there."""
        ends = [footer.doubtful_until_s for name, footer in list(self._rebuilt.items()) if name.number == segment]
        return max((until_s - DOUBT_S for until_s in ends if until_s is not None), default=None)

    def forget_expired(self, name: SegmentName) -> bool:
        """Of a segment whose footer on disk is whole. Returns whether what was made in its place, or in that of an earlier
        generation, is kept no longer."""
        with self._rebuilding:
            expired = [each for each in self._rebuilt if each.number == name.number and self._expired(each)]
            for each in expired:
                self._damaged.pop(each, None)
                del self._rebuilt[each]
            return bool(expired)

    def _expired(self, name: SegmentName) -> bool:
        until_s = footer.doubtful_until_s if (footer := self._rebuilt.get(name)) is not None else None
        return until_s is not None and monotonic() >= until_s

    def rebuild(self, segment: Segment, reason: Exception) -> RebuiltFooter:
        """Blocks while it reads the whole segment. Raises `OSError`."""
        name = segment.name
        with self._rebuilding:
            known = self._rebuilt.get(name)
            if known is not None and not self._expired(name):
                return known
            self._on_damaged(reason)
            with self._files.use(segment.path) as file:
                content, complete = summary_of(file, segment)
            made = RebuiltFooter(content, None if complete else monotonic() + DOUBT_S)
            self._rebuilt[name] = made
            self._damaged[name] = reason
            while len(self._rebuilt) > 1 and sum(footer.numbers_held for footer in self._rebuilt.values()) > NUMBERS_MAX:
                self._rebuilt.popitem(last=False)
            return made


def summary_of(file: DiskFile, segment: Segment) -> tuple[SegmentSummary, bool]:
    """The summary of a sealed segment, rebuilt from its own commits only: lengths count from the beginning of the segment, and
    every ledger is assumed to have blocks in the segment before it. Also, whether all of it could be read. Raises `OSError`."""
    extents_of: dict[int, Extents] = {}
    scan = Scan(file, segment, limit=segment.data_stop, synced_until=segment.data_stop)
    for commit in scan.commits():
        for record in commit.records:
            if record.type != BLOCK:
                continue
            extents = extents_of.get(record.ledger_id)
            if extents is None:
                extents = extents_of[record.ledger_id] = Extents(record.ledger_id, segment.number, -1, 0, segment.number - 1)
            last, record_bytes = record.first_entry + record.entries - 1, record.stop - record.start
            offset, data_bytes = commit.offset + record.start, record.stop - record.data_start
            extents.add(last, record.first_entry, offset, record_bytes, data_bytes, EXTENT_BYTES_MAX)
    return summary.footer((segment.number, PAGE_BYTES, scan.stop, 0), list(extents_of.values()), Events()), not scan.unreadable
