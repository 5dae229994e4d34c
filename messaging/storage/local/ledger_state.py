"""What is kept in memory of each ledger: a few numbers, and its index in segments whose footer is not yet on the disk.

Where blocks stand in all other segments their footers say (see `locate.py`).

Threads: whoever has the log's turn (`write/writer.py`) owns the index (`extents`, `last_segment` and the segments of records); the
loop owns all else. Others may read the index at any time if they read `extents` before `last_segment`: a segment may then be seen
twice, never not at all.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from messaging.storage.local.write.ledger_writer import LocalLedgerWriter

EXTENT_WIDTH = 2  # numbers of a row: first entry | offset << 32 | bytes


class Extents:
    """Where one ledger's blocks stand in one segment, 16 bytes a run.

    `table` alternates first entry and (offset << 32 | bytes): from that record on, for so many bytes, the ledger's blocks stand,
    perhaps with a few records of others between them. `last_entry` and `length_bytes` count from the ledger's beginning.
    """

    __slots__ = (
        "dirty_from",
        "dirty_mark",
        "last_entry",
        "ledger_id",
        "length_bytes",
        "link",
        "older",
        "record_bytes",
        "segment",
        "table",
    )

    def __init__(
        self, ledger_id: int, segment: int, last_entry: int, length_bytes: int, link: int = 0, older: Extents | None = None
    ) -> None:
        self.ledger_id = ledger_id
        self.segment = segment
        self.link = link  # the segment before this one that holds blocks of the ledger, 0: none
        self.older = older  # the runs there, until that footer is durable
        self.table = array("Q")
        self.last_entry = last_entry
        self.length_bytes = length_bytes
        self.record_bytes = 0
        self.dirty_mark = -1  # number of the checkpoint that will first cover what is new
        self.dirty_from = 0  # index in `table` of the first row to go into it

    def add(self, last: int, first: int, offset: int, record_bytes: int, data_bytes: int, extent_bytes_max: int) -> int:
        """Indexes a block; returns how many rows that took (0 or 1)."""
        table = self.table
        self.record_bytes += record_bytes
        self.last_entry = last
        self.length_bytes += data_bytes
        if table:
            place = table[-1]
            begin = place >> 32
            stop = begin + (place & 0xFFFFFFFF)
            if offset - stop <= GAP_BYTES_MAX and offset + record_bytes - begin <= extent_bytes_max:
                table[-1] = begin << 32 | (offset + record_bytes - begin)
                return 0
        table.append(first)
        table.append(offset << 32 | record_bytes)
        return 1


GAP_BYTES_MAX = 4096  # of other ledgers' records inside a run: reading over them is cheaper than a row of its own


# Phases of a ledger. The loop sets all but the last, which the log thread sets when the record of the deletion is durable: only
# from then on may its blocks go, however late the loop hears of it.
OPEN, SEALED, DELETED, TOMBSTONED = range(4)


class LedgerState:
    """About 110 bytes and a few numbers: there may be hundreds of thousands. Nothing of it grows with what is stored."""

    __slots__ = (
        "created_segment",
        "extents",
        "last_entry",
        "last_segment",
        "ledger_id",
        "length_bytes",
        "phase",
        "properties",
        "sealed_segment",
        "writer",
    )

    def __init__(
        self, ledger_id: int, properties: dict[str, str], created_segment: int = 0, last_entry: int = -1, length_bytes: int = 0
    ) -> None:
        self.ledger_id = ledger_id
        self.properties = properties  # shared with others: never change them
        self.last_entry = last_entry  # confirmed, in the log and readable
        self.length_bytes = length_bytes
        self.phase = OPEN
        self.created_segment = created_segment  # where its CREATED record stands
        self.sealed_segment = 0  # where its SEALED record stands, 0: nowhere
        self.last_segment = 0  # the newest one whose footer is durable and lists blocks of it, 0: none
        self.writer: LocalLedgerWriter | None = None
        self.extents: Extents | None = None  # in the newest segment that holds blocks of it and whose footer is not yet durable

    @property
    def owner(self) -> str:
        return self.properties.get("tenant", "")

    @property
    def reserved(self) -> bool:
        return "reserved" in self.properties

    @property
    def sealed(self) -> bool:
        return self.phase == SEALED

    @property
    def deleted(self) -> bool:
        return self.phase >= DELETED

    def extents_in(self, segment: int) -> Extents:
        """With the log's turn: the runs of the segment being written."""
        extents = self.extents
        if extents is None:
            fresh = Extents(self.ledger_id, segment, self.last_entry, self.length_bytes, self.last_segment, None)
        elif extents.segment == segment:
            return extents
        else:
            fresh = Extents(self.ledger_id, segment, extents.last_entry, extents.length_bytes, extents.segment, extents)
        self.extents = fresh
        return fresh

    def written(self) -> tuple[int, int]:
        """(last entry, length) as far as the log was laid out."""
        extents = self.extents
        return (self.last_entry, self.length_bytes) if extents is None else (extents.last_entry, extents.length_bytes)

    def release_index(self, extents: Extents) -> None:
        """For the log thread: the footer of `extents.segment`, the oldest in memory, is durable; remember only that."""
        self.last_segment = extents.segment  # before they are forgotten: readers look at them first
        newer = self.extents
        if newer is extents:
            self.extents = None
            return
        while newer is not None and newer.older is not extents:
            newer = newer.older
        if newer is not None:
            newer.older = None

    def extents_in_memory(self) -> list[Extents]:
        """Newest first. For any thread that looks at `last_segment` only afterwards."""
        found = []
        extents = self.extents
        while extents is not None:
            found.append(extents)
            extents = extents.older
        return found
