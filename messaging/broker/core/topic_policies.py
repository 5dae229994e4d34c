"""The effective policies of a topic, as the broker enforces them."""

from __future__ import annotations

from typing import Any

from messaging.broker.core.control_view import ControlView
from messaging.protocol.names import TopicName


class TopicPolicies:
    def __init__(self, view: ControlView) -> None:
        self._view = view

    def value(self, policy: str, name: TopicName) -> Any:
        return self._view.policy(policy, str(name.namespace)).value

    def message_ttl_s(self, name: TopicName) -> int:
        """0: messages do not expire. Called for every dispatch."""
        return int(self._view.policy("message_ttl_s", f"{name.tenant}/{name.namespace_local}").value)

    def deduplicates(self, name: TopicName) -> bool:
        return bool(self.value("deduplication", name))

    def auto_creates_topics(self, name: TopicName) -> bool:
        return bool(self.value("auto_topic_creation", name))

    def auto_topic_partitions(self, name: TopicName) -> int:
        """0: topics that are created by using them are not partitioned."""
        return int(self.value("auto_topic_partitions", name))
