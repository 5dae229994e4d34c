"""What the stats of a topic say of Key_Shared subscriptions: who owns which hashes, and which of them change hands."""

from __future__ import annotations

from typing import Any

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.dispatch.selectors.selector import ranges_by_consumer
from messaging.broker.core.subscription import Subscription

Figures = dict[str, Any]


def key_shared_figures(subscription: Subscription) -> tuple[Figures, dict[Consumer, Figures]]:
    """Of the subscription and of each of its consumers; empty for other types."""
    strategy = subscription.strategy
    if not isinstance(strategy, KeySharedDispatch):
        return {}, {}
    if not subscription.consumers:
        return {"keySharedMode": strategy.mode.name}, {}
    strategy.settle()
    ranges = ranges_by_consumer(strategy.selector)
    of_consumers = {consumer: _consumer(consumer, strategy, ranges.get(consumer, [])) for consumer in subscription.consumers}
    totals = ("drainingHashesCount", "drainingHashesClearedTotal", "drainingHashesUnackedMessages")
    of_subscription: Figures = {name: sum(figures[name] for figures in of_consumers.values()) for name in totals}
    of_subscription["allowOutOfOrderDelivery"] = strategy.mode.out_of_order
    of_subscription["keySharedMode"] = strategy.mode.name
    of_subscription["msgInReplay"] = len(strategy.waiting)
    return of_subscription, of_consumers


def _consumer(consumer: Consumer, strategy: KeySharedDispatch, ranges: list[tuple[int, int]]) -> Figures:
    draining = strategy.draining.of(consumer)
    return {
        "keyHashRangeArrays": [list(hash_range) for hash_range in ranges],
        "drainingHashesCount": len(draining),
        "drainingHashesClearedTotal": strategy.draining.cleared.get(consumer, 0),
        "drainingHashesUnackedMessages": sum(draining_slot.unacked for draining_slot in draining.values()),
        "drainingHashes": [
            {"hash": slot, "unackMsgs": draining_slot.unacked, "blockedAttempts": draining_slot.blocked}
            for slot, draining_slot in draining.items()
        ],
    }
