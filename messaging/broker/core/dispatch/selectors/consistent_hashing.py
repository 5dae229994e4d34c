"""Auto-split consistent hashing: each consumer has many points on a ring of slots; a slot belongs to the next point. Pure.

The points are those of Pulsar 4: hashes of the consumer's name, the lowest number that no other consumer of this name has, and the
number of the point. Of consumers that share a point the first one has it; when it leaves, the next.
"""

from __future__ import annotations

from mmh3 import hash as mmh3_hash

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.selectors.selector import SLOTS, SlotMap
from messaging.protocol.hot import HASH_MAX


class ConsistentHashingSelector:
    slots = SLOTS - 1
    first_slot = 1

    def __init__(self, points: int) -> None:
        self._points_each = points
        self._points: dict[int, list[Consumer]] = {}
        self._numbers: dict[str, dict[int, Consumer]] = {}  # of the consumers of one name

    def check(self, consumer: Consumer) -> None:
        """Nobody is refused."""

    def add(self, consumer: Consumer) -> None:
        same = self._numbers.setdefault(consumer.name, {})
        number = next(number for number in range(len(same) + 1) if number not in same)
        same[number] = consumer
        for point in self._points_of(consumer.name, number):
            sharing = self._points.setdefault(point, [])
            if consumer not in sharing:
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
            if not sharing:
                del self._points[point]

    def _points_of(self, name: str, number: int) -> list[int]:
        texts = (f"{name}\0{number}\0{index}" for index in range(self._points_each))
        return [(mmh3_hash(text.encode(), 0, False) & HASH_MAX) % self.slots + self.first_slot for text in texts]

    def slot_map(self) -> SlotMap:
        found: SlotMap = [(point, self._points[point][0]) for point in sorted(self._points)]
        if found and found[-1][0] < self.slots:
            found.append((self.slots, found[0][1]))  # the ring is closed
        return found
