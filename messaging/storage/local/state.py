"""What is kept in memory of each ledger: a few numbers, and an index that is sparse in the newest segments and tiny for the rest.

Threads: the log thread owns the index (`runs`, `sealing`, `parts`); the loop owns all else. Others may read the index at any time
if they read `runs`, then `sealing`, then `parts` (a segment moves along in that order and may be seen twice, never not at all).
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from messaging.storage.local.writer import LocalLedgerWriter

ROW = 2  # numbers of a row: first entry | offset << 32 | bytes


class Runs:
    """Where one ledger's blocks stand in one segment, 16 bytes a run.

    `rows` alternates first entry and (offset << 32 | bytes): from that record on, for so many bytes, the ledger's blocks are found,
    perhaps with a few records of others between them. `last_entry` and `length_bytes` count from the ledger's beginning.
    """

    __slots__ = ("dirty_from", "dirty_mark", "last_entry", "ledger_id", "length_bytes", "record_bytes", "rows", "segment")

    def __init__(self, ledger_id: int, segment: int, last_entry: int, length_bytes: int) -> None:
        self.ledger_id = ledger_id
        self.segment = segment
        self.rows = array("Q")
        self.last_entry = last_entry
        self.length_bytes = length_bytes
        self.record_bytes = 0
        self.dirty_mark = -1  # number of the checkpoint that will first cover what is new
        self.dirty_from = 0  # index in `rows` of the first row to go into it

    def add(self, last: int, first: int, offset: int, record_bytes: int, data_bytes: int, run_bytes_max: int) -> int:
        """Indexes a block; returns how many rows that took (0 or 1)."""
        rows = self.rows
        self.record_bytes += record_bytes
        self.last_entry = last
        self.length_bytes += data_bytes
        if rows:
            place = rows[-1]
            begin = place >> 32
            stop = begin + (place & 0xFFFFFFFF)
            if offset - stop <= GAP_BYTES_MAX and offset + record_bytes - begin <= run_bytes_max:
                rows[-1] = begin << 32 | (offset + record_bytes - begin)
                return 0
        rows.append(first)
        rows.append(offset << 32 | record_bytes)
        return 1


GAP_BYTES_MAX = 4096  # of other ledgers' records inside a run: reading over them is cheaper than a row of its own


class LedgerState:
    __slots__ = (
        "created_segment",
        "deleted",
        "durable",
        "last_entry",
        "ledger_id",
        "length_bytes",
        "owner",
        "parts",
        "properties",
        "reserved",
        "runs",
        "sealed",
        "sealed_segment",
        "sealing",
        "writer",
    )

    def __init__(self, ledger_id: int, properties: dict[str, str]) -> None:
        self.ledger_id = ledger_id
        self.properties = properties
        self.owner = properties.get("tenant", "")
        self.reserved = "reserved" in properties
        self.last_entry = -1  # confirmed, in the log and readable
        self.length_bytes = 0
        self.durable = False  # its CREATED record is
        self.sealed = False
        self.deleted = False
        self.created_segment = 0  # where its CREATED record stands
        self.sealed_segment = 0  # where its SEALED record stands, 0: nowhere
        self.writer: LocalLedgerWriter | None = None
        self.runs: Runs | None = None  # in the newest segment that holds blocks of it
        self.sealing: tuple[Runs, ...] = ()  # in earlier segments whose footers are not yet written
        self.parts: array[int] | None = None  # in sealed segments: first entry, segment << 32 | record bytes

    def runs_in(self, segment: int) -> Runs:
        """For the log thread: the runs of the segment being written."""
        runs = self.runs
        if runs is not None:
            if runs.segment == segment:
                return runs
            self.sealing += (runs,)
            self.runs = fresh = Runs(self.ledger_id, segment, runs.last_entry, runs.length_bytes)
            return fresh
        self.runs = fresh = Runs(self.ledger_id, segment, self.last_entry, self.length_bytes)
        return fresh

    def written(self) -> tuple[int, int]:
        """(last entry, length) as far as the log thread wrote."""
        runs = self.runs
        return (self.last_entry, self.length_bytes) if runs is None else (runs.last_entry, runs.length_bytes)

    def settle(self, runs: Runs) -> None:
        """For the log thread: the footer of `runs.segment` is durable; keep only where to look."""
        self.add_part(runs.rows[0], runs.segment, runs.record_bytes)
        if self.runs is runs:
            self.runs = None
        else:
            self.sealing = tuple(other for other in self.sealing if other is not runs)

    def add_part(self, first_entry: int, segment: int, record_bytes: int) -> None:
        if self.parts is None:
            self.parts = array("Q")
        self.parts.append(first_entry)
        self.parts.append(segment << 32 | min(record_bytes, 0xFFFFFFFF))

    def segment_bytes(self) -> dict[int, int]:
        """Bytes of its blocks' records by segment."""
        found = {runs.segment: runs.record_bytes for runs in (*self.sealing, *([self.runs] if self.runs else ()))}
        parts = self.parts or ()
        for index in range(1, len(parts), ROW):
            found[parts[index] >> 32] = parts[index] & 0xFFFFFFFF
        return found
