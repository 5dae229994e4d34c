"""Which value of a policy is in force: the one owner of that question, for broker, REST and console.

The nearest level that sets a policy wins: the namespace, then the broker's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from messaging.errors import InvalidValue
from messaging.policies.model import Level
from messaging.policies.registry import POLICIES
from messaging.policies.validation import valid_value
from messaging.settings import Settings


class EffectivePolicy(NamedTuple):
    value: Any
    level: Level  # where it was set


def defaults(settings: Settings) -> dict[str, Any]:
    """The value of each policy that no level sets."""
    return {name: getattr(settings, policy.setting) if policy.setting else policy.default for name, policy in POLICIES.items()}


def resolve_policy(name: str, namespace: Mapping[str, Any] | None, broker: Mapping[str, Any]) -> EffectivePolicy:
    """The value of policy `name` in force. `namespace`: what is set there; `broker`: the defaults.

    A stored value that the policy cannot have counts as not set. Raises `KeyError` for a policy that does not exist."""
    policy = POLICIES[name]
    value = (namespace or {}).get(name)
    if value is not None:
        try:
            return EffectivePolicy(valid_value(policy, value), Level.NAMESPACE)
        except InvalidValue:
            pass
    return EffectivePolicy(broker[name], Level.BROKER)
