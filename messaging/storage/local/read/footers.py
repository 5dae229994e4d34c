"""The footers of sealed segments are the on-disk index of the log.

`read_footer` reads and verifies a whole footer: for recovery, for rewriting, for everything that must be right. `Footer` looks
values up with a few small reads and verifies nothing: the blocks it leads to have checksums of their own, and a caller that finds a
mismatch reads the footer whole. Footers are not memory-mapped, because a bad sector must raise an error instead of killing the
process.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from operator import lt

from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.device.open_files import OpenFiles
from messaging.storage.local.format import records
from messaging.storage.local.format import summary as summary
from messaging.storage.local.format.extents import EXTENT_WIDTH
from messaging.storage.local.format.segment import PAGE_BYTES, Segment
from messaging.storage.local.format.summary import COLUMNS, HEAD, BadSummary, SegmentSummary

WINDOW = 512  # values read at once at the end of a search


class BadFooter(Exception):
    """The footer of a sealed segment does not match its checksum."""


def read_footer(file: DiskFile, segment: Segment) -> SegmentSummary:
    """Raises `BadFooter` and `OSError`."""
    data = file.read(segment.footer_bytes, segment.footer_offset)
    record = records.parse(data, 0)
    if record is None or record.type != records.FOOTER or not records.checksum_matches(memoryview(data), record, segment.seed):
        raise BadFooter(f"the footer of {segment.path} does not match its checksum")
    try:
        return summary.decode(memoryview(data)[record.data_start : record.stop])
    except BadSummary as error:
        raise BadFooter(f"the footer of {segment.path} cannot be read: {error}") from error


def whole_footer(files: OpenFiles, segment: Segment) -> SegmentSummary:
    """Like `read_footer`, through an open file. Raises `BadFooter` and `OSError`."""
    with files.use(segment.path) as file:
        return read_footer(file, segment)


class Footer:
    """The footer of `segment`, read on demand through `file`. All methods raise `BadFooter` and `OSError`."""

    __slots__ = ("_base", "_file", "_segment", "_whole", "ledgers", "overhead_bytes")

    def __init__(self, file: DiskFile, segment: Segment) -> None:
        self._file = file
        self._segment = segment
        start = segment.footer_offset + records.FIXED_BYTES
        head = file.read(HEAD.size, start)
        if len(head) < HEAD.size:
            raise BadFooter(f"the footer of {segment.path} is cut off")
        _, _, _, _, self.overhead_bytes, self.ledgers, links, extents, event_bytes = HEAD.unpack(head)
        size = summary.size_bytes(self.ledgers, links, extents, event_bytes)
        if links != self.ledgers or size + records.FIXED_BYTES != segment.footer_bytes:
            raise BadFooter(f"the footer of {segment.path} is not as long as its head says")
        self._base = start + HEAD.size
        self._whole: dict[str, array[int]] = {}

    def load(self) -> None:
        """Reads everything that `find` and `number` need in one go, for many lookups."""
        for name in ("ledgers", "record_bytes", "previous_segments"):
            self._whole[name] = self.numbers(name, 0, self.ledgers)

    def find(self, ledger_id: int) -> int:
        """The column index of a ledger; -1 if it has no blocks here."""
        low, high = 0, self.ledgers
        ids = self._whole.get("ledgers")
        if ids is None:
            while high - low > WINDOW:
                middle = (low + high) // 2
                if self.number("ledgers", middle) <= ledger_id:
                    low = middle
                else:
                    high = middle
            ids = self.numbers("ledgers", low, high)
        at = bisect_left(ids, ledger_id)
        return low + at if at < len(ids) and ids[at] == ledger_id else -1

    def number(self, column: str, at: int) -> int:
        whole = self._whole.get(column)
        return whole[at] if whole is not None else self.numbers(column, at, at + 1)[0]

    def numbers(self, column: str, start: int, stop: int) -> array[int]:
        return self._numbers(COLUMNS.index(column) * self.ledgers + start, stop - start)

    def extents_at(self, at: int) -> array[int]:
        """The extents of a ledger: first entry and offset << 32 | bytes, two numbers per extent."""
        stops = self.numbers("extent_stops", max(0, at - 1), at + 1)
        start = stops[0] if at else 0
        table = self._numbers(len(COLUMNS) * self.ledgers + EXTENT_WIDTH * start, EXTENT_WIDTH * (stops[-1] - start))
        if not table or not _in_order(table, self._segment.footer_offset):
            raise BadFooter(f"the footer of {self._segment.path} lists blocks where none can be")
        return table

    def _numbers(self, index: int, count: int) -> array[int]:
        place = self._base + 8 * index
        if count < 0 or place + 8 * count > self._segment.footer_offset + self._segment.footer_bytes:
            raise BadFooter(f"the footer of {self._segment.path} points past its end")
        data = self._file.read(8 * count, place)
        if len(data) < 8 * count:
            raise BadFooter(f"the footer of {self._segment.path} is cut off")
        return summary.unpack(data)


def _in_order(table: array[int], limit: int) -> bool:
    """Whether entries and offsets rise from extent to extent and all end before `limit`. Readers rely on this."""
    behind = PAGE_BYTES
    for place in table[1::EXTENT_WIDTH]:
        if place >> 32 < behind:
            return False
        behind = (place >> 32) + (place & 0xFFFFFFFF)
    firsts = table[::EXTENT_WIDTH]
    return behind <= limit and all(map(lt, firsts, firsts[1:]))
