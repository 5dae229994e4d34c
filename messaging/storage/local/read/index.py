"""Locates entries in sealed segments: a search over footers, run in a thread, with a cache of recent results.

The blocks of a ledger are in some of the segments between the one that created it and the last one that holds any. The search is a
binary search over that range. If the segment in the middle has no blocks of the ledger, the search instead follows one link
backwards (each footer names the previous segment with blocks of the same ledger).

An unreadable footer is rebuilt from its segment, in memory (see `rebuilt_footers.py`), and the search continues there.
"""

from __future__ import annotations

import errno
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple, TypeVar

from messaging.storage.local.device.open_files import OpenFiles
from messaging.storage.local.format.segment import Segment, SegmentName
from messaging.storage.local.read.footers import BadFooter, Footer, whole_footer
from messaging.storage.local.read.lost_entries import LostEntries
from messaging.storage.local.read.rebuilt_footers import FooterRebuilder, RebuiltFooter

STEPS_MAX = 4  # segments tried right after the last result before searching
RECENT_MAX = 4096
RECENT_NUMBERS_MAX = 1 << 20  # bytes of extents in the whole cache: 8 MiB

Answer = TypeVar("Answer")


class Place(NamedTuple):
    """The blocks of a ledger in one segment. `last` is the last entry of them, `link` the previous segment with blocks of the
    ledger."""

    segment: int
    generation: int
    last: int
    link: int
    table: array[int]


class _Row(NamedTuple):
    """The row of a ledger in a footer: it is the row number `at`."""

    segment: Segment
    at: int
    last: int
    link: int


