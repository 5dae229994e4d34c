"""Sticky: consumers name their hash ranges. Messages of hashes that nobody named wait until somebody does. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from operator import itemgetter

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.selectors.selector import SLOTS, SlotMap, SlotTable
from messaging.errors import ConsumerAssign

Range = tuple[int, int, Consumer]  # first and last hash, and whose they are
_first = itemgetter(0)
RANGE_BYTES = 250  # memory of a range and its owner
FEW = 32  # ranges that are moved one by one: a walk over all ranges costs about as much


class StickyRangesSelector:
    slots = SLOTS
    first_slot = 0

    def __init__(self) -> None:
        self._ranges: list[Range] = []  # in order; none overlaps another

    @property
    def memory_bytes(self) -> int:
        return RANGE_BYTES * len(self._ranges)

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
        at = bisect_left(self._ranges, first, key=_first)
        for other_first, other_last, owner in self._ranges[max(0, at - 1) : at + 1]:
            if other_first <= last and first <= other_last:
                raise ConsumerAssign(
                    f"the range [{first}, {last}] overlaps [{other_first}, {other_last}] of consumer {owner.name!r}"
                )

    def add(self, consumer: Consumer) -> None:
        ranges = [(first, last, consumer) for first, last in sorted(consumer.key_shared.ranges)]
        if len(ranges) <= FEW:
            for hash_range in ranges:
                insort(self._ranges, hash_range, key=_first)
        else:
            self._ranges += ranges
            self._ranges.sort(key=_first)  # merges two sorted lists

    def remove(self, consumer: Consumer) -> None:
        ranges = consumer.key_shared.ranges
        if len(ranges) <= FEW:
            for first, _ in ranges:
                del self._ranges[bisect_left(self._ranges, first, key=_first)]
        else:
            self._ranges = [(first, last, owner) for first, last, owner in self._ranges if owner is not consumer]

    def slot_map(self) -> SlotMap:
        return list(zip(*self.slot_table(), strict=True))

    def slot_table(self) -> SlotTable:
        bounds, owners, free_from = array("I"), list[Consumer | None](), 0
        for first, last, owner in self._ranges:
            if free_from < first:
                bounds.append(first - 1)
                owners.append(None)
            bounds.append(last)
            owners.append(owner)
            free_from = last + 1
        if self._ranges and free_from < SLOTS:
            bounds.append(SLOTS - 1)
            owners.append(None)
        return SlotTable(bounds, owners)
