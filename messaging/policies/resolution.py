"""Which value of a policy is in force: the one owner of that question, for broker, REST and console.

The nearest level that sets a policy wins: the subscription, its topic, the namespace, its tenant, then the broker's default.
Partitions have no policies of their own: theirs are those of the partitioned topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from messaging.errors import InvalidValue
from messaging.policies.model import Level
from messaging.policies.registry import POLICIES
from messaging.policies.validation import valid_value
from messaging.protocol.names import TopicName
from messaging.settings import Settings

Levels = Mapping[Level, Mapping[str, Any] | None]  # what is set at each level of one resource


class EffectivePolicy(NamedTuple):
    value: Any
    level: Level  # where it was set


def defaults(settings: Settings) -> dict[str, Any]:
    """The value of each policy that no level sets."""
    return {name: getattr(settings, policy.setting) if policy.setting else policy.default for name, policy in POLICIES.items()}


def resolve_policy(name: str, levels: Levels, broker: Mapping[str, Any]) -> EffectivePolicy:
    """The value of policy `name` in force. `broker`: the defaults.

    A stored value that the policy cannot have, or cannot have at that level, counts as not set. Raises `KeyError` for a policy that
    does not exist."""
    policy = POLICIES[name]
    for level in policy.levels:
        value = (levels.get(level) or {}).get(name)
        if value is not None:
            try:
                return EffectivePolicy(valid_value(policy, value), level)
            except InvalidValue:
                pass
    return EffectivePolicy(broker[name], Level.BROKER)


@lru_cache(8192)
def policy_topic(name: TopicName) -> str:
    """The full name of the topic whose policies apply to `name`: of a partition, the partitioned topic."""
    return str(name.base)
