"""The rate limits of a broker that its topics share: those of the broker, of each tenant and of each namespace."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakValueDictionary

from messaging.broker.core.rate_limits import LevelLimiter, RateLevel, RateLimit
from messaging.broker.core.subscribe_rates import SubscribeRates
from messaging.broker.runtime.rate_timers import RateTimers
from messaging.protocol.names import TopicName
from messaging.settings import Settings


class SharedLimit(NamedTuple):
    level: RateLevel
    setting: str  # of which one or two set it
    limit: RateLimit


class BrokerRateLimits:
    """`counts_entries`: dispatch limits count a batch as one message. `exempts_cached`: they do not apply to cached entries."""

    def __init__(self, settings: Settings) -> None:
        self.timers = RateTimers()
        self.subscribes = SubscribeRates()
        self.counts_entries = settings.dispatch_throttling_on_batch_message_enabled
        self.exempts_cached = not settings.dispatch_throttling_on_non_backlog_consumer_enabled
        self.publish = SharedLimits(
            self.timers,
            SharedLimit(
                RateLevel.NAMESPACE,
                "namespace_publish_rate",
                RateLimit(settings.namespace_publish_rate_in_messages, settings.namespace_publish_rate_in_bytes),
            ),
            SharedLimit(
                RateLevel.TENANT,
                "tenant_publish_rate",
                RateLimit(settings.tenant_publish_rate_in_messages, settings.tenant_publish_rate_in_bytes),
            ),
            SharedLimit(
                RateLevel.BROKER,
                "broker_publisher_throttling_max",
                RateLimit(
                    settings.broker_publisher_throttling_max_message_rate, settings.broker_publisher_throttling_max_byte_rate
                ),
            ),
        )
        self.dispatch = SharedLimits(
            self.timers,
            SharedLimit(
                RateLevel.NAMESPACE,
                "namespace_dispatch_rate",
                RateLimit(settings.namespace_dispatch_rate_in_messages, settings.namespace_dispatch_rate_in_bytes),
            ),
            SharedLimit(
                RateLevel.TENANT,
                "tenant_dispatch_rate",
                RateLimit(settings.tenant_dispatch_rate_in_messages, settings.tenant_dispatch_rate_in_bytes),
            ),
            SharedLimit(
                RateLevel.BROKER,
                "dispatch_throttling_rate",
                RateLimit(settings.dispatch_throttling_rate_in_msg, settings.dispatch_throttling_rate_in_byte),
            ),
        )


class SharedLimits:
    """`limits`: the narrowest first. A limiter exists as long as some topic has it."""

    def __init__(self, timers: RateTimers, *limits: SharedLimit) -> None:
        self._timers = timers
        self._limits = [one for one in limits if not one.limit.unlimited]
        self._limiters: WeakValueDictionary[tuple[RateLevel, str], LevelLimiter] = WeakValueDictionary()

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of(self, name: TopicName) -> tuple[LevelLimiter, ...]:
        """Those that apply to a topic."""
        return tuple(self._limiter(one, name) for one in self._limits)

    def _limiter(self, one: SharedLimit, name: TopicName) -> LevelLimiter:
        whose = {RateLevel.NAMESPACE: str(name.namespace), RateLevel.TENANT: name.tenant}.get(one.level, "")
        held = self._limiters.get((one.level, whose))
        if held is None:
            held = self._limiters[one.level, whose] = LevelLimiter(one.level, one.setting, one.limit, self._timers.now_s())
        return held
