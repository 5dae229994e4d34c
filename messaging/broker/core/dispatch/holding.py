"""All consumers receive, and hold what they were sent until it is acknowledged: the common part of Shared and Key_Shared. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch import recovery
from messaging.broker.core.dispatch.state import SEARCHED_MAX, DispatchState
from messaging.storage.ledger_store import Position


def ready(consumer: Consumer) -> bool:
    """Whether it can be sent a message."""
    return consumer.permits > 0 and not consumer.blocked and consumer.sink.writable


class HoldingDispatch:
    __slots__ = ("_state", "_unreleased")
    active = None

    def __init__(self, state: DispatchState) -> None:
        self._state = state
        self._unreleased: dict[int, BitMap] = {}  # ledger -> entries acknowledged by others than those who, perhaps, hold them

    @property
    def unsettled(self) -> bool:
        return False

    def _give_back(self, ledger_id: int, entries: BitMap) -> None:
        """These are to be sent again."""
        self._state.redeliveries.add(ledger_id, entries)

    def _release_all(self, consumer: Consumer) -> None:
        """It leaves. Whoever is sent its messages next gets them from their first chunk on."""
        if self._state.chunks:
            self._state.chunks.left(consumer)
        for ledger_id, entries in consumer.release_all().items():
            self._give_back(ledger_id, entries)

    # --- what comes back

    def acknowledged(self, consumer: Consumer | None, ledger_id: int, entries: BitMap) -> None:
        left = entries
        if consumer is not None:
            left = left - consumer.release(ledger_id, left)
            consumer.wake()
        if left:
            unreleased = self._unreleased.get(ledger_id)
            self._unreleased[ledger_id] = left if unreleased is None else unreleased | left
            if len(self._state.consumers) <= SEARCHED_MAX:  # where there are more: once per dispatch
                self._release_acknowledged()
        self._state.redeliveries.acknowledged(ledger_id, entries)

    def _release_acknowledged(self) -> None:
        """Consumers let go of what others acknowledged: one walk over them, however many acknowledged."""
        unreleased = self._unreleased
        for consumer in self._state.consumers:
            for ledger_id in unreleased.keys() & consumer.held.keys():
                consumer.release(ledger_id, unreleased[ledger_id])
        unreleased.clear()

    def redeliver(self, consumer: Consumer, positions: Iterable[Position] | None) -> None:
        """Only what it holds is sent again, with a higher count unless it is a part of a message that did not come whole."""
        unacked_before, chunks = consumer.unacked_messages, self._state.chunks
        parts: dict[int, BitMap] = {}
        if chunks and positions is not None:
            positions = chunks.with_others(positions)
            parts = chunks.forget(consumer, positions)
        if positions is None:
            if chunks:
                parts = chunks.forget_consumer(consumer)
            returned = consumer.release_all()
        else:
            wanted: dict[int, BitMap] = {}
            for position in positions:
                if 0 <= position.entry_id < 1 << 32:  # else no entry of ours
                    wanted.setdefault(position.ledger_id, BitMap()).add(position.entry_id)
            returned = {ledger_id: consumer.release(ledger_id, entries) for ledger_id, entries in wanted.items()}
        consumer.messages_redelivered += unacked_before - consumer.unacked_messages
        redeliveries = self._state.redeliveries
        for ledger_id, entries in returned.items():
            redeliveries.count(ledger_id, entries - parts[ledger_id] if ledger_id in parts else entries)
            self._give_back(ledger_id, entries)

    def reset(self) -> None:
        self._unreleased.clear()
        for consumer in self._state.consumers:
            consumer.release_all()

    def recover(self) -> None:
        state = self._state
        recovery.take_back(state, holds=True)
        recovery.recount(state)
        recovery.release_acknowledged(state)
        self._unreleased.clear()
        if state.chunks:
            state.chunks.resume_all()
        recovery.let_go(state)
        for ledger_id, entries in recovery.forgotten(state).items():
            self._give_back(ledger_id, entries)
        recovery.wake_all(state.consumers)

    # --- asking

    def unacked_of(self, consumer: Consumer) -> int:
        """Messages."""
        return consumer.unacked_messages

    def acknowledged_messages(self, consumer: Consumer) -> int:
        return consumer.messages_out - consumer.unacked_messages - consumer.messages_redelivered
