"""Which entries are in which blocks, as far as reads have shown: BookKeeper numbers adds, and keeps no index of ours.

Pure. A block that is not known is looked for between those that are: entries are spread over blocks evenly enough that a few
guesses find it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import NamedTuple

BLOCKS_MAX = 1024  # of one ledger
RECENT_BLOCKS = 256
SPREAD_BLOCKS = 256


class BlockRange(NamedTuple):
    """The block is one of `lowest`..`highest`. `begin` is the lowest entry that `lowest` may hold, `end` that behind `highest`."""

    lowest: int
    highest: int
    begin: int
    end: int


class KnownBlocks:
    """Of one ledger; `last_block` was its last one when it was read last."""

    __slots__ = ("_afters", "_lasts", "_numbers", "_sizes_bytes", "last_block", "sparse")

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse
        self.last_block = -1
        self._numbers = array("q")
        self._afters = array("q")
        self._lasts = array("q")
        self._sizes_bytes = array("q")

    @property
    def size(self) -> int:
        """How many blocks are known."""
        return len(self._numbers)

    def add(self, number: int, after_entry: int, last_entry: int, size_bytes: int) -> None:
        at = bisect_left(self._numbers, number)
        if at < len(self._numbers) and self._numbers[at] == number:
            return
        columns = (self._numbers, self._afters, self._lasts, self._sizes_bytes)
        for column, value in zip(columns, (number, after_entry, last_entry, size_bytes), strict=True):
            column.insert(at, value)
        if len(self._numbers) > BLOCKS_MAX:
            self._thin(number)

    def find(self, entry_id: int, last_block: int, last_entry: int) -> BlockRange:
        """Where the block is that holds an entry, or the next one behind a gap; it is not behind `last_entry`, which is in
        `last_block`."""
        at = bisect_left(self._lasts, entry_id)
        lowest, begin = (self._numbers[at - 1] + 1, self._lasts[at - 1] + 1) if at else (0, 0)
        if at == len(self._numbers):
            return BlockRange(lowest, last_block, begin, last_entry + 1)
        if self._afters[at] < entry_id:
            number = self._numbers[at]
            return BlockRange(number, number, self._afters[at] + 1, self._lasts[at] + 1)
        return BlockRange(lowest, self._numbers[at] - 1, begin, self._afters[at] + 1)

    def entries_of_read(self, first: int, entries_max: int, bytes_max: int) -> int:
        """How many a read would bring, by the rule of `LedgerReader.read`; 0: not known."""
        at = bisect_left(self._lasts, first)
        if self.sparse or at == len(self._numbers) or self._afters[at] >= first:
            return 0
        begin, entries, size_bytes, expected = first, 0, 0, self._numbers[at]
        while True:
            if at == len(self._numbers) or self._numbers[at] != expected:
                return entries if expected > self.last_block else 0
            size_bytes += self._sizes_bytes[at]
            if entries and size_bytes > bytes_max:
                return entries
            entries = self._lasts[at] + 1 - begin
            if entries >= entries_max or size_bytes >= bytes_max:
                return entries
            at, expected = at + 1, expected + 1

    def _thin(self, number: int) -> None:
        """Of those far from `number`, keeps some that are spread evenly."""
        step = 1 + max(self._numbers[-1], number) // SPREAD_BLOCKS
        kept, marked = list[int](), -1
        for at, known in enumerate(self._numbers):
            if abs(known - number) < RECENT_BLOCKS or known // step != marked:
                kept.append(at)
                marked = known // step
        for name in ("_numbers", "_afters", "_lasts", "_sizes_bytes"):
            column = getattr(self, name)
            setattr(self, name, array("q", (column[at] for at in kept)))
