"""Which entries are in which blocks, as far as reads have shown: BookKeeper numbers adds, and keeps no index of ours.

Pure. A block that is not known is looked for between those that are: entries are spread over blocks evenly enough that a few
guesses find it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import NamedTuple

BLOCKS_MAX = 1024  # of one ledger
MEAN_BLOCKS = 16  # by which the size of those behind them is guessed
RECENT_BLOCKS = 256
KNOWN_BLOCK_BYTES = 42  # five numbers, and the room that arrays leave for more
KNOWN_LEDGER_BYTES = 1_000
SPREAD_BLOCKS = 256


class BlockRange(NamedTuple):
    """The block is one of `lowest`..`highest`. `begin` is the lowest entry that `lowest` may hold; those of `highest` are before
    `end`."""

    lowest: int
    highest: int
    begin: int
    end: int


class ReadEnd(NamedTuple):
    """A read that begins in the block `begin` ends about with the block `number`."""

    begin: int
    number: int

    def shorter(self, share: float) -> ReadEnd:
        return ReadEnd(self.begin, self.begin + int((self.number - self.begin) * share))


class KnownBlocks:
    """Of one ledger; `last_block` was its last one when it was read last."""

    __slots__ = ("_afters", "_ends_bytes", "_lasts", "_numbers", "_sizes_bytes", "last_block", "sparse")

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse
        self.last_block = -1
        self._numbers = array("q")
        self._afters = array("q")
        self._lasts = array("q")
        self._sizes_bytes = array("q")
        self._ends_bytes = array("q")

    @property
    def size(self) -> int:
        """How many blocks are known."""
        return len(self._numbers)

    @property
    def size_bytes(self) -> int:
        return KNOWN_LEDGER_BYTES + KNOWN_BLOCK_BYTES * len(self._numbers)

    def add(self, number: int, after_entry: int, last_entry: int, size_bytes: int, end_bytes: int) -> None:
        """`end_bytes`: of the ledger's entries up to the end of the block."""
        at = bisect_left(self._numbers, number)
        if at < len(self._numbers) and self._numbers[at] == number:
            return
        columns = (self._numbers, self._afters, self._lasts, self._sizes_bytes, self._ends_bytes)
        for column, value in zip(columns, (number, after_entry, last_entry, size_bytes, end_bytes), strict=True):
            column.insert(at, value)
        if len(self._numbers) > BLOCKS_MAX:
            self._thin(number)

    def find(self, entry_id: int, last_block: int, last_entry: int) -> BlockRange:
        """Where the block is that holds an entry, or the next one behind a gap; it is not behind `last_entry`, which is in
        `last_block`."""
        at = bisect_left(self._lasts, entry_id)
        lowest, begin = (self._numbers[at - 1] + 1, self._lasts[at - 1] + 1) if at else (0, 0)
        if not self.sparse and begin == entry_id:  # it follows one that is known
            return BlockRange(lowest, lowest, begin, last_entry + 1)
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

    def end_of_read(self, first: int, last_entry: int, entries_max: int, bytes_max: int) -> ReadEnd | None:
        """Which block to look at, to learn where a read ends that begins where the last one ended; None: no read came near."""
        where = self.find(first, self.last_block, last_entry)
        at = bisect_left(self._lasts, first)
        if self.sparse or where.lowest != where.highest or not at or self._begin_bytes(where.lowest) is None:
            return None
        begin = max(0, at - MEAN_BLOCKS)
        size_bytes, entries = sum(self._sizes_bytes[begin:at]), sum(map(int.__sub__, self._lasts[begin:at], self._afters[begin:at]))
        blocks = min(bytes_max * (at - begin) // max(1, size_bytes), entries_max * (at - begin) // entries)
        return ReadEnd(where.lowest, min(where.lowest + max(1, blocks) - 1, self.last_block))

    def known_end(self, begin: int, last_entry: int, bytes_max: int) -> int | None:
        """The block that holds an entry, where it is known that it and all from the block `begin` on are less than `bytes_max`."""
        at = bisect_left(self._lasts, last_entry)
        if self.sparse or at == len(self._lasts) or self._afters[at] >= last_entry or self._numbers[at] < begin:
            return None
        begin_bytes = self._begin_bytes(begin)
        return self._numbers[at] if begin_bytes is not None and self._ends_bytes[at] - begin_bytes < bytes_max else None

    def share_of_read(self, end: ReadEnd, bytes_max: int) -> float:
        """How much of such a read is less than `bytes_max`, now that its last block is known; 1: all."""
        begin_bytes = self._begin_bytes(end.begin)
        if begin_bytes is None or end.number == end.begin:
            return 1.0
        size_bytes = self._ends_bytes[bisect_left(self._numbers, end.number)] - begin_bytes
        return 1.0 if size_bytes < bytes_max else bytes_max / (size_bytes + 1)

    def entries_to(self, end: ReadEnd, first: int, entries_max: int) -> int:
        """How many entries a read brings that ends with a block, which is known; 0: it would end sooner."""
        at = bisect_left(self._numbers, end.number)
        return self._lasts[at] + 1 - first if end.number == end.begin or self._afters[at] + 1 - first < entries_max else 0

    def _begin_bytes(self, number: int) -> int | None:
        """Of the entries of the ledger before a block; None where neither it nor the one before is known."""
        at = bisect_left(self._numbers, number)
        if at and self._numbers[at - 1] == number - 1:
            return self._ends_bytes[at - 1]
        if at < len(self._numbers) and self._numbers[at] == number:
            return self._ends_bytes[at] - self._sizes_bytes[at]
        return None if number else 0

    def _thin(self, number: int) -> None:
        """Of those far from `number`, keeps some that are spread evenly."""
        step = 1 + max(self._numbers[-1], number) // SPREAD_BLOCKS
        kept, marked = list[int](), -1
        for at, known in enumerate(self._numbers):
            if abs(known - number) < RECENT_BLOCKS or known // step != marked:
                kept.append(at)
                marked = known // step
        for name in ("_numbers", "_afters", "_lasts", "_sizes_bytes", "_ends_bytes"):
            column = getattr(self, name)
            setattr(self, name, array("q", (column[at] for at in kept)))
