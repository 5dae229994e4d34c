"""Failover: one consumer is active and receives everything; another takes over when it leaves. Pure.

The active consumer is known at no cost, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.single_active import SingleActiveDispatch
from messaging.broker.core.dispatch.state import DispatchState
from messaging.broker.core.subscription_type import SubscriptionType

Rank = tuple[int, str, int]  # priority level, name where that counts, and who came first


class FailoverDispatch(SingleActiveDispatch):
    __slots__ = ("_order",)
    kind = SubscriptionType.FAILOVER

    def __init__(self, state: DispatchState) -> None:
        super().__init__(state)
        self._order = ActiveOrder(state.partition)

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
        for one in dict.fromkeys((*changed, newcomer)):
            if one is not None and one in self._state.consumers:
                one.sink.active_changed(one, one is self.active)


class ActiveOrder:
    """The lowest priority level first; among those the oldest, or for a partition by name, the partition's number choosing."""

    __slots__ = ("_arrival_ranks", "_by_rank", "_partition", "_ranks")

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._ranks: list[Rank] = []  # sorted
        self._by_rank: dict[Rank, Consumer] = {}
        self._arrival_ranks: dict[Consumer, Rank] = {}

    def add(self, consumer: Consumer) -> None:
        newest = next(reversed(self._arrival_ranks.values()), None)
        rank = (consumer.priority, consumer.name if self._partition >= 0 else "", newest[2] + 1 if newest else 0)
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
        candidates = bisect_right(self._ranks, self._ranks[0][0], key=lambda rank: rank[0])
        return self._by_rank[self._ranks[max(self._partition, 0) % candidates]]
