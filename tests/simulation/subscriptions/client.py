"""The client of a consumer: it tells of each entry that it is sent."""

from __future__ import annotations

from collections.abc import Callable

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position


class Sink:
    """`received` is called for each entry."""

    def __init__(self, received: Callable[[Consumer, Position, int], None]) -> None:
        self.writable = True
        self.permits = 0  # as the client counts them
        self._received = received

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        return self.deliver_picked(consumer, block, list(range(first, last)), redelivery_counts)

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        for index, count in zip(picked, redelivery_counts or [0] * len(picked), strict=True):
            self._received(consumer, Position(block.ledger_id, block.entry_at(index)), count)
        return len(picked)

    def active_changed(self, consumer: Consumer, active: bool) -> None: ...

    def end_of_topic(self, consumer: Consumer) -> None: ...

    def closed(self, consumer: Consumer) -> None: ...


def sink_of(consumer: Consumer) -> Sink:
    assert isinstance(consumer.sink, Sink)
    return consumer.sink
