"""Auto-split hash range: each consumer has one range; a newcomer gets the lower half of the largest one. Pure."""

from __future__ import annotations

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.selectors.selector import SLOTS, SlotMap, SlotTable, table_of
from messaging.errors import ConsumerAssign

RANGE_BYTES = 150  # memory of a range and its owner


class HashRangeSelector:
    slots = SLOTS
    first_slot = 0

    def __init__(self) -> None:
        self._ranges: list[tuple[int, Consumer]] = []  # by their upper bound, which belongs to them; the last one is `SLOTS`

    @property
    def memory_bytes(self) -> int:
        return RANGE_BYTES * len(self._ranges)

    def check(self, consumer: Consumer) -> None:
        if self._ranges and self._largest()[1] <= 1:
            raise ConsumerAssign(f"each of {len(self._ranges)} consumers has one hash, and none is left: close a consumer first")

    def _largest(self) -> tuple[int, int]:
        """Its index and its size; the lowest of several."""
        index_found = size_found = lower = 0
        for index, (upper, _) in enumerate(self._ranges):
            if upper - lower > size_found:
                index_found, size_found = index, upper - lower
            lower = upper
        return index_found, size_found

    def add(self, consumer: Consumer) -> None:
        if not self._ranges:
            self._ranges.append((SLOTS, consumer))
            return
        index, size = self._largest()
        self._ranges.insert(index, (self._ranges[index][0] - (size >> 1), consumer))

    def remove(self, consumer: Consumer) -> None:
        """Its range goes to its right neighbour, the last one to the left."""
        index = next(index for index, (_, owner) in enumerate(self._ranges) if owner is consumer)
        if index and index == len(self._ranges) - 1:
            self._ranges[index - 1] = (SLOTS, self._ranges[index - 1][1])
        del self._ranges[index]

    def slot_map(self) -> SlotMap:
        return list(self._ranges)

    def slot_table(self) -> SlotTable:
        return table_of(self.slot_map())
