"""How a subscription fares, as the console, the stats and alert rules show it: one verdict for all of them. Pure.

What `explain` finds is true of a moment, and every healthy subscription waits for something at times: for an acknowledgement, for
permits, for a read from disk. A moment counts here only after nothing has moved for `STILL_MS`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.diagnosis.explain import (
    DeliveryState,
    Finding,
    Reason,
    explain,
    receivers,
    waiting_for_consumers,
    why_not_sent,
)
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.non_persistent import NonPersistentSubscription
from messaging.broker.core.subscription import Subscription

STILL_MS = 10_000
SAID_AT_ONCE = frozenset(
    {Reason.CLOSING, Reason.FENCED, Reason.NOTHING, Reason.NO_CONSUMER, Reason.DEAD_LETTERS, Reason.RATE_LIMIT}
)


class DeliveryHealth(StrEnum):
    """The worst last: the health of a partitioned topic's subscription is the worst of its partitions."""

    GOOD = "good"
    IDLE = "idle"  # nobody is connected, and nothing waits for them
    BLOCKED = "blocked"  # its consumers hold what they asked for, or as much as they may, and take no more
    ABANDONED = "abandoned"  # nobody is connected, and there is a backlog


class Verdict(NamedTuple):
    """`finding`: what holds delivery back for longer than a moment and what to do about it, or that messages are delivered."""

    health: DeliveryHealth
    finding: Finding


def judge_delivery(subscription: Subscription, state: DeliveryState) -> Verdict:
    unmoved_ms = still_ms(subscription, state.now_ms)
    if stuck_with_keys(subscription, state.now_ms):
        waiting = subscription.state.redeliveries.waiting_entries
        return Verdict(DeliveryHealth.BLOCKED, waiting_for_consumers(subscription, waiting)[0])
    finding = explain(subscription, state)[0]
    dropping = isinstance(subscription, NonPersistentSubscription)  # what is in the way for a moment costs messages
    moving = bool(subscription.consumers) and unmoved_ms < STILL_MS
    if finding.reason not in SAID_AT_ONCE and moving and not dropping:
        finding = Finding(Reason.DELIVERING, "Messages are being delivered.")
    return Verdict(_health(subscription, unmoved_ms), finding)


def health_without_consumers(backlog_entries: int) -> DeliveryHealth:
    return DeliveryHealth.ABANDONED if backlog_entries else DeliveryHealth.IDLE


def worse(health: str, other: str) -> str:
    """Of two values of `DeliveryHealth`."""
    order = list(DeliveryHealth)
    return max(health, other, key=lambda value: order.index(DeliveryHealth(value)))


def _health(subscription: Subscription, unmoved_ms: int) -> DeliveryHealth:
    if not subscription.consumers:
        return health_without_consumers(subscription.backlog_entries)
    if unmoved_ms < STILL_MS or not _at_stake(subscription):
        return DeliveryHealth.GOOD
    stopped = subscription.unacked.blocked or all(why_not_sent(consumer, None) is not None for consumer in receivers(subscription))
    return DeliveryHealth.BLOCKED if stopped else DeliveryHealth.GOOD


def _at_stake(subscription: Subscription) -> bool:
    """Whether there are messages that its consumers hold, or could be sent. What nobody takes of a non-persistent topic is dropped,
    so something always is."""
    return isinstance(subscription, NonPersistentSubscription) or subscription.backlog_entries > subscription.delayed_entries


def stuck_with_keys(subscription: Subscription, now_ms: int) -> list[Consumer]:
    """Key_Shared: the consumers that take no more, while entries wait that nobody else is sent; others may go on."""
    if not isinstance(subscription.strategy, KeySharedDispatch) or not subscription.state.redeliveries.waiting_entries:
        return []
    still = [consumer for consumer in receivers(subscription) if now_ms - moved_ms(consumer) >= STILL_MS]
    return [consumer for consumer in still if why_not_sent(consumer, None) is not None]


def blocked_for_ms(subscription: Subscription, now_ms: int) -> int:
    """Of one whose health is `BLOCKED`."""
    stuck = stuck_with_keys(subscription, now_ms)
    return now_ms - min(map(moved_ms, stuck)) if stuck else still_ms(subscription, now_ms)


def moved_ms(consumer: Consumer) -> int:
    """When it got, acknowledged or asked for a message last, or connected."""
    return max(consumer.connected_ms, consumer.last_flow_ms, consumer.last_consumed_ms, consumer.last_acked_ms)


def still_ms(subscription: Subscription, now_ms: int) -> int:
    """For how long no consumer that is sent messages has got, acknowledged or asked for one; 0 without a consumer."""
    last_ms = max(map(moved_ms, receivers(subscription)), default=now_ms)
    return max(0, now_ms - last_ms)
