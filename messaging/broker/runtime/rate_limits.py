"""The rate limits of a broker that its topics share: those of the broker, and of each tenant."""

from __future__ import annotations

from messaging.broker.core.rate_limits import LevelLimiter, RateLevel, RateLimit
from messaging.broker.core.subscribe_rates import SubscribeRates
from messaging.broker.runtime.rate_timers import RateTimers
from messaging.settings import Settings


class BrokerRateLimits:
    """`counts_entries`: dispatch limits count a batch as one message. `spares_tail`: they do not apply to what is in the cache."""

    def __init__(self, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self.timers = RateTimers()
        self.subscribes = SubscribeRates()
        self.counts_entries = settings.dispatch_throttling_on_batch_message_enabled
        self.spares_tail = not settings.dispatch_throttling_on_non_backlog_consumer_enabled
        self._publish = _Shared(
            self.timers,
            "broker_publisher_throttling_max",
            RateLimit(settings.broker_publisher_throttling_max_message_rate, settings.broker_publisher_throttling_max_byte_rate),
            "tenant_publish_rate",
            RateLimit(settings.tenant_publish_rate_in_messages, settings.tenant_publish_rate_in_bytes),
        )
        self._dispatch = _Shared(
            self.timers,
            "dispatch_throttling_rate",
            RateLimit(settings.dispatch_throttling_rate_in_msg, settings.dispatch_throttling_rate_in_byte),
            "tenant_dispatch_rate",
            RateLimit(settings.tenant_dispatch_rate_in_messages, settings.tenant_dispatch_rate_in_bytes),
        )

    def publish_levels(self, tenant: str) -> tuple[LevelLimiter, ...]:
        return self._publish.levels(tenant)

    def dispatch_levels(self, tenant: str) -> tuple[LevelLimiter, ...]:
        return self._dispatch.levels(tenant)


class _Shared:
    def __init__(
        self, timers: RateTimers, broker_setting: str, broker: RateLimit, tenant_setting: str, each_tenant: RateLimit
    ) -> None:
        self._timers = timers
        self._broker_setting, self._broker_limit = broker_setting, broker
        self._tenant_setting, self._tenant_limit = tenant_setting, each_tenant
        self._broker: LevelLimiter | None = None
        self._tenants: dict[str, LevelLimiter] = {}

    def levels(self, tenant: str) -> tuple[LevelLimiter, ...]:
        """The narrowest first; made when they are first asked for."""
        found: list[LevelLimiter] = []
        if not self._tenant_limit.unlimited:
            held = self._tenants.get(tenant)
            if held is None:
                held = self._made(RateLevel.TENANT, self._tenant_setting, self._tenant_limit)
                self._tenants[tenant] = held
            found.append(held)
        if not self._broker_limit.unlimited:
            if self._broker is None:
                self._broker = self._made(RateLevel.BROKER, self._broker_setting, self._broker_limit)
            found.append(self._broker)
        return tuple(found)

    def _made(self, level: RateLevel, setting: str, limit: RateLimit) -> LevelLimiter:
        return LevelLimiter(level, setting, limit, self._timers.now_s())
