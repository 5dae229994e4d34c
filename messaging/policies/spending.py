"""What a tenant that has reached a spend cap is throttled to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SPEND_RATES = (
    "tenant_publish_rate_messages",
    "tenant_publish_rate_bytes",
    "tenant_dispatch_rate_messages",
    "tenant_dispatch_rate_bytes",
)


def throttled(policies: Mapping[str, Any], rates: Mapping[str, int], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """`policies` of a tenant with no rate above those of `rates`. A rate of 0 is no limit."""
    least: dict[str, Any] = {}
    for name in SPEND_RATES:
        rate, own = rates.get(name, 0), policies.get(name) or defaults.get(name) or 0
        if rate > 0:
            least[name] = min(own, rate) if isinstance(own, int) and own > 0 else rate
    return {**policies, **least}
