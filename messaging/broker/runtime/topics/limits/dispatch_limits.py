"""The dispatch rate limits of one topic: its own, those of its subscriptions, and those that it shares. A topic without
any has none of this.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.limits.rate_limits import (
    NO_WAITS,
    UNLIMITED,
    Allowance,
    LevelLimiter,
    RateLevel,
    RateLimit,
    Throttle,
    Waits,
)
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.dispatch.entry_cache import EntryCache
from messaging.broker.runtime.topics.limits.admission import Policy
from messaging.broker.runtime.topics.services import OWN_TENANT, TopicServices
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position

TOPIC_RATE, SUBSCRIPTION_RATE = "dispatch_rate", "subscription_dispatch_rate"
RATES = tuple(f"{rate}_{unit}" for rate in (TOPIC_RATE, SUBSCRIPTION_RATE) for unit in ("messages", "bytes"))


class DispatchRate(NamedTuple):
    """`relative`: the publish rate is added to the limit."""

    limit: RateLimit
    relative: bool


def dispatch_rate(policy: Policy, prefix: str, name: TopicName) -> DispatchRate:
    values = [policy(f"{prefix}_{part}", name) for part in ("messages", "bytes", "period_s")]
    return DispatchRate(RateLimit.per_period(*values), bool(policy(f"{prefix}_relative", name)))


def following(current: DispatchLimits | None, topic: TopicContext, go_on: Callable[[Subscription], None]) -> DispatchLimits | None:
    """The limits as the policies have them now; None: there are none. `current`: those until now, to which what was sent counts.
    The caller dispatches."""
    if _is_limited(topic.services, topic.name):
        if current is None:
            return DispatchLimits(topic, go_on)
        current.follow()
        return current
    if current is not None:
        current.close()
    return None


def _is_limited(services: TopicServices, name: TopicName) -> bool:
    if name.tenant == OWN_TENANT:
        return False
    return (
        bool(services.limits.rate_limits.dispatch.of(name))
        or any(services.policies.value(rate, name) > 0 for rate in RATES)
        or bool(services.policies.subscriptions_with_own(name))
    )


class DispatchLimits:
    """Ask `allows`, send what it allows (`last_within`), and say what was `sent`, with nothing in between."""

    __slots__ = (
        "_allowed",
        "_counts_entries",
        "_exempts_cached",
        "_go_on",
        "_of_subscriptions",
        "_of_topic",
        "_throttles",
        "_topic",
    )

    def __init__(self, topic: TopicContext, go_on: Callable[[Subscription], None]) -> None:
        """`go_on` sends a subscription what it may be sent now."""
        self._topic = topic
        self._go_on = go_on
        self._of_topic: LevelLimiter | None = None
        self._of_subscriptions: dict[Subscription, LevelLimiter] = {}
        self._throttles: dict[Subscription, Throttle] = {}
        self._allowed: Allowance | None = None  # what was allowed last; None: anything
        self._counts_entries = topic.services.limits.rate_limits.counts_entries
        self._exempts_cached = topic.services.limits.rate_limits.exempts_cached
        self.follow()

    # --- sending

    def allows(self, subscription: Subscription, cache: EntryCache, position: Position) -> bool:
        """Whether `subscription` may be sent the entry at `position` now. If not, it is sent to again when its limits allow it."""
        if self._exempts_cached and cache.find(position) is not None:
            self._allowed = None
            return True
        return self._asks(subscription)

    def allows_new(self, subscription: Subscription) -> bool:
        """The same for what was published just now and is sent without a cache."""
        if self._exempts_cached:
            self._allowed = None
            return True
        return self._asks(subscription)

    def _asks(self, subscription: Subscription) -> bool:
        self._allowed = self._throttle(subscription).allowance(self._topic.services.limits.rate_limits.timers.now_s())
        return bool(self._allowed)

    def last_within(self, block: EntryBlock, position: Position, last: int) -> int:
        """The last entry from `position` to `last` that there is room for: at least the first."""
        if self._allowed is None:
            return last
        messages, size_bytes = self._allowed
        index = position.entry_id - block.first_entry
        if messages < UNLIMITED:
            if block.uniform or self._counts_entries:
                last = min(last, position.entry_id + math.ceil(messages) - 1)
            else:
                stop = last - block.first_entry
                while index <= stop and messages > 0:
                    messages -= block.counts[index]
                    index += 1
                last = block.first_entry + index - 1
                index = position.entry_id - block.first_entry
        if size_bytes < UNLIMITED:
            begin = block.start_of(index)
            last = min(last, block.first_entry + bisect_left(block.end_offsets, begin + math.ceil(size_bytes), lo=index))
        return last

    def sent(self, subscription: Subscription, deliveries: list[Delivery], messages: int, size_bytes: int) -> None:
        """`messages` and `size_bytes`: of all `deliveries`."""
        if self._allowed is None or not deliveries:
            return
        if self._counts_entries:
            messages = sum(
                delivery.last - delivery.first if delivery.picked is None else len(delivery.picked) for delivery in deliveries
            )
        self._throttle(subscription).take(messages, size_bytes)

    def blocked_by(self, subscription: Subscription) -> LevelLimiter | None:
        """The level that the subscription waits for."""
        throttle = self._throttles.get(subscription)
        return None if throttle is None else throttle.blocked_by

    def waits(self, subscription: Subscription) -> Waits:
        throttle = self._throttles.get(subscription)
        return NO_WAITS if throttle is None else throttle.waits

    def _throttle(self, subscription: Subscription) -> Throttle:
        throttle = self._throttles.get(subscription)
        if throttle is None:
            begin_wait = self._topic.services.limits.rate_limits.timers.begin
            go_on, drops = partial(self._go_on, subscription), not self._topic.keeps_messages
            throttle = Throttle(self._topic.name.tenant, (), go_on, begin_wait, drops=drops)
            self._throttles[subscription] = throttle
            throttle.follow(self._levels(subscription, self._subscription_rate(subscription)))
        return throttle

    # --- limits

    def follow(self) -> None:
        """Policies may have changed. What was sent before counts; the caller dispatches."""
        self._of_topic = self._limiter(self._of_topic, RateLevel.TOPIC, TOPIC_RATE, self._rate(TOPIC_RATE))
        of_all = self._rate(SUBSCRIPTION_RATE)
        own = self._topic.services.policies.subscriptions_with_own(self._topic.name)
        for subscription, throttle in self._throttles.items():
            rate = self._subscription_rate(subscription) if subscription.name in own else of_all
            throttle.follow(self._levels(subscription, rate))

    def _rate(self, prefix: str) -> DispatchRate:
        return dispatch_rate(self._topic.services.policies.value, prefix, self._topic.name)

    def _subscription_rate(self, subscription: Subscription) -> DispatchRate:
        resolve = self._topic.services.policies.value_of_subscription
        return dispatch_rate(lambda policy, name: resolve(policy, name, subscription.name), SUBSCRIPTION_RATE, self._topic.name)

    def _levels(self, subscription: Subscription, rate: DispatchRate) -> tuple[LevelLimiter, ...]:
        former = self._of_subscriptions.pop(subscription, None)
        own = self._limiter(former, RateLevel.SUBSCRIPTION, SUBSCRIPTION_RATE, rate)
        if own is not None:
            self._of_subscriptions[subscription] = own
        shared = self._topic.services.limits.rate_limits.dispatch.of(self._topic.name)
        return tuple(limiter for limiter in (own, self._of_topic, *shared) if limiter is not None)

    def _limiter(self, limiter: LevelLimiter | None, level: RateLevel, policy: str, rate: DispatchRate) -> LevelLimiter | None:
        timers = self._topic.services.limits.rate_limits.timers
        if rate.limit.unlimited:
            return None
        if limiter is None:
            limiter = LevelLimiter(level, policy, rate.limit, timers.now_s())
        limiter.added = self._published if rate.relative else None
        timers.change(limiter, rate.limit)
        return limiter

    def _published(self) -> tuple[float, float]:
        rates = self._topic.rates
        return (0.0, 0.0) if rates is None else (rates.messages_in.a_second, rates.bytes_in.a_second)

    def forget(self, subscription: Subscription) -> None:
        """It is gone."""
        self._of_subscriptions.pop(subscription, None)
        throttle = self._throttles.pop(subscription, None)
        if throttle is not None:
            throttle.close()

    def close(self) -> None:
        for throttle in self._throttles.values():
            throttle.close()
