"""Digests: what a stretch of a segment holds, small enough to read instead of the stretch itself.

A checkpoint's digest covers a stretch (the ledgers touched in it, their new rows), a footer's digest the whole segment. Ledgers are
sorted; arrays are little-endian 64-bit numbers, one item a ledger unless said otherwise.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from messaging.storage.local.state import ROW, Runs


class Events(msgspec.Struct, array_like=True):
    """What happened to ledgers as such. An id is never used twice, so no order is needed."""

    created: dict[int, dict[str, str]] = {}
    sealed: dict[int, tuple[int, int]] = {}  # last entry, length in bytes
    deleted: list[int] = []

    def size_bytes(self) -> int:
        """About what they take in a digest."""
        return 160 * len(self.created) + 32 * len(self.sealed) + 10 * len(self.deleted)


class Digest(msgspec.Struct, array_like=True):
    segment: int
    start: int  # offset of the first commit covered
    stop: int  # offset behind the last commit covered
    previous: int  # offset of the commit that holds the checkpoint before this one; 0: none in this segment
    ledgers: bytes
    row_stops: bytes  # behind each ledger's rows, counted in rows
    rows: bytes  # first entry, offset << 32 | bytes; two numbers a row
    last_entries: bytes
    length_bytes: bytes
    record_bytes: bytes  # in this segment so far
    events: Events
    overhead_bytes: int = 0  # in a footer: what is not blocks; rewriting does not win it back


class Table:
    """A digest with its arrays unpacked."""

    __slots__ = ("digest", "last_entries", "ledgers", "length_bytes", "record_bytes", "row_stops", "rows")

    def __init__(self, digest: Digest) -> None:
        self.digest = digest
        self.ledgers = _unpack(digest.ledgers)
        self.row_stops = _unpack(digest.row_stops)
        self.rows = _unpack(digest.rows)
        self.last_entries = _unpack(digest.last_entries)
        self.length_bytes = _unpack(digest.length_bytes)
        self.record_bytes = _unpack(digest.record_bytes)

    def rows_of(self, ledger_id: int) -> array[int]:
        at = bisect_left(self.ledgers, ledger_id)
        if at == len(self.ledgers) or self.ledgers[at] != ledger_id:
            return array("Q")
        return self.rows_at(at)

    def rows_at(self, at: int) -> array[int]:
        start = self.row_stops[at - 1] if at else 0
        return self.rows[ROW * start : ROW * self.row_stops[at]]

    def size_bytes(self) -> int:
        return 8 * (5 * len(self.ledgers) + len(self.rows)) + 200


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Digest)


def build(segment: int, start: int, stop: int, previous: int, stretches: Iterable[tuple[Runs, int]], events: Events) -> Digest:
    """`stretches`: runs and the index in their rows to begin at."""
    columns: list[array[int]] = [array("Q") for _ in range(6)]
    ledgers, row_stops, rows, last_entries, length_bytes, record_bytes = columns
    for runs, begin in sorted(stretches, key=_ledger_of):
        ledgers.append(runs.ledger_id)
        rows.extend(runs.rows[begin:] if begin else runs.rows)
        row_stops.append(len(rows) // ROW)
        last_entries.append(runs.last_entry)
        length_bytes.append(runs.length_bytes)
        record_bytes.append(runs.record_bytes)
    return Digest(
        segment,
        start,
        stop,
        previous,
        ledgers=_pack(ledgers),
        row_stops=_pack(row_stops),
        rows=_pack(rows),
        last_entries=_pack(last_entries),
        length_bytes=_pack(length_bytes),
        record_bytes=_pack(record_bytes),
        events=events,
    )


def encode(digest: Digest) -> bytes:
    return _encoder.encode(digest)


def decode(data: bytes | memoryview) -> Digest:
    """Raises `msgspec.DecodeError`."""
    return _decoder.decode(data)


def _ledger_of(stretch: tuple[Runs, int]) -> int:
    return stretch[0].ledger_id


def _pack(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _unpack(data: bytes) -> array[int]:
    column = array("Q")
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
