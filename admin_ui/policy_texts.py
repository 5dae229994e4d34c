"""Policies as text: for each enforced policy of the registry, its effective value and where the value is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings as django_settings

from admin_ui.formatting import span
from messaging.policies.model import Level, Policy
from messaging.policies.registry import ENFORCED
from messaging.policies.resolution import defaults, resolve_policy
from messaging.policies.validation import split

_SECONDS = {"seconds": 1, "minutes": 60}
_TEXT_LENGTH_MAX = 200


@dataclass(frozen=True)
class InForce:
    """`text`: the value with its unit. `is_set`: it is set on this namespace. `source`: where it comes from otherwise."""

    label: str
    text: str
    is_set: bool
    source: str
    meaning: str


def in_force(policies: dict[str, Any]) -> list[InForce]:
    """`policies` are those stored with the namespace."""
    return [one(name, policies) for name in ENFORCED]


def one(name: str, policies: dict[str, Any]) -> InForce:
    policy = ENFORCED[name]
    value, level = resolve_policy(name, {Level.NAMESPACE: policies}, defaults(django_settings.MAGNETAR))
    source = f"broker default ({policy.setting})" if policy.setting else "broker default"
    return InForce(policy.title, text_of(policy, value), level is Level.NAMESPACE, source, policy.meaning)


def retention(policies: dict[str, Any]) -> InForce:
    """Time and size together: the stricter one applies."""
    time, size = one("retention_time_min", policies), one("retention_size_mb", policies)
    limits = [limit.text for limit in (time, size) if limit.text != "unlimited"]
    text = "not at all" if "not at all" in limits else ", ".join(limits) or "unlimited"
    return InForce("Retention", text, time.is_set or size.is_set, time.source, time.meaning)


def not_enforced(policies: dict[str, Any]) -> list[dict[str, str]]:
    """Policies that an earlier release stored and that this one does not enforce."""
    return [{"name": name, "text": str(value)[:_TEXT_LENGTH_MAX]} for name, value in sorted(split(policies).unenforced.items())]


def text_of(policy: Policy, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return f"{len(value):,} entries" if value else "none"
    if isinstance(value, list):
        return ", ".join(value) or policy.words.get((), "none")
    if value in policy.words:
        return policy.words[value]
    if policy.unit in _SECONDS:
        return policy.phrase.format(span(value * _SECONDS[policy.unit]))
    number = f"{value:,}" if isinstance(value, int | float) else str(value)
    return policy.phrase.format(f"{number} {policy.unit}".rstrip())
