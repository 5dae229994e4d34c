"""Shared: consumers take turns, and each holds what it was sent until it acknowledges it. What a consumer gives back is sent to the
next one, before anything new. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.dispatch.holding import HoldingDispatch, ready
from messaging.broker.core.dispatch.round_robin import RoundRobin
from messaging.broker.core.dispatch.state import DispatchState
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position

SHARE_MESSAGES_MAX = 20  # a turn of one consumer while others could take messages too
SCATTERED_RANGES = 4  # of one block: more are delivered together


class SharedDispatch(HoldingDispatch):
    __slots__ = ("_order",)
    kind = SubscriptionType.SHARED
    memory_bytes = 0

    def __init__(self, state: DispatchState) -> None:
        super().__init__(state)
        self._order = RoundRobin()

    def admit(self, consumer: Consumer) -> None:
        """Everybody."""

    def attach(self, consumer: Consumer) -> None:
        consumer.on_ready = self._order.add
        consumer.wake()

    def detach(self, consumer: Consumer) -> None:
        consumer.on_ready = None
        self._order.discard(consumer)
        self._release_all(consumer)
        if not self._state.consumers:
            self._unreleased.clear()
            self._state.redeliveries.forget_counts()

    # --- sending

    def can_dispatch(self) -> bool:
        if self._unreleased:
            self._release_acknowledged()
        return not self._state.unacked.blocked and self._order.first(ready) is not None

    def share(self, block: EntryBlock, ranges: Sequence[tuple[int, int]]) -> tuple[list[Delivery], int | None]:
        if block.chunked:
            return self._share_chunks(block, ranges)
        if (len(ranges) > SCATTERED_RANGES and block.uniform) or block.gathered:
            return self._share_scattered(block, ranges)
        state, begin = self._state, block.first_entry
        unacked = state.unacked
        deliveries: list[Delivery] = []
        for start, stop in ranges:
            while start <= stop:
                consumer = None if unacked.blocked else self._order.take(ready)
                if consumer is None:
                    return deliveries, start
                messages_max = min(consumer.room, unacked.room)
                if len(state.consumers) > 1:
                    messages_max = min(messages_max, SHARE_MESSAGES_MAX)
                delivery = state.deliver(consumer, block, start - begin, stop - begin + 1, messages_max, hold=True)
                deliveries.append(delivery)
                start = begin + delivery.last
        return deliveries, None

    def _share_scattered(self, block: EntryBlock, ranges: Sequence[tuple[int, int]]) -> tuple[list[Delivery], int | None]:
        """As `share`, for many short ranges: what a consumer gets of them in its turn is one delivery."""
        state, indexes = self._state, block.indexes_in(ranges)
        deliveries: list[Delivery] = []
        while indexes:
            consumer = None if state.unacked.blocked else self._order.take(ready)
            if consumer is None:
                return deliveries, block.entry_at(indexes[0])
            messages_max = max(1, min(consumer.room, state.unacked.room))
            if len(state.consumers) > 1:
                messages_max = min(messages_max, SHARE_MESSAGES_MAX)
            deliveries.append(state.deliver_picked(consumer, block, indexes[:messages_max], None)[0])
            del indexes[:messages_max]
        return deliveries, None

    def _share_chunks(self, block: EntryBlock, ranges: Sequence[tuple[int, int]]) -> tuple[list[Delivery], int | None]:
        """As `share`, for a block that holds chunks: all chunks of a message follow the first one, whatever permits their consumer
        has left, because the message is one, and of no use in parts. While that one does not read they wait for it."""
        state, begin = self._state, block.first_entry
        deliveries: list[Delivery] = []
        for start, stop in ranges:
            for entry in range(start, stop + 1):
                chunk, chunks = block.chunk_at(entry - begin), state.chunks
                consumer = chunks.holder(chunk) if chunk is not None and chunks else None
                if consumer is None:
                    consumer = None if state.unacked.blocked else self._order.take(ready)
                elif chunk is not None and chunks and (chunks.waits(consumer) or not consumer.sink.writable):
                    chunks.wait(Position(block.ledger_id, entry), chunk)
                    consumer.on_ready = self._resume
                    continue
                if consumer is None:
                    return deliveries, entry
                deliveries.append(state.deliver(consumer, block, entry - begin, entry - begin + 1, 1, hold=True))
        return deliveries, None

    def _resume(self, consumer: Consumer) -> None:
        """One for which chunks wait may be able to take them."""
        self._order.add(consumer)
        if consumer.sink.writable:
            consumer.on_ready = self._order.add
            if self._state.chunks:
                self._state.chunks.resume(consumer)
