"""The order in which consumers of a Shared subscription take their turns. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from messaging.broker.core.consumer import Consumer


class RoundRobin:
    """Consumers that may be able to take a message, the lowest priority level first, and of those in turn. A consumer that is found
    unable leaves, and comes back by `add` when that may have changed: nobody else is looked at, however many there are."""

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
                consumer = next(iter(ring))
                if able(consumer):
                    return consumer
                del ring[consumer]
            del self._rings[heappop(self._levels)]
        return None

    def able(self, able: Callable[[Consumer], bool]) -> list[Consumer]:
        """All whose turn it is, in order: those of one priority level, without taking it."""
        if self.first(able) is None:
            return []
        ring = self._rings[self._levels[0]]
        for unable in [consumer for consumer in ring if not able(consumer)]:
            del ring[unable]
        return list(ring)

    def pass_turn(self, consumers: Iterable[Consumer]) -> None:
        """They had their turns, in this order."""
        for consumer in consumers:
            self._rings[consumer.priority].move_to_end(consumer)

    def take(self, able: Callable[[Consumer], bool]) -> Consumer | None:
        """Whose turn it is; the next one is another's, as far as there are any."""
        consumer = self.first(able)
        if consumer is not None:
            self._rings[consumer.priority].move_to_end(consumer)
        return consumer
