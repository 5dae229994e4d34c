"""Whether a delayed message may still be cancelled or rescheduled, and what that makes of a batch. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from messaging.broker.core.cursors.ack_sets import clipped
from messaging.broker.core.delayed.overrides import (
    BATCH_BITS_BYTES_MAX,
    BATCHES_MAX,
    CANCELLED_MAX,
    RESCHEDULED_MAX,
    Overrides,
)
from messaging.broker.core.diagnosis.trace import TraceState, trace_in
from messaging.broker.core.subscription import Subscription
from messaging.storage.ledger_store import Position

NAMED_MAX = 10  # subscriptions that a refusal names
DELIVERED = {TraceState.HELD, TraceState.SENT, TraceState.AGAIN, TraceState.DEAD}


class Reached(NamedTuple):
    """Subscriptions that had the message."""

    delivered: list[str]
    acknowledged: list[str]

    def __bool__(self) -> bool:
        return bool(self.delivered or self.acknowledged)

    @property
    def sentence(self) -> str:
        parts = [f"was {what} {_listed(names)}" for what, names in self._told if names]
        return " and ".join(parts)

    @property
    def _told(self) -> tuple[tuple[str, list[str]], ...]:
        return ("delivered to", self.delivered), ("acknowledged by", self.acknowledged)


def reached(subscriptions: Iterable[Subscription], position: Position, stored_ms: int) -> Reached:
    """`stored_ms`: when the broker stored it. A subscription that was created later and begins behind it never had it."""
    delivered, acknowledged = [], []
    for subscription in subscriptions:
        where = trace_in(subscription, position, ()).where
        if where in DELIVERED:
            delivered.append(subscription.name)
        elif where is TraceState.ACKNOWLEDGED and subscription.created_ms <= stored_ms:
            acknowledged.append(subscription.name)
    return Reached(delivered, acknowledged)


def _listed(names: list[str]) -> str:
    named = ", ".join(map(repr, names[:NAMED_MAX]))
    what = "subscription" if len(names) == 1 else "subscriptions"
    return f"{what} {named}" + (f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else "")


def why_full(overrides: Overrides | None, *, reschedules: bool, batch: bool) -> str:
    """Why no more can be remembered for the topic; "" where it can."""
    if overrides is None:
        return ""
    counts = {
        "rescheduled messages": (overrides.rescheduled_count, RESCHEDULED_MAX, reschedules),
        "batches with cancelled messages": (len(overrides.batches), BATCHES_MAX, batch),
        "bytes about messages of batches": (overrides.batch_bits_bytes, BATCH_BITS_BYTES_MAX, batch),
        "cancelled messages": (overrides.cancelled_count, CANCELLED_MAX, not reschedules),
    }
    full = [f"{count} {what}" for what, (count, limit, asked) in counts.items() if asked and count >= limit]
    return full[0] if full else ""


def words_without(overrides: Overrides | None, position: Position, batch_index: int, messages: int) -> tuple[int, ...] | None:
    """The ack set of a batch of `messages` once this message of it is cancelled, too; empty: nothing of it is left. None: it was
    cancelled before."""
    open_bits = None if overrides is None else overrides.batches.bits(position)
    before = (1 << messages) - 1 if open_bits is None else open_bits
    left = before & ~(1 << batch_index)
    if left == before:
        return None
    count = (messages + 63) // 64
    return clipped([left >> 64 * at & (1 << 64) - 1 for at in range(count)], messages) if left else ()
