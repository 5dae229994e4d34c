"""The rate limits of a broker that its topics share: those of the broker, of each tenant and of each namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from messaging.background import BackgroundLoop
from messaging.broker.core.limits.rate_limits import LevelLimiter, RateLevel, RateLimit
from messaging.broker.core.limits.rate_shares import RateDemand
from messaging.broker.core.limits.subscribe_rates import SubscribeRates
from messaging.broker.runtime.rate_timers import RateTimers
from messaging.protocol.names import TopicName
from messaging.settings import Settings

Policy = Callable[[str, TopicName], Any]  # the effective value of a policy for a topic


class BrokerRateLimits:
    """`counts_entries`: dispatch limits count a batch as one message. `exempts_cached`: they do not apply to cached entries."""

    def __init__(self, settings: Settings, policy: Policy, health: BackgroundLoop) -> None:
        self.timers = RateTimers(health)
        self.subscribes = SubscribeRates()
        self.counts_entries = settings.dispatch_throttling_on_batch_message_enabled
        self.exempts_cached = not settings.dispatch_throttling_on_non_backlog_consumer_enabled
        published = settings.broker_publisher_throttling_max_message_rate, settings.broker_publisher_throttling_max_byte_rate
        delivered = settings.dispatch_throttling_rate_in_msg, settings.dispatch_throttling_rate_in_byte
        self.publish = SharedLimits(self.timers, policy, "publish_rate", "broker_publisher_throttling_max", RateLimit(*published))
        self.dispatch = SharedLimits(self.timers, policy, "dispatch_rate", "dispatch_throttling_rate", RateLimit(*delivered))


class SharedLimits:
    """Of a namespace, of its tenant (policies), and of the broker (`setting`). A limiter exists as long as some topic has it."""

    def __init__(self, timers: RateTimers, policy: Policy, rate: str, setting: str, of_broker: RateLimit) -> None:
        self._timers = timers
        self._policy = policy
        levels = {RateLevel.NAMESPACE: f"namespace_{rate}", RateLevel.TENANT: f"tenant_{rate}"}
        self._rates = [(level, name, f"{name}_messages", f"{name}_bytes") for level, name in levels.items()]
        self._setting = setting
        self._of_broker = of_broker
        self._limiters: WeakValueDictionary[tuple[RateLevel, str], LevelLimiter] = WeakValueDictionary()
        self._whole: WeakKeyDictionary[LevelLimiter, RateLimit] = WeakKeyDictionary()  # of which the limiter has this broker's part
        self._taken_s: WeakKeyDictionary[LevelLimiter, float] = WeakKeyDictionary()  # at the last look
        self.parts: dict[str, float] = {}

    def demands(self, passed_s: float) -> dict[str, RateDemand]:
        """What was sent in the time that passed since the last call, by limit; those of the broker itself are not shared."""
        demands = {}
        for (level, whose), limiter in list(self._limiters.items()):
            if level is not RateLevel.BROKER:
                used_s = limiter.taken_s - self._taken_s.get(limiter, 0.0)
                self._taken_s[limiter] = limiter.taken_s
                used = used_s / passed_s * self.parts.get(f"{level} {whose}", 1.0)
                demands[f"{level} {whose}"] = RateDemand(used, limiter.waiting)
        return demands

    def divide(self, parts: dict[str, float]) -> None:
        """From now on this broker has these parts of its limits; of those that are not named all."""
        self.parts = parts
        for (level, whose), limiter in list(self._limiters.items()):
            whole = self._whole.get(limiter)
            if whole is not None and (limit := whole.part(parts.get(f"{level} {whose}", 1.0))) != limiter.limit:
                self._timers.change(limiter, limit)

    def of(self, name: TopicName) -> tuple[LevelLimiter, ...]:
        """Those that apply to a topic now, the narrowest first."""
        limiters = []
        for level, rate, messages, size_bytes in self._rates:
            limit = RateLimit.per_period(self._policy(messages, name), self._policy(size_bytes, name))
            if not limit.unlimited:
                limiters.append(
                    self._limiter(level, str(name.namespace) if level is RateLevel.NAMESPACE else name.tenant, rate, limit)
                )
        if not self._of_broker.unlimited:
            limiters.append(self._limiter(RateLevel.BROKER, "", self._setting, self._of_broker))
        return tuple(limiters)

    def _limiter(self, level: RateLevel, whose: str, name: str, whole: RateLimit) -> LevelLimiter:
        limiter, limit = self._limiters.get((level, whose)), whole.part(self.parts.get(f"{level} {whose}", 1.0))
        if limiter is None:
            limiter = self._limiters[level, whose] = LevelLimiter(level, name, limit, self._timers.now_s())
        elif limiter.limit != limit:
            self._timers.change(limiter, limit)
        self._whole[limiter] = whole
        return limiter
