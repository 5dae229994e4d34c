"""What became of one message: where it is stored, and for each subscription what is known of its delivery. Pure.

The state of a subscription says what holds now; what happened before is known only as far as the deliveries of late were recorded
(`DeliveryRecord`). What is not known is said to be unknown, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import DELAYING
from messaging.storage.ledger_store import Position


class DeliveryEvent(StrEnum):
    SENT = "sent"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead_lettered"


class DeliveryRecord(NamedTuple):
    """Entries `first` to `last` of a ledger, at the same moment. `whole`: each of them, else some of them. `consumer` is "" unless
    they were sent."""

    at_ms: int
    event: DeliveryEvent
    subscription: str
    consumer: str
    ledger_id: int
    first: int
    last: int
    whole: bool


class TraceState(StrEnum):
    """TraceState an entry stands in a subscription."""

    EXPIRED = "expired"
    DEAD_LETTERED = "dead_lettered"
    CANCELLED = "cancelled"
    ACKNOWLEDGED = "acknowledged"
    HELD = "held_by_consumer"
    SENT = "sent"
    AGAIN = "to_be_sent_again"
    DEAD = "to_be_dead_lettered"
    DELAYED = "delayed"
    DUE = "due"
    WAITING = "not_sent_yet"


class SubscriptionTrace(NamedTuple):
    """What is known of one message in one subscription. `messages_left`: of a batch, None if unknown or all; `redeliveries`: how
    often the client asked for it again, None if unknown (only Shared and Key_Shared count)."""

    subscription: str
    where: TraceState
    consumer: str
    messages_left: int | None
    redeliveries: int | None
    records: list[DeliveryRecord]


def trace_in(
    subscription: Subscription, position: Position, records: Iterable[DeliveryRecord], *, cancelled: bool = False
) -> SubscriptionTrace:
    """`cancelled`: it was a delayed message that was cancelled."""
    known = [record for record in records if record.subscription == subscription.name and covers(record, position)]
    where, consumer = _where(subscription, position, known)
    where = TraceState.CANCELLED if cancelled and where is TraceState.ACKNOWLEDGED else where
    batches, state = subscription.cursor.batches, subscription.state
    bits = batches.bits(position) if batches else None
    holds = (
        subscription.kind in DELAYING and subscription.consumers and where not in (TraceState.ACKNOWLEDGED, TraceState.CANCELLED)
    )
    redeliveries = state.redeliveries.counts.of(position) if holds else None
    left = bits.bit_count() if bits is not None else None
    return SubscriptionTrace(subscription.name, where, consumer, left, redeliveries, known)


def covers(record: DeliveryRecord, position: Position) -> bool:
    return record.ledger_id == position.ledger_id and record.first <= position.entry_id <= record.last


def _where(subscription: Subscription, position: Position, known: list[DeliveryRecord]) -> tuple[TraceState, str]:
    state, (ledger_id, entry_id) = subscription.state, position
    if subscription.cursor.acknowledged(position):
        ends = {record.event for record in known if record.whole}
        if DeliveryEvent.DEAD_LETTERED in ends:
            return TraceState.DEAD_LETTERED, ""
        return (TraceState.EXPIRED if DeliveryEvent.EXPIRED in ends else TraceState.ACKNOWLEDGED), ""
    for consumer in subscription.consumers:
        if entry_id in consumer.held.get(ledger_id, ()):
            return TraceState.HELD, consumer.name
    if entry_id in state.redeliveries.dead.get(ledger_id, ()):
        return TraceState.DEAD, ""
    if entry_id in state.redeliveries.entries.get(ledger_id, ()):
        never_sent = entry_id in state.set_aside.get(ledger_id, ())
        return TraceState.WAITING if never_sent else TraceState.AGAIN, ""
    if state.delayed is not None and entry_id in state.delayed.due.get(ledger_id, ()):
        return TraceState.DUE, ""
    if state.delayed is not None and state.delayed.waits(position):
        return TraceState.DELAYED, ""
    if position < subscription.read_position and subscription.active is not None:
        return TraceState.SENT, subscription.active.name
    return TraceState.WAITING, ""
