"""Stats of rate limits, with Pulsar's names."""

from __future__ import annotations

from messaging.broker.core.limits.rate_limits import RateLevel, Waits

_LIMITS = {
    "BySubscriptionLimit": (RateLevel.SUBSCRIPTION,),
    "ByTopicLimit": (RateLevel.TOPIC,),
    "ByBrokerLimit": (RateLevel.BROKER, RateLevel.TENANT, RateLevel.NAMESPACE),
}


def throttled(waits: Waits) -> dict[str, int]:
    """How often dispatch rates of each level made the subscription wait."""
    return {
        f"dispatchThrottled{unit}Events{limit}": sum(waits.get((level, for_bytes), 0) for level in levels)
        for unit, for_bytes in (("Msg", False), ("Bytes", True))
        for limit, levels in _LIMITS.items()
    }
