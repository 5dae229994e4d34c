"""Auto-split consistent hashing: each consumer has many points on a ring of slots; a slot belongs to the next point. Pure.

The points are those of Pulsar 4: hashes of the consumer's name, the lowest number that no other consumer of this name has, and the
number of the point. Of consumers that share a point the first one has it; when it leaves, the next.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from mmh3 import hash as mmh3_hash

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.selectors.selector import SLOTS, SlotMap, SlotTable
from messaging.protocol.hot import HASH_MAX


class ConsistentHashingSelector:
    slots = SLOTS - 1
    first_slot = 1

    def __init__(self, points: int) -> None:
        self._points_each = points
        self._points: dict[int, list[Consumer]] = {}
        # The same in order, with the first consumer of each: there are many, and few of them change when one comes or leaves.
        self._bounds = array("I")
        self._firsts: list[Consumer | None] = []
        self._numbers: dict[str, dict[int, Consumer]] = {}  # of the consumers of one name

    def check(self, consumer: Consumer) -> None:
        """Nobody is refused."""

    def add(self, consumer: Consumer) -> None:
        same = self._numbers.setdefault(consumer.name, {})
        number = next(number for number in range(len(same) + 1) if number not in same)
        same[number] = consumer
        for point in self._points_of(consumer.name, number):
            sharing = self._points.get(point)
            if sharing is None:
                self._points[point] = [consumer]
                at = bisect_left(self._bounds, point)
                self._bounds.insert(at, point)
                self._firsts.insert(at, consumer)
            elif consumer not in sharing:
                sharing.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        same = self._numbers[consumer.name]
        number = next(number for number, one in same.items() if one is consumer)
        del same[number]
        if not same:
            del self._numbers[consumer.name]
        for point in set(self._points_of(consumer.name, number)):
            sharing = self._points[point]
            sharing.remove(consumer)
            at = bisect_left(self._bounds, point)
            if sharing:
                self._firsts[at] = sharing[0]
            else:
                del self._points[point], self._bounds[at], self._firsts[at]

    def _points_of(self, name: str, number: int) -> list[int]:
        texts = (f"{name}\0{number}\0{index}" for index in range(self._points_each))
        return [(mmh3_hash(text.encode(), 0, False) & HASH_MAX) % self.slots + self.first_slot for text in texts]

    def slot_map(self) -> SlotMap:
        return list(zip(*self.slot_table(), strict=True))

    def slot_table(self) -> SlotTable:
        table = SlotTable(self._bounds[:], self._firsts[:])
        if table.owners and table.bounds[-1] < self.slots:  # the ring is closed
            table.bounds.append(self.slots)
            table.owners.append(table.owners[0])
        return table
