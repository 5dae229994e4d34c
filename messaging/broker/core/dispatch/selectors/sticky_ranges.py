"""Sticky: consumers name their hash ranges. Messages of hashes that nobody named wait until somebody does. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.selectors.selector import SLOTS, SlotMap, SlotTable, table_of
from messaging.errors import ConsumerAssign

Range = tuple[int, int]


class StickyRangesSelector:
    slots = SLOTS
    first_slot = 0

    def __init__(self) -> None:
        self._ranges: list[Range] = []  # in order
        self._owners: dict[Range, Consumer] = {}

    def check(self, consumer: Consumer) -> None:
        ranges = sorted(consumer.key_shared.ranges)
        if not ranges:
            raise ConsumerAssign("a consumer with sticky hash ranges has to name at least one")
        before = -1
        for first, last in ranges:
            if not 0 <= first <= last < SLOTS:
                raise ConsumerAssign(f"[{first}, {last}] is no range of hashes: they are from 0 to {SLOTS - 1}")
            if first <= before:
                raise ConsumerAssign(f"the range [{first}, {last}] overlaps another one of the same consumer")
            before = last
            self._check_free(first, last)

    def _check_free(self, first: int, last: int) -> None:
        at = bisect_left(self._ranges, (first, first))
        for other in self._ranges[max(0, at - 1) : at + 1]:
            if other[0] <= last and first <= other[1]:
                raise ConsumerAssign(
                    f"the range [{first}, {last}] overlaps [{other[0]}, {other[1]}] of consumer {self._owners[other].name!r}"
                )

    def add(self, consumer: Consumer) -> None:
        for one in consumer.key_shared.ranges:
            insort(self._ranges, one)
            self._owners[one] = consumer

    def remove(self, consumer: Consumer) -> None:
        for one in consumer.key_shared.ranges:
            self._ranges.remove(one)
            del self._owners[one]

    def slot_map(self) -> SlotMap:
        found: SlotMap = []
        free_from = 0
        for one in self._ranges:
            if free_from < one[0]:
                found.append((one[0] - 1, None))
            found.append((one[1], self._owners[one]))
            free_from = one[1] + 1
        if self._ranges and free_from < SLOTS:
            found.append((SLOTS - 1, None))
        return found

    def slot_table(self) -> SlotTable:
        return table_of(self.slot_map())
