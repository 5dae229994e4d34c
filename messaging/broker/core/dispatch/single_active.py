"""One consumer at a time receives everything, in order: the common part of Exclusive and Failover. Pure.

Reading starts again after the mark-delete position whenever another consumer becomes active, so there is no record of what the
active one holds: it is everything between the mark-delete and the read position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch import recovery
from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.dispatch.state import DispatchState
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position


class SingleActiveDispatch:
    __slots__ = ("_state", "active")

    memory_bytes = 0
    unsettled = False

    def __init__(self, state: DispatchState) -> None:
        self._state = state
        self.active: Consumer | None = None

    def admit(self, consumer: Consumer) -> None:
        """Whoever is admitted to the subscription."""

    def _choose(self, newcomer: Consumer | None) -> None:
        """Activates whose turn it is."""
        self._activate(next(iter(self._state.consumers), None))

    def _activate(self, consumer: Consumer | None) -> None:
        if consumer is not self.active:
            self._state.read_compacted(consumer is not None and consumer.read_compacted)
            self._rewind()
            self.active = consumer

    def _rewind(self) -> None:
        """Clients of a single reader are told no redelivery counts."""
        self._state.rewind()
        self._state.redeliveries.counts.clear()

    def can_dispatch(self) -> bool:
        active = self.active
        return active is not None and active.permits > 0 and active.sink.writable

    def share(self, block: EntryBlock, ranges: Sequence[tuple[int, int]]) -> tuple[list[Delivery], int | None]:
        active, state, begin = self.active, self._state, block.first_entry
        deliveries: list[Delivery] = []
        for start, stop in ranges:
            if active is None or active.permits <= 0 or not active.sink.writable:
                return deliveries, start
            delivery = state.deliver(active, block, start - begin, stop - begin + 1, active.permits, hold=False)
            deliveries.append(delivery)
            if begin + delivery.last <= stop:
                return deliveries, begin + delivery.last
        return deliveries, None

    def acknowledged(self, consumer: Consumer | None, ledger_id: int, entries: BitMap) -> None:
        """The cursor knows: nothing is held, and nothing waits to be sent again."""

    def redeliver(self, consumer: Consumer, positions: Iterable[Position] | None) -> None:
        """Everything that is not acknowledged: clients rely on the order."""
        if consumer is self.active:
            count = self.unacked_of(consumer)
            consumer.messages_redelivered += consumer.messages_of(count)
            consumer.entries_redelivered += count
            self._rewind()

    def reset(self) -> None:
        """Nothing is held."""

    def recover(self) -> None:
        """Reading continues with what was not sent, unless it went back further since."""
        self._choose(None)
        reading = self._state.reading
        unsent = recovery.take_back(self._state, holds=False)
        reading.position = min(reading.position, *map(recovery.first_of, unsent)) if unsent else reading.position

    def unacked_of(self, consumer: Consumer) -> int:
        """Entries."""
        if consumer is not self.active:
            return 0
        ledger_list, cursor = self._state.ledger_list, self._state.cursor
        sent = ledger_list.count_up_to(ledger_list.before(self._state.reading.position)) - ledger_list.count_up_to(
            cursor.mark_delete
        )
        return max(0, sent - cursor.individual_ack_count)

    def acknowledged_messages(self, consumer: Consumer) -> int:
        """An estimate where entries hold different numbers of messages."""
        if consumer is not self.active:
            return 0
        return consumer.messages_of(consumer.entries_out - consumer.entries_redelivered - self.unacked_of(consumer))
