"""Which consumer of a subscription is next: in rotation where it is Shared, by succession where one is active. Pure.

Neither looks at the consumers that are not concerned: a subscription with ten thousand of them costs what one with two does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from heapq import heappop, heappush

from messaging.broker.core.consumer import Consumer

Rank = tuple[int, str, int]  # priority level, name where that counts, and who came first


class RoundRobin:
    """Consumers that may be able to take a message, the lowest priority level first, and of those in turn. Who is found unable
    leaves it, and comes back by `add` when that may have changed."""

    __slots__ = ("_levels", "_rings")

    def __init__(self) -> None:
        self._rings: dict[int, OrderedDict[Consumer, None]] = {}
        self._levels: list[int] = []  # a heap of the keys of `_rings`

    def add(self, consumer: Consumer) -> None:
        """Nothing happens to one that is there already."""
        ring = self._rings.get(consumer.priority)
        if ring is None:
            ring = self._rings[consumer.priority] = OrderedDict()
            heappush(self._levels, consumer.priority)
        ring.setdefault(consumer)

    def discard(self, consumer: Consumer) -> None:
        ring = self._rings.get(consumer.priority)
        if ring is not None:
            ring.pop(consumer, None)

    def first(self, able: Callable[[Consumer], bool]) -> Consumer | None:
        """Whose turn it is, without taking it."""
        while self._levels:
            ring = self._rings[self._levels[0]]
            while ring:
                one = next(iter(ring))
                if able(one):
                    return one
                del ring[one]
            del self._rings[heappop(self._levels)]
        return None

    def take(self, able: Callable[[Consumer], bool]) -> Consumer | None:
        """Whose turn it is; the next one is another's, as far as there are any."""
        one = self.first(able)
        if one is not None:
            self._rings[one.priority].move_to_end(one)
        return one


class ActiveOrder:
    """Failover: the lowest priority level first; of those the oldest, or for a partition by name, the partition's number picks."""

    __slots__ = ("_by_rank", "_came", "_partition", "_ranks")

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._ranks: list[Rank] = []  # sorted
        self._by_rank: dict[Rank, Consumer] = {}
        self._came: dict[Consumer, Rank] = {}

    def add(self, consumer: Consumer) -> None:
        newest = next(reversed(self._came.values()), None)
        rank = (consumer.priority, consumer.name if self._partition >= 0 else "", newest[2] + 1 if newest else 0)
        self._came[consumer] = rank
        self._by_rank[rank] = consumer
        self._ranks.insert(bisect_left(self._ranks, rank), rank)

    def discard(self, consumer: Consumer) -> None:
        rank = self._came.pop(consumer, None)
        if rank is not None:
            del self._by_rank[rank], self._ranks[bisect_left(self._ranks, rank)]

    def chosen(self) -> Consumer | None:
        if not self._ranks:
            return None
        candidates = bisect_right(self._ranks, self._ranks[0][0], key=lambda rank: rank[0])
        return self._by_rank[self._ranks[max(self._partition, 0) % candidates]]
