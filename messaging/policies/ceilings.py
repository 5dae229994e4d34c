"""Ceilings: the policies that limit a tenant as a whole. What is in force of each, and how much of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from messaging.errors import InvalidValue
from messaging.policies.model import TENANT_ONLY, Level, Policy
from messaging.policies.registry import ENFORCED
from messaging.policies.resolution import resolve_policy
from messaging.policies.texts import said
from messaging.settings import Settings

CEILINGS: dict[str, Policy] = {name: policy for name, policy in ENFORCED.items() if policy.levels == TENANT_ONLY}
# Settings that the ceiling of a tenant never exceeds.
BOUNDS = {
    "max_topics_per_tenant": "topics_per_tenant_max",
    "max_namespaces_per_tenant": "namespaces_per_tenant_max",
    "max_keys_per_tenant": "keys_per_tenant_max",
    "max_key_lifetime_days": "key_lifetime_days_max",
}
# Of one value each, and not of a sum: to be at the limit is what the limit is for, and nobody has to be told.
OF_EACH = frozenset({"max_key_lifetime_days", "max_retention_time_min", "max_retention_size_mb"})
THRESHOLDS = (80, 95, 100)  # per cent of a ceiling at which a tenant is told
UNLIMITED = -1  # used of what may be as much as one likes, such as retention


class Ceiling(NamedTuple):
    """`limit` None: there is none. `used` None: it is not known. `level`: where the limit in force is set."""

    policy: Policy
    limit: int | None
    level: Level
    used: int | None

    @property
    def used_text(self) -> str:
        if self.used is None:
            return "unknown"
        if self.used == UNLIMITED:
            return "unlimited"
        return said(self.policy, self.used) if self.used else f"0 {self.policy.unit}"

    @property
    def limit_text(self) -> str:
        return said(self.policy, self.limit) if self.limit is not None else "unlimited"

    @property
    def used_percent(self) -> int | None:
        """Rounded down; None where there is no limit, or it is not known what is used."""
        percent = self.exact_percent
        return None if percent is None else int(percent)

    @property
    def exact_percent(self) -> Fraction | None:
        """None where there is no limit, or it is not known what is used."""
        if self.limit is None or self.used is None:
            return None
        return Fraction(100) if self.used == UNLIMITED else Fraction(100 * self.used, max(1, self.limit))

    @property
    def threshold(self) -> int:
        """The highest of `THRESHOLDS` that is reached, 0 for none."""
        if self.policy.name in OF_EACH:
            return 0
        return max((threshold for threshold in THRESHOLDS if (self.used_percent or 0) >= threshold), default=0)


def ceilings_of(
    set_on_tenant: Mapping[str, Any], broker: Mapping[str, Any], settings: Settings, used: Mapping[str, int | None]
) -> list[Ceiling]:
    """Of one tenant. `broker`: the defaults of policies."""
    ceilings = []
    for name, policy in CEILINGS.items():
        limit, level = resolve_policy(name, {Level.TENANT: set_on_tenant}, broker)
        bound = getattr(settings, BOUNDS[name]) if name in BOUNDS else 0
        if bound and not 0 < limit < bound:
            limit, level = bound, Level.BROKER
        ceilings.append(Ceiling(policy, limit if limit > 0 else None, level, used.get(name)))
    return ceilings


def check_names(changes: Mapping[str, Any]) -> None:
    """Raises `InvalidValue` for what is no ceiling."""
    unknown = sorted(name[:80] for name in changes if name not in CEILINGS)
    if unknown:
        raise InvalidValue(f"{', '.join(map(repr, unknown[:5]))}: no such ceiling; there are {', '.join(CEILINGS)}")
