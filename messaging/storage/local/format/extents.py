"""The location of the blocks of one ledger in one segment."""

from __future__ import annotations

from array import array

EXTENT_WIDTH = 2  # table values per extent: first entry, and offset << 32 | bytes


class Extents:
    """The blocks of one ledger in one segment, 16 bytes per extent.

    `table` alternates first entry and (offset << 32 | bytes): starting at that record, for that many bytes, come blocks of the
    ledger, possibly with a few records of others between them. `last_entry` and `length_bytes` count from the beginning of the
    ledger."""

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
        self.link = link  # the previous segment with blocks of the ledger, 0: none
        self.older = older  # the extents in that segment, until its footer is durable
        self.table = array("Q")
        self.last_entry = last_entry
        self.length_bytes = length_bytes
        self.record_bytes = 0
        self.dirty_mark = -1  # number of the checkpoint that will first cover the new extents
        self.dirty_from = 0  # index in `table` of the first value for that checkpoint

    def add(self, last: int, first: int, offset: int, record_bytes: int, data_bytes: int, extent_bytes_max: int) -> int:
        """Indexes a block. Returns the number of extents added (0 or 1)."""
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


GAP_BYTES_MAX = 4096  # bytes of other ledgers' records allowed inside an extent: reading over them is cheaper than another extent
