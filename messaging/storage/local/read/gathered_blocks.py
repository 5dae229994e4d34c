"""What one read of a ledger is to bring, and the blocks gathered for it so far from one segment after another."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from messaging.storage.ledger_store import Block
from messaging.storage.local.format import records
from messaging.storage.local.format.extents import EXTENT_WIDTH
from messaging.storage.local.read.ledger_scan import own_records

READ_BYTES_MAX = 576 << 10  # bytes of one read: a commit may wait behind it. Two reads bring a MiB, in whole extents
GAP_BYTES_MAX = 16 << 10  # bytes of other ledgers that are read and discarded rather than skipped


class Wanted(NamedTuple):
    ledger_id: int
    first: int
    last: int  # never returns entries beyond it
    entries_max: int
    until: int  # reads planned together begin before it
    bytes_max: int
    segments: tuple[int, int]  # the first and the last segment whose footer may list blocks of the ledger


class GatheredBlocks:
    """The blocks gathered so far, beginning with the one that holds `wanted.first`, with nothing missing in between but ids that
    were left out."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.blocks: list[Block] = []
        self.bytes = 0
        self.next_entry = wanted.first
        self.stop_at = wanted.first + wanted.entries_max  # an id: when this is the next one, there are enough entries
        self.full = False
        self.hole = False
        self.resume_at = -1
        self.unreadable = False  # the disk could not return some of what was asked for

    def cannot_read(self) -> None:
        self.unreadable = True

    def look_again(self) -> None:
        """What was taken last is not all that there is."""
        self.hole = False
        self.resume_at = -1

    def take(self, view: memoryview, stretches: list[tuple[int, int]], seed: int) -> None:
        wanted = self.wanted
        own = sum(end - start for start, end in stretches)
        copy = own * 2 < len(view)  # copied, so that a small part does not keep a large buffer alive
        for start, end in stretches:
            for record in own_records(view, start, end, wanted.ledger_id, seed):
                if record.first_entry + record.entries <= self.next_entry:
                    continue
                size = record.stop - record.data_start
                past = self.next_entry >= self.stop_at or self.bytes + size > wanted.bytes_max
                if record.first_entry > wanted.last or (self.blocks and past):
                    self.full = True
                    return
                if record.first_entry > self.next_entry:
                    if record.first_entry - records.skipped_before(view, record) > self.next_entry:
                        self.hole = True
                        self.resume_at = record.first_entry
                        return
                    self.stop_at += record.first_entry - self.next_entry
                self.blocks.append(records.block_of(view, record, copy=copy))
                self.bytes += size
                self.next_entry = record.first_entry + record.entries
        # Reported here: reporting it at the next record would require reading that record.
        self.full = self.bytes >= wanted.bytes_max or self.next_entry >= self.stop_at


def extent_of(table: array[int], entry: int) -> int:
    """The index in `table` of the extent that holds `entry`: the last one that begins at or before it."""
    low, high = 0, len(table) // EXTENT_WIDTH
    while low < high:
        middle = (low + high) // 2
        if table[EXTENT_WIDTH * middle] <= entry:
            low = middle + 1
        else:
            high = middle
    return EXTENT_WIDTH * (low - 1)


def plan(table: array[int], index: int, gathered: GatheredBlocks) -> tuple[int, list[tuple[int, int]], int, int]:
    """Plans the next read: (index of the extent after it, stretches within the read, its start and its end in the file)."""
    place = table[index + 1]
    begin = place >> 32
    stop = begin + (place & 0xFFFFFFFF)
    stretches = [(0, stop - begin)]
    room = gathered.wanted.bytes_max - gathered.bytes
    until = gathered.wanted.until
    taken = stop - begin
    index += EXTENT_WIDTH
    while index < len(table) and table[index] < until and table[index] <= gathered.wanted.last and taken < room:
        place = table[index + 1]
        start, length = place >> 32, place & 0xFFFFFFFF
        if start - stop > GAP_BYTES_MAX or start + length - begin > READ_BYTES_MAX:
            break
        stretches.append((start - begin, start + length - begin))
        stop = start + length
        taken += length
        index += EXTENT_WIDTH
    return index, stretches, begin, stop
