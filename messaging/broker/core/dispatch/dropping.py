"""Shared and Key_Shared where nothing is stored: what nobody can take now is dropped, and nobody holds what it was sent. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.dispatch.holding import ready
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.dispatch.shared import SharedDispatch
from messaging.broker.core.dispatch.state import DispatchState
from messaging.broker.core.entries import EntryBlock
from messaging.protocol import hot


class DroppingShared(SharedDispatch):
    """Consumers take turns, one entry each."""

    __slots__ = ()

    def share(self, block: EntryBlock, ranges: Sequence[tuple[int, int]]) -> tuple[list[Delivery], int | None]:
        begin, counts = block.first_entry, None if block.uniform else block.counts
        picked: dict[Consumer, list[int]] = {}
        for first, last in ranges:
            index, stop = first - begin, last + 1 - begin
            while index < stop:
                turn = self._order.able(ready)
                if not turn:
                    break
                # Batches one by one, because each takes as many permits as it has messages.
                rounds = 1 if counts is not None else min(consumer.permits for consumer in turn)
                dealt = min(stop - index, rounds * len(turn))
                for offset, consumer in enumerate(turn[:dealt]):
                    given = range(index + offset, index + dealt, len(turn))
                    consumer.permits -= len(given) if counts is None else counts[given[0]]
                    picked.setdefault(consumer, []).extend(given)
                self._order.pass_turn(turn[: dealt % len(turn)])
                index += dealt
        return [_delivery(self._state, consumer, block, indexes, counts) for consumer, indexes in picked.items()], None


class DroppingKeyShared(KeySharedDispatch):
    """Each key belongs to one consumer. What that one cannot take is dropped, so that nothing waits while a key changes hands."""

    __slots__ = ()

    def share(self, block: EntryBlock, ranges: Sequence[tuple[int, int]]) -> tuple[list[Delivery], int | None]:
        self.settle()
        begin, counts = block.first_entry, None if block.uniform else block.counts
        rooms = self._rooms()
        picked: list[list[int]] = [[] for _ in rooms]
        hashes, selector = block.key_hashes, self.selector
        slots, first_slot, bounds, owners = selector.slots, selector.first_slot, self._bounds, self._owners
        dropped: list[int] = []
        for first, last in ranges if len(bounds) else ():
            hot.route(
                hashes,
                first - begin,
                last + 1 - begin,
                slots,
                first_slot,
                bounds,
                owners,
                rooms,
                (),
                counts,
                picked,
                dropped,
                len(hashes),
            )
        deliveries = []
        for consumer, indexes in zip(self._numbers, picked[1:], strict=True):
            if indexes:
                consumer.permits -= len(indexes) if counts is None else sum(counts[index] for index in indexes)
                deliveries.append(_delivery(self._state, consumer, block, indexes, counts))
        return deliveries, None


def _delivery(state: DispatchState, consumer: Consumer, block: EntryBlock, picked: list[int], counts: list[int] | None) -> Delivery:
    """Of entries that took their permits."""
    first, last = picked[0], picked[-1] + 1
    messages = len(picked) if counts is None else sum(counts[index] for index in picked)
    consumer.messages_out += messages
    consumer.entries_out += len(picked)
    delivery = Delivery(consumer, block, first, last, None, messages, picked if len(picked) != last - first else None)
    state.unsent.append(delivery)
    return delivery
