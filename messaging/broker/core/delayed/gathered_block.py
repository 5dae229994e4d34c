"""Single entries of one ledger from many blocks, as one block. Pure.

Where an entry is told by its index in a block, entry ``i`` of another block is ``first_entry + i``; here it is ``ids[i]``. Whoever
may be given such a block asks it: `entry_at`, and once for all of a block `entries_at`, `spans_of`, `indexes_in`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import ClassVar

from pyroaring import BitMap

from messaging.broker.core.entries import EntryBlock


class GatheredBlock(EntryBlock):
    """Plain messages: no batches, no chunks. `ids` rise. `broker_time_ms` is that of the oldest."""

    __slots__ = ("ids",)
    gathered: ClassVar[bool] = True

    def __init__(self, ledger_id: int, ids: array[int], data: bytes, end_offsets: array[int], broker_time_ms: int) -> None:
        super().__init__(ledger_id, ids[0], data, end_offsets, broker_time_ms, len(ids))
        self.ids = ids

    @property
    def last_entry(self) -> int:
        return self.ids[-1]

    def entry_at(self, index: int) -> int:
        return self.ids[index]

    def index_of(self, entry_id: int) -> int:
        return bisect_left(self.ids, entry_id)

    def entries_at(self, indexes: Sequence[int]) -> BitMap:
        return BitMap(list(map(self.ids.__getitem__, indexes)))

    def spans_of(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        ids = self.ids
        return [(bisect_left(ids, first), bisect_right(ids, last)) for first, last in ranges]

    def indexes_in(self, ranges: Sequence[tuple[int, int]]) -> list[int]:
        ids = self.ids
        if len(ranges) == 1:
            return list(range(bisect_left(ids, ranges[0][0]), bisect_right(ids, ranges[0][1])))
        wanted = BitMap()
        for first, last in ranges:
            wanted.add_range(first, last + 1)
        return [index for index, entry_id in enumerate(ids) if entry_id in wanted]

    def single(self, index: int) -> EntryBlock:
        """One entry as a block like others."""
        start, stop = self.start_of(index), self.end_offsets[index]
        ends, data = array("I", (stop - start,)), self.data[start:stop]
        return EntryBlock(self.ledger_id, self.ids[index], data, ends, self.broker_time_ms, 1)

    def last_within(self, entry_id: int, bytes_max: int) -> int:
        index = self.index_of(entry_id)
        stop = bisect_right(self.end_offsets, self.start_of(index) + bytes_max, lo=index)
        return self.ids[max(index, stop - 1)]
