"""Settings that may change while brokers run: defaults of policies that Pulsar's brokers change so too, by Pulsar's names.

A value that is set comes before the one in the configuration file, survives restarts, and takes effect as a policy does: for every
topic on which nothing nearer is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

import msgspec

from messaging.errors import PreconditionFailed
from messaging.json_types import converted
from messaging.policies.registry import POLICIES
from messaging.settings import Settings

DYNAMIC: dict[str, str] = {
    "allowAutoTopicCreation": "auto_topic_creation",
    "brokerDeleteInactiveTopicsEnabled": "delete_inactive_topics",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "inactive_topic_after_s",
    "brokerDeleteInactiveTopicsMode": "inactive_topic_mode",
    "dispatchThrottlingRatePerSubscriptionInByte": "dispatch_throttling_rate_per_subscription_in_byte",
    "dispatchThrottlingRatePerSubscriptionInMsg": "dispatch_throttling_rate_per_subscription_in_msg",
    "dispatchThrottlingRatePerTopicInByte": "dispatch_throttling_rate_per_topic_in_byte",
    "dispatchThrottlingRatePerTopicInMsg": "dispatch_throttling_rate_per_topic_in_msg",
    "dispatchThrottlingRateRelativeToPublishRate": "dispatch_throttling_rate_relative_to_publish_rate",
    "maxPublishRatePerTopicInBytes": "max_publish_rate_per_topic_in_bytes",
    "maxPublishRatePerTopicInMessages": "max_publish_rate_per_topic_in_messages",
    "subscribeRatePeriodPerConsumerInSecond": "subscribe_rate_period_per_consumer_in_second",
    "subscribeThrottlingRatePerConsumer": "subscribe_throttling_rate_per_consumer",
    "ttlDurationDefaultInSeconds": "message_ttl_s",
}
"""Pulsar's name -> ours. `ttlDurationDefaultInSeconds` needs a restart in Pulsar."""

_KINDS = get_type_hints(Settings, include_extras=True)
_LARGEST = Annotated[int, msgspec.Meta(le=2**53 - 1)]  # what JSON readers keep exactly


def setting_of(name: str) -> str:
    """Ours of Pulsar's `name`. Raises `PreconditionFailed`."""
    try:
        return DYNAMIC[name]
    except KeyError:
        raise PreconditionFailed(
            f"{name[:80]} cannot change while the broker runs: settings are read at its start (docs/configuration.md), but for "
            + ", ".join(DYNAMIC)
        ) from None


def read_value(name: str, text: str) -> Any:
    """The value that `text` is for the setting of Pulsar's `name`. Raises `PreconditionFailed`."""
    setting = setting_of(name)
    try:
        value = converted(_words(text), _KINDS[setting], strict=False)
        if isinstance(value, int):
            converted(int(value), _LARGEST)
        return value
    except msgspec.ValidationError as error:
        raise PreconditionFailed(f"{name} cannot be {text[:80]!r}: {error}") from None


def _words(text: str) -> str:
    return text.lower() if text.lower() in ("true", "false") else text


def text_of(value: Any) -> str:
    """As Pulsar writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def with_dynamic(configured: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of policies, by their names, where `changed` has settings by ours. What a broker does not know is left out."""
    known = {setting: value for setting, value in changed.items() if setting in DYNAMIC.values()}
    overlay = {name: known[policy.setting] for name, policy in POLICIES.items() if policy.setting in known and name in configured}
    return {**configured, **overlay}