class EntryIndex:
    """Thread-safe; blocks. Raises `OSError`. `on_damaged` is called with a description of each damaged footer."""

    def __init__(self, segments: Mapping[int, Segment], files: OpenFiles, on_damaged: Callable[[Exception], None]) -> None:
        self._segments = segments
        self._files = files
        self._rebuilt = FooterRebuilder(files, on_damaged)
        self._lock = threading.Lock()
        self._recent: OrderedDict[int, Place] = OrderedDict()
        self._recent_numbers = 0
        self.unreadable = LostEntries()  # others may ask whether there are any
        self._checked: set[SegmentName] = set()

    def locate(self, ledger_id: int, entry: int, first_segment: int, last_segment: int) -> Place | None:
        """The place that holds the first entry at or after `entry`; None if there is none between the two segments."""
        recent = self.recent(ledger_id)
        if recent is not None:
            if recent.table[0] <= entry <= recent.last:
                return recent
            if entry > recent.last:
                first_segment = recent.segment + 1
                for number in range(first_segment, min(first_segment + STEPS_MAX, last_segment + 1)):
                    row = self._look(ledger_id, number)
                    if row is not None:
                        if row.last >= entry:
                            return self._keep(ledger_id, row)
                        break
            else:
                last_segment = recent.segment
        row = self._search(ledger_id, entry, first_segment, last_segment)
        return self._keep(ledger_id, row) if row is not None else None

    def check(self, first_segment: int, last_segment: int) -> bool:
        """Called after an inconsistency: checks each footer in that range once and rebuilds damaged ones. Returns whether any was
        damaged."""
        repaired = False
        for number in range(first_segment, last_segment + 1):
            segment = self._segments.get(number)
            if segment is None or not segment.sealed or segment.name in self._checked:
                continue
            try:
                whole_footer(self._files, segment)
            except (BadFooter, OSError) as error:
                _raise_unless_damaged(error)
                self._rebuilt.rebuild(segment, error)
                self._forget(segment)
                repaired = True
                if self._rebuilt.doubtful_since(number) is not None:
                    continue
            else:
                if self._rebuilt.doubtful_since(number) is not None:
                    if not self._rebuilt.forget_expired(segment.name):
                        continue
                    self._forget(segment)  # a read that does not look at this segment would be in doubt about it for ever
                    repaired = True
            self._checked.add(segment.name)
        return repaired

    def doubtful_since(self, first_segment: int, last_segment: int) -> float | None:
        """Whether something between these may be missing only because the disk did not return it, and when it was asked."""
        asked = (self._rebuilt.doubtful_since(number) for number in range(first_segment, last_segment + 1))
        return max((at_s for at_s in asked if at_s is not None), default=None)

    def is_lost(self, ledger_id: int, entry: int, asked_s: float | None = None) -> bool:
        """The disk did not return an entry when it was asked, now if None. Whether that lasts, or it is to be asked again."""
        with self._lock:
            return self.unreadable.failed(ledger_id, entry, monotonic() if asked_s is None else asked_s)

    def returned(self, ledger_id: int, first: int, stop: int) -> None:
        """The disk returned the entries from `first` to before `stop`. Does not block."""
        with self._lock:
            self.unreadable.returned(ledger_id, first, stop)

    def _search(self, ledger_id: int, entry: int, low: int, high: int) -> _Row | None:
        row = self._at_or_below(ledger_id, high, low)
        if row is None or row.last < entry:
            return None
        while low < row.segment.number:
            middle = (low + row.segment.number) // 2
            other = self._look(ledger_id, middle)
            if other is None:
                other = self._at_or_below(ledger_id, row.link, low)
                if other is None or other.last < entry:
                    return row
                row = other
            elif other.last >= entry:
                row = other
            else:
                low = middle + 1
        return row

    def _at_or_below(self, ledger_id: int, number: int, low: int) -> _Row | None:
        while number >= low and number > 0:
            row = self._look(ledger_id, number)
            if row is not None:
                return row
            number -= 1  # a segment is lost or damaged: search its neighbours
        return None

    def _look(self, ledger_id: int, number: int) -> _Row | None:
        segment = self._segments.get(number)
        if segment is None or not segment.sealed:
            return None

        def look(footer: Footer | RebuiltFooter) -> _Row | None:
            at = footer.find(ledger_id)
            if at < 0:
                return None
            link = footer.number("previous_segments", at)
            if link >= number:
                raise BadFooter(f"the footer of {segment.path} names a later segment as an earlier one")
            return _Row(segment, at, footer.number("last_entries", at), link)

        return self._in_footer(segment, look)

    def _in_footer(self, segment: Segment, look: Callable[[Footer | RebuiltFooter], Answer]) -> Answer:
        rebuilt = self._rebuilt.get(segment)
        if rebuilt is None:
            try:
                with self._files.use(segment.path) as file:
                    return look(Footer(file, segment))
            except (BadFooter, OSError) as error:
                _raise_unless_damaged(error)
                rebuilt = self._rebuilt.rebuild(segment, error)
                self._forget(segment)
        return look(rebuilt)

    def _keep(self, ledger_id: int, row: _Row) -> Place:
        segment = row.segment

        def place_in(footer: Footer | RebuiltFooter) -> Place:
            if isinstance(footer, Footer):
                return Place(segment.number, segment.generation, row.last, row.link, footer.extents_at(row.at))
            at = footer.find(ledger_id)  # again: the result may have come from the damaged footer
            if at < 0:
                raise BadFooter(f"the footer of {segment.path} was damaged: it listed ledger {ledger_id}, which is not there")
            last, link = footer.number("last_entries", at), footer.number("previous_segments", at)
            return Place(segment.number, segment.generation, last, link, footer.extents_at(at))

        place = self._in_footer(segment, place_in)
        if self._rebuilt.doubtful_since(segment.number) is not None:
            return place
        with self._lock:
            self._drop(ledger_id)
            self._recent[ledger_id] = place
            self._recent_numbers += len(place.table)
            while self._recent_numbers > RECENT_NUMBERS_MAX or len(self._recent) > RECENT_MAX:
                self._drop(next(iter(self._recent)))
        return place

    def recent(self, ledger_id: int) -> Place | None:
        """The place most recently found for the ledger. Does not block."""
        with self._lock:
            recent = self._recent.get(ledger_id)
            if recent is None:
                return None
            segment = self._segments.get(recent.segment)
            if segment is None or segment.generation != recent.generation:
                self._drop(ledger_id)
                return None
            self._recent.move_to_end(ledger_id)
            return recent

    def _drop(self, ledger_id: int) -> None:
        recent = self._recent.pop(ledger_id, None)
        if recent is not None:
            self._recent_numbers -= len(recent.table)

    def _forget(self, segment: Segment) -> None:
        """Drops cached results that came from a damaged footer."""
        with self._lock:
            for ledger_id in [key for key, recent in self._recent.items() if recent.segment == segment.number]:
                self._drop(ledger_id)


def _raise_unless_damaged(error: Exception) -> None:
    if isinstance(error, OSError) and error.errno != errno.EIO:
        raise error
