"""The policies in force for a tenant, a namespace, a topic or a subscription: each value, where it was set, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from messaging.policies.model import Level, Policy
from messaging.policies.registry import ENFORCED
from messaging.policies.resolution import Levels, resolve_policy
from messaging.policies.texts import said

# A policy that applies to the topics of a namespace is shown with each of these, as is what limits its tenant.
_SHOWN_FOR = {
    Level.TENANT: (Level.TENANT,),
    Level.NAMESPACE: tuple(Level),
    Level.TOPIC: tuple(Level),
    Level.SUBSCRIPTION: (Level.SUBSCRIPTION,),
}


class PolicyInForce(NamedTuple):
    """`text`: the value with its unit, in words. `set_at`: what is set at each level; a value of `level` is the one in force."""

    policy: Policy
    value: Any
    level: Level
    text: str
    set_at: Mapping[Level, Any]


def in_force(levels: Levels, broker: Mapping[str, Any], scope: Level) -> list[PolicyInForce]:
    """Every enforced policy, for a resource of the level `scope`. `levels`: what is set there and above."""
    return shown_for(ENFORCED.values(), levels, broker, scope)


def shown_for(policies: Iterable[Policy], levels: Levels, broker: Mapping[str, Any], scope: Level) -> list[PolicyInForce]:
    """The same of some policies."""
    return [one(policy, levels, broker) for policy in policies if is_shown_for(policy, scope)]


def is_shown_for(policy: Policy, scope: Level) -> bool:
    return not set(policy.levels).isdisjoint(_SHOWN_FOR[scope])


def one(policy: Policy, levels: Levels, broker: Mapping[str, Any]) -> PolicyInForce:
    value, level = resolve_policy(policy.name, levels, broker)
    set_at = {at: policies[policy.name] for at in policy.levels if (policies := levels.get(at)) and policy.name in policies}
    return PolicyInForce(policy, value, level, said(policy, value), set_at)
