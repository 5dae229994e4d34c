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
    found: Figures = {name: sum(figures[name] for figures in of_consumers.values()) for name in totals}
    found["allowOutOfOrderDelivery"] = strategy.mode.out_of_order
    found["keySharedMode"] = strategy.mode.name
    found["msgInReplay"] = len(strategy.waiting)
    return found, of_consumers


def _consumer(consumer: Consumer, strategy: KeySharedDispatch, ranges: list[tuple[int, int]]) -> Figures:
    draining = strategy.draining.of(consumer)
    return {
        "keyHashRangeArrays": [list(one) for one in ranges],
        "drainingHashesCount": len(draining),
        "drainingHashesClearedTotal": strategy.draining.cleared.get(consumer, 0),
        "drainingHashesUnackedMessages": sum(one.unacked for one in draining.values()),
        "drainingHashes": [
            {"hash": slot, "unackMsgs": one.unacked, "blockedAttempts": one.blocked} for slot, one in draining.items()
        ],
    }
