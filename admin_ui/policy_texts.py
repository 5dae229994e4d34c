"""Policies as text: for each enforced policy of the registry, its effective value and where the value is set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from messaging.adminrpc.policies import PolicyPreviewAnswer
from messaging.policies import effective
from messaging.policies.model import Level, Policy
from messaging.policies.registry import ENFORCED, POLICIES
from messaging.policies.resolution import Levels
from messaging.policies.texts import said
from messaging.policies.validation import split
from tenants.actions.policy_history import differences
from tenants.broker_settings import policy_defaults
from tenants.models import AuditRecord

_TEXT_LENGTH_MAX = 200


@dataclass(frozen=True)
class InForce:
    """`text`: the value with its unit. `is_set`: it is set on what is shown. `source`: where it comes from otherwise."""

    label: str
    text: str
    is_set: bool
    source: str
    meaning: str


def in_force(levels: Levels, scope: Level) -> list[InForce]:
    """`levels`: what is set on what is shown, which is of the level `scope`, and above."""
    found = effective.in_force(levels, policy_defaults(), scope)
    return [_shown(one, scope) for one in found]


def one(name: str, levels: Levels, defaults: Mapping[str, Any]) -> InForce:
    """Of a namespace. `levels`: what is set there and above; `defaults`: what is in force where nothing is."""
    found = effective.one(ENFORCED[name], levels, defaults)
    return _shown(found, Level.NAMESPACE)


def _shown(found: effective.PolicyInForce, scope: Level) -> InForce:
    policy = found.policy
    default = f"broker default ({policy.setting})" if policy.setting else "broker default"
    source = default if found.level is Level.BROKER else f"the {found.level}"
    return InForce(policy.title, found.text, found.level is scope, source, policy.meaning)


def retention(levels: Levels, defaults: Mapping[str, Any]) -> InForce:
    """Time and size together: the stricter one applies."""
    time, size = one("retention_time_min", levels, defaults), one("retention_size_mb", levels, defaults)
    limits = [limit.text for limit in (time, size) if limit.text != "unlimited"]
    text = "not at all" if "not at all" in limits else ", ".join(limits) or "unlimited"
    return InForce("Retention", text, time.is_set or size.is_set, time.source, time.meaning)


def not_enforced(policies: Mapping[str, Any]) -> list[dict[str, str]]:
    """Policies that an earlier release stored and that this one does not enforce."""
    return [{"name": name, "text": str(value)[:_TEXT_LENGTH_MAX]} for name, value in sorted(split(policies).unenforced.items())]


def effects(found: PolicyPreviewAnswer) -> list[str]:
    """What a change would do now, in sentences."""
    lines = []
    for effect in found.effects:
        local = effect.topic.rpartition("/")[2]
        sentence = f"{effect.sentence[:1].upper()}{effect.sentence[1:]}"
        lines.append(f"{local}: {sentence}." if local else f"{sentence}.")
    further = found.effects_count - len(found.effects)
    if further > 0:
        lines.append(f"And {further:,} more.")
    return lines or ["Nothing that is connected or stored now would be affected."]


def looked_at(found: PolicyPreviewAnswer) -> str:
    """Which topics the preview is about."""
    left_out = found.topics_left_out
    return f"Topics looked at: {found.topics_looked_at:,}." + (
        f" Not looked at, because they are not in use: {left_out:,}." if left_out else ""
    )


class PolicyChange(NamedTuple):
    """A change of policies for the page: `record` is what takes it back."""

    record: int
    at: datetime
    role: str
    lines: list[str]


def policy_changes(records: Iterable[AuditRecord]) -> list[PolicyChange]:
    return [
        PolicyChange(record.id, record.at, record.role, [_line(*difference) for difference in differences(record)])
        for record in records
    ]


def _line(name: str, before: Any, after: Any) -> str:
    """Message TTL: not set → after 7 d."""
    policy = POLICIES.get(name)
    title = policy.title if policy is not None else name
    return f"{title}: {_value(policy, before)} → {_value(policy, after)}"


def _value(policy: Policy | None, value: Any) -> str:
    if value is None:
        return "not set"
    return said(policy, value) if policy is not None else str(value)
