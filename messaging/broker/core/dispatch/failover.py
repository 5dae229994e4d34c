"""Failover: one consumer is active and receives everything; another takes over when it leaves. Pure.

Which one is active follows Pulsar 4.0. Only consumers of the lowest priority level count. Of a partition they are sorted by name,
and the number of the partition chooses among them. Of any other topic each has 100 points on a ring of hashes of its name, and the
owner of the first point at or after the hash of the topic is active: topics that share their consumers are spread over them.

The active consumer is known at no cost, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import mmh3

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.single_active import SingleActiveDispatch
from messaging.broker.core.dispatch.state import DispatchState
from messaging.broker.core.subscription_type import SubscriptionType

RING_POINTS = 100  # of a consumer
_RING_MASK = (1 << 31) - 1  # points and topics are hashes of 31 bits
Rank = tuple[int, int, str, int]  # priority level, distance on the ring, name, and who came first


class FailoverDispatch(SingleActiveDispatch):
    __slots__ = ("_order",)
    kind = SubscriptionType.FAILOVER

    def __init__(self, state: DispatchState) -> None:
        super().__init__(state)
        self._order = ActiveOrder(state.topic, state.partition)

    def attach(self, consumer: Consumer) -> None:
        self._order.add(consumer)
        self._choose(consumer)

    def detach(self, consumer: Consumer) -> None:
        self._order.discard(consumer)
        self._choose(None)

    def _choose(self, newcomer: Consumer | None) -> None:
        """Tells the consumer that becomes active, the one that was, and a new one; for the others nothing changed."""
        former = self.active
        self._activate(self._order.first())
        changed = (former, self.active) if self.active is not former else ()
        for consumer in dict.fromkeys((*changed, newcomer)):
            if consumer is not None and consumer in self._state.consumers:
                consumer.sink.active_changed(consumer, consumer is self.active)


class ActiveOrder:
    """The consumers by rank. Those of the lowest priority level and the smallest distance are candidates. For a partition, where
    all distances are 0, its number chooses among them. Else the last one is chosen; there is only one unless names or hashes are
    equal."""

    __slots__ = ("_arrival_ranks", "_by_rank", "_partition", "_ranks", "_topic_hash")

    def __init__(self, topic: str, partition: int) -> None:
        self._partition = partition
        self._topic_hash = _hash(topic)
        self._ranks: list[Rank] = []  # sorted
        self._by_rank: dict[Rank, Consumer] = {}
        self._arrival_ranks: dict[Consumer, Rank] = {}

    def add(self, consumer: Consumer) -> None:
        newest = next(reversed(self._arrival_ranks.values()), None)
        distance = ring_distance(consumer.name, self._topic_hash) if self._partition < 0 else 0
        rank = (consumer.priority, distance, consumer.name, newest[3] + 1 if newest else 0)
        self._arrival_ranks[consumer] = rank
        self._by_rank[rank] = consumer
        self._ranks.insert(bisect_left(self._ranks, rank), rank)

    def discard(self, consumer: Consumer) -> None:
        rank = self._arrival_ranks.pop(consumer, None)
        if rank is not None:
            del self._by_rank[rank], self._ranks[bisect_left(self._ranks, rank)]

    def first(self) -> Consumer | None:
        if not self._ranks:
            return None
        candidates = bisect_right(self._ranks, self._ranks[0][:2], key=lambda rank: rank[:2])
        return self._by_rank[self._ranks[self._partition % candidates if self._partition >= 0 else candidates - 1]]


def ring_distance(name: str, topic_hash: int) -> int:
    """From the hash of a topic onwards to the next point of the consumer called `name`, over the end of the ring if need be."""
    return min((_hash(f"{name}{point}") - topic_hash) & _RING_MASK for point in range(RING_POINTS))


def _hash(text: str) -> int:
    return mmh3.hash(text.encode(), signed=False) & _RING_MASK
