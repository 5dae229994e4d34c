"""A subscription of a non-persistent topic, without a loop: what is published is shared out at once."""

from __future__ import annotations

from array import array
from itertools import accumulate

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.non_persistent import NonPersistentSubscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.clients.raw_client import batch_frame, send_frame
from tests.support.worlds.subscription_world import Sink


class DroppingWorld:
    """Entries are numbered from 0 over the life of the subscription."""

    def __init__(self, topic: str = "non-persistent://t/n/a", partition: int = -1) -> None:
        self.subscription = NonPersistentSubscription("s", topic=topic, partition=partition)
        self.sinks: dict[Consumer, Sink] = {}
        self.received: dict[Consumer, list[int]] = {}
        self.published = 0  # entries
        self._ids = 0

    def attach(
        self, kind: SubscriptionType = SubscriptionType.SHARED, *, permits: int = 0, name: str | None = None, priority: int = 0
    ) -> Consumer:
        self._ids += 1
        sink = Sink()
        consumer = Consumer(self._ids, f"c{self._ids}" if name is None else name, sink, priority=priority)
        self.sinks[consumer], self.received[consumer] = sink, []
        self.subscription.admit(consumer, kind)
        self.subscription.attach(consumer, kind)
        self.flow(consumer, permits)
        return consumer

    def detach(self, consumer: Consumer) -> None:
        self.subscription.detach(consumer)

    def flow(self, consumer: Consumer, permits: int) -> None:
        consumer.flow(permits, 0)

    def read(self, consumer: Consumer, writable: bool) -> None:
        """Whether its peer reads what it is sent."""
        self.sinks[consumer].writable = writable
        if writable:
            consumer.wake()

    def publish(self, *sizes: int, keys: list[str] | None = None) -> list[Delivery]:
        """One block of entries with `sizes` messages each, and their keys."""
        keys = keys or [""] * len(sizes)
        frames = [
            batch_frame(index, [b"x"] * size, key=key) if size > 1 else send_frame(index, b"x", key=key)
            for index, (size, key) in enumerate(zip(sizes, keys, strict=True))
        ]
        end_offsets = array("I", accumulate(map(len, frames)))
        counts = None if set(sizes) == {1} else list(sizes)
        block = EntryBlock(0, 0, b"".join(frames), end_offsets, 1, sum(sizes), counts=counts)
        begin, self.published = self.published, self.published + len(sizes)
        source = self.subscription.state.reading
        deliveries = self.subscription.assign(source, block, Position(0, 0), len(sizes) - 1, 0, 1).deliveries
        for delivery in deliveries:
            assert delivery.redelivery_counts is None
            indexes = range(delivery.first, delivery.last) if delivery.picked is None else delivery.picked
            self.received[delivery.consumer] += [begin + index for index in indexes]
        return deliveries
