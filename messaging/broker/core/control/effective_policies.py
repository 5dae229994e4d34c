"""The effective policies of a topic, as the broker enforces them: its own, those of its namespace, the broker's defaults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from messaging.broker.core.control.view import ControlView
from messaging.policies.model import Level
from messaging.policies.resolution import EffectivePolicy
from messaging.protocol.names import TopicName
from messaging.protocol.system_topics import CHANGE_EVENTS

# What holds for the topic of change events, whatever is set on it and above: the newest event of each topic stays, and nothing that
# a tenant sets keeps events out. A week of all events remains for readers, and to know by the last of them what was appended.
OF_CHANGE_EVENTS: Mapping[str, Any] = {
    "message_ttl_s": 0,
    "retention_time_min": 7 * 24 * 60,
    "retention_size_mb": -1,
    "compaction_threshold_bytes": 1 << 20,
    "backlog_quota_bytes": -1,
    "backlog_quota_age_s": -1,
    "auto_topic_creation": True,
    "auto_topic_partitions": 0,
    "encryption_required": False,
    "schema_compatibility": "ALWAYS_COMPATIBLE",
    "schema_auto_update": True,
    "max_message_size_bytes": 0,
    "publish_rate_messages": 0,
    "publish_rate_bytes": 0,
    **dict.fromkeys((f"max_producers_per_{of}" for of in ("topic", "namespace", "tenant")), 0),
}


class EffectivePolicies:
    """Every method takes the name of a topic or partition; partitions have the policies of their partitioned topic."""

    def __init__(self, view: ControlView) -> None:
        self._view = view

    @property
    def version(self) -> tuple[str, int]:
        """Another one after each change."""
        return self._view.feed_id, self._view.version

    def value(self, policy: str, name: TopicName) -> Any:
        if name.local == CHANGE_EVENTS and policy in OF_CHANGE_EVENTS:
            return OF_CHANGE_EVENTS[policy]
        return self._view.policy(policy, f"{name.tenant}/{name.namespace_local}", name).value

    def resolved(self, policy: str, name: TopicName) -> EffectivePolicy:
        """With the level at which it is set."""
        if name.local == CHANGE_EVENTS and policy in OF_CHANGE_EVENTS:
            return EffectivePolicy(OF_CHANGE_EVENTS[policy], Level.BROKER)
        return self._view.policy(policy, f"{name.tenant}/{name.namespace_local}", name)

    def value_of_subscription(self, policy: str, name: TopicName, subscription: str) -> Any:
        """For policies that a subscription may have of its own."""
        return self._view.policy_of_subscription(policy, name, subscription).value

    def subscriptions_with_own(self, name: TopicName) -> Collection[str]:
        """Those that have policies of their own."""
        return self._view.subscriptions_with_policies(name)

    def publishing_stopped(self, name: TopicName) -> str:
        """Why clients may not publish to any topic of its tenant, whatever else they may; "": they may."""
        return "" if name.local == CHANGE_EVENTS else self._view.publishing_stopped(name.tenant)

    def topic_deleted(self, name: TopicName) -> None:
        """What was set on it does not apply to a later topic of the same name. The control plane forgets it too, a little later."""
        self._view.topic_deleted(str(name))

    def topic_restored(self, name: TopicName) -> None:
        """The topic that was deleted last is there again, with what was set on it."""
        self._view.topic_restored(str(name))

    def message_ttl_s(self, name: TopicName) -> int:
        """0: messages do not expire. Called for every dispatch."""
        if name.local == CHANGE_EVENTS:
            return 0
        return int(self._view.policy("message_ttl_s", f"{name.tenant}/{name.namespace_local}", name).value)

    def deduplicates(self, name: TopicName) -> bool:
        return name.persistent and bool(self.value("deduplication", name))

    def auto_creates_topics(self, name: TopicName) -> bool:
        return bool(self.value("auto_topic_creation", name))

    def auto_topic_partitions(self, name: TopicName) -> int:
        """0: auto-created topics are not partitioned."""
        return int(self.value("auto_topic_partitions", name))
