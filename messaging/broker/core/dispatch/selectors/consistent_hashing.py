"""Auto-split consistent hashing: each consumer has many points on a ring of slots; a slot belongs to the next point. Pure.

The points are those of Pulsar 4: hashes of the consumer's name, the lowest number that no other consumer of this name has, and the
number of the point. Of consumers that share a point the first one has it; when it leaves, the next.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from heapq import heappop, heappush

from mmh3 import hash as mmh3_hash

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.selectors.selector import SLOTS, SlotMap, SlotTable
from messaging.protocol.hot import HASH_MAX

POINT_BYTES = 120  # memory of a point of a consumer


class Namesakes:
    """The numbers of the consumers of one name: the lowest free ones are given out."""

    __slots__ = ("_free", "count", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[Consumer, int] = {}
        self._free: list[int] = []  # a heap of those below `count`
        self.count = 0  # of numbers that were given out

    def add(self, consumer: Consumer) -> int:
        number = heappop(self._free) if self._free else self.count
        self.count = max(self.count, number + 1)
        self.numbers[consumer] = number
        return number

    def remove(self, consumer: Consumer) -> None:
        heappush(self._free, self.numbers.pop(consumer))


class ConsistentHashingSelector:
    """What changes is only noted, and the ring follows when it is asked for: many consumers come and leave at once."""

    slots = SLOTS - 1
    first_slot = 1

    def __init__(self, points: int) -> None:
        self._points_each = points
        self._points: dict[Consumer, array[int]] = {}  # of each consumer, every point once
        self._sharing: dict[int, list[Consumer]] = {}  # the consumers of a point, the first one first
        self._namesakes: dict[str, Namesakes] = {}
        # The ring in order, with the first consumer of each point; without what `_changed` names.
        self._bounds = array("I")
        self._firsts: list[Consumer | None] = []
        self._changed: set[int] = set()  # points that have another first consumer, or came, or went

    @property
    def memory_bytes(self) -> int:
        return POINT_BYTES * self._points_each * len(self._points)

    def check(self, consumer: Consumer) -> None:
        """Nobody is refused."""

    def add(self, consumer: Consumer) -> None:
        number = self._namesakes.setdefault(consumer.name, Namesakes()).add(consumer)
        points = self._points[consumer] = self._points_of(consumer.name, number)
        for point in points:
            sharing = self._sharing.get(point)
            if sharing is None:
                self._sharing[point] = [consumer]
                self._changed.add(point)
            else:
                sharing.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        namesakes = self._namesakes[consumer.name]
        namesakes.remove(consumer)
        if not namesakes.numbers:
            del self._namesakes[consumer.name]
        for point in self._points.pop(consumer):
            sharing = self._sharing[point]
            if sharing[0] is consumer:
                self._changed.add(point)
            sharing.remove(consumer)
            if not sharing:
                del self._sharing[point]

    def _points_of(self, name: str, number: int) -> array[int]:
        texts = (f"{name}\0{number}\0{index}" for index in range(self._points_each))
        hashes = {(mmh3_hash(text.encode(), 0, False) & HASH_MAX) % self.slots + self.first_slot for text in texts}
        return array("I", hashes)

    def slot_map(self) -> SlotMap:
        return list(zip(*self.slot_table(), strict=True))

    def slot_table(self) -> SlotTable:
        self._follow()
        table = SlotTable(self._bounds[:], self._firsts[:])
        if table.owners and table.bounds[-1] < self.slots:  # the ring is closed
            table.bounds.append(self.slots)
            table.owners.append(table.owners[0])
        return table

    def _follow(self) -> None:
        """What lies between points that changed is copied as it is: the cost follows what changed."""
        if not self._changed:
            return
        before, owners = self._bounds, self._firsts
        bounds, firsts, done = array("I"), list[Consumer | None](), 0
        for point in sorted(self._changed):
            at = bisect_left(before, point, done)
            bounds += before[done:at]
            firsts += owners[done:at]
            done = at + (at < len(before) and before[at] == point)
            sharing = self._sharing.get(point)
            if sharing is not None:
                bounds.append(point)
                firsts.append(sharing[0])
        self._bounds, self._firsts = bounds + before[done:], firsts + owners[done:]
        self._changed.clear()
