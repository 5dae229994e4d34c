"""Segment summaries: what a part of a segment holds, small enough to be read instead of that part.

A checkpoint's summary covers a part (the ledgers touched in it, their new extents), a footer's the whole segment. All numbers
are little-endian and have 64 bits:

    segment | start | stop | previous | overhead bytes | ledgers n | previous segments p (n in a footer, else 0) | extents e
    | event bytes
    ledger ids n | last entries n | record bytes n | extents up to and with each n | lengths n
    previous segments p
    extents 2 * e
    events              msgpack

In a footer ledgers are sorted, so that one can be found with a few small reads (see `footers.py`).
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter

import msgspec

from messaging.storage.local.format.extents import EXTENT_WIDTH, Extents

HEAD = struct.Struct("<9Q")
COLUMNS = ("ledgers", "last_entries", "record_bytes", "extent_stops", "length_bytes", "previous_segments")  # in this order


class BadSummary(ValueError):
    """The bytes are not a valid summary."""


class Events(msgspec.Struct, array_like=True):
    """Events in the lives of ledgers: created, sealed, deleted. An id is never reused, so their order does not matter."""

    created: dict[int, dict[str, str]] = {}
    sealed: dict[int, tuple[int, int]] = {}  # last entry, length in bytes
    deleted: list[int] = []

    @property
    def count(self) -> int:
        return len(self.created) + len(self.sealed) + len(self.deleted)

    def size_bytes(self) -> int:
        """Approximate size in a summary."""
        return 160 * len(self.created) + 32 * len(self.sealed) + 10 * len(self.deleted)


def _column() -> array[int]:
    return array("Q")


@dataclass(slots=True)
class SegmentSummary:
    segment: int
    start: int  # offset of the first commit covered
    stop: int  # offset after the last commit covered
    previous: int  # offset of the commit with the previous checkpoint; 0: none in this segment
    overhead_bytes: int = 0  # in a footer: bytes that are not blocks, which rewriting does not reclaim
    ledgers: array[int] = field(default_factory=_column)
    last_entries: array[int] = field(default_factory=_column)
    record_bytes: array[int] = field(default_factory=_column)  # in this segment so far
    extent_stops: array[int] = field(default_factory=_column)  # running total of extents, up to and including each ledger
    length_bytes: array[int] = field(default_factory=_column)
    previous_segments: array[int] = field(default_factory=_column)  # the previous segment with blocks of the ledger, 0: none
    table: array[int] = field(default_factory=_column)  # first entry, offset << 32 | bytes; two numbers per extent
    events: Events = field(default_factory=Events)

    def extents_at(self, at: int) -> array[int]:
        start = self.extent_stops[at - 1] if at else 0
        return self.table[EXTENT_WIDTH * start : EXTENT_WIDTH * self.extent_stops[at]]


_encoder = msgspec.msgpack.Encoder()
_events = msgspec.msgpack.Decoder(Events)
_by_ledger = attrgetter("ledger_id")


def checkpoint(place: tuple[int, int, int, int], dirty: Sequence[Extents], events: Events) -> SegmentSummary:
    """Encodes the changes of each of `dirty` since its `dirty_from`. `place`: segment, start, stop, previous. Ledgers are unsorted,
    because this runs between two commits."""
    made = SegmentSummary(*place, events=events)
    _fill(made, dirty, [extents.table[extents.dirty_from :] if extents.dirty_from else extents.table for extents in dirty])
    return made


def footer(place: tuple[int, int, int, int], touched: Sequence[Extents], events: Events) -> SegmentSummary:
    """Encodes all of `touched`, sorted. `place`: segment, start, stop, previous."""
    made = SegmentSummary(*place, events=events)
    touched = sorted(touched, key=_by_ledger)
    _fill(made, touched, [extents.table for extents in touched])
    made.previous_segments = array("Q", [extents.link for extents in touched])
    return made


def _fill(made: SegmentSummary, stretches: Sequence[Extents], tables: list[array[int]]) -> None:
    for own in tables:
        made.table.extend(own)
    made.extent_stops = array("Q", [stop // EXTENT_WIDTH for stop in accumulate(map(len, tables))])
    made.ledgers = array("Q", [extents.ledger_id for extents in stretches])
    made.last_entries = array("Q", [extents.last_entry for extents in stretches])
    made.record_bytes = array("Q", [extents.record_bytes for extents in stretches])
    made.length_bytes = array("Q", [extents.length_bytes for extents in stretches])


def encode(summary: SegmentSummary) -> bytes:
    events = _encoder.encode(summary.events)
    head = HEAD.pack(
        summary.segment,
        summary.start,
        summary.stop,
        summary.previous,
        summary.overhead_bytes,
        len(summary.ledgers),
        len(summary.previous_segments),
        len(summary.table) // EXTENT_WIDTH,
        len(events),
    )
    columns = [pack(getattr(summary, name)) for name in COLUMNS]
    return b"".join([head, *columns, pack(summary.table), events])


def decode(data: bytes | memoryview) -> SegmentSummary:
    """Raises `BadSummary`."""
    if len(data) < HEAD.size:
        raise BadSummary("a segment summary ends before its head does")
    segment, start, stop, previous, overhead, ledgers, links, extents, event_bytes = HEAD.unpack_from(data)
    if len(data) != size_bytes(ledgers, links, extents, event_bytes):
        raise BadSummary("a segment summary is not as long as its head says")
    made = SegmentSummary(segment, start, stop, previous, overhead)
    view = memoryview(data)[HEAD.size :]
    for name, count in zip((*COLUMNS, "table"), (*[ledgers] * 5, links, EXTENT_WIDTH * extents), strict=True):
        setattr(made, name, unpack(view[: 8 * count]))
        view = view[8 * count :]
    try:
        made.events = _events.decode(view)
    except msgspec.DecodeError as error:
        raise BadSummary(f"the events of a segment summary cannot be read: {error}") from None
    return made


def size_bytes(ledgers: int, links: int, extents: int, event_bytes: int) -> int:
    return HEAD.size + 8 * (5 * ledgers + links + EXTENT_WIDTH * extents) + event_bytes


def pack(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def unpack(data: bytes | memoryview, typecode: str = "Q") -> array[int]:
    column = array(typecode)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
