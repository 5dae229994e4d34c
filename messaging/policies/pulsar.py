"""Policies as Pulsar's admin API has them: a path below the namespace, the shape of its body, its key in the whole object.

Which policies a path sets, and by which fields, stands in the registry; here is only what belongs to the path itself. A path takes
a bare value, or an object: a field that is missing when the object is set takes the `fill` of its policy, and the whole is unset
when none of its policies is set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from messaging.errors import InvalidValue, PreconditionFailed
from messaging.json_types import converted
from messaging.policies.model import Policy, value_schema
from messaging.policies.registry import POLICIES
from messaging.policies.validation import JsonPolicies

GROUP_PATH = "antiAffinity"  # its body is a bare name: `tenants.pulsar.placement`
QUOTA_PATH = "backlogQuota"  # one path for two quotas: `tenants.pulsar.namespace_policies`
QUOTA_TYPES = {"destination_storage": "backlog_quota_bytes", "message_age": "backlog_quota_age_s"}
QUOTA_POLICIES = {"destination_storage": "backlog_quota_bytes_policy", "message_age": "backlog_quota_age_policy"}


@dataclass(frozen=True)
class PulsarPath:
    path: str
    whole_key: str  # its name in the object that GET /namespaces/TENANT/NAMESPACE answers
    unset: Any = None  # what GET answers for a value that is not set; None: 200 without a body. Setting it unsets.
    set_by: str = "POST"  # the HTTP method that sets it; DELETE always unsets
    by_cluster: bool = False  # in the whole object it stands below the cluster's name

    @cached_property
    def policies(self) -> tuple[Policy, ...]:
        return tuple(policy for policy in POLICIES.values() if policy.path == self.path)

    def read(self, stored: JsonPolicies) -> Any:
        """What GET answers. A policy that is not enforced reads as unset, whatever was stored."""
        values = {policy.name: stored[policy.name] for policy in self.policies if policy.enforced and policy.name in stored}
        if not values:
            return self.unset
        if not self.policies[0].field:
            return values[self.policies[0].name]
        return {policy.field: values.get(policy.name, policy.fill) for policy in self.policies}

    def changes(self, value: Any) -> JsonPolicies:
        """What setting `value` (None: unsetting) changes. Raises `InvalidValue`."""
        if value is None or self.unsets(value):
            return {policy.name: None for policy in self.policies}
        if not self.policies[0].field:
            return {self.policies[0].name: self._given(self.policies[0], value)}
        if not isinstance(value, dict):
            fields = ", ".join(policy.field for policy in self.policies)
            raise InvalidValue(f"{self.path} is an object with the fields {fields}")
        return {policy.name: self._given(policy, value.get(policy.field, policy.fill)) for policy in self.policies}

    def _given(self, policy: Policy, value: Any) -> Any:
        """Numbers and truth values may be in quotes. A negative limit is refused by the name that the client knows; the rest is
        judged where policies are set. Raises `InvalidValue`."""
        if isinstance(value, str):
            try:
                value = converted(value, policy.kind, strict=False)
            except msgspec.ValidationError:
                return value
        if type(value) is int and value < 0 and value_schema(policy).get("minimum") == 0:
            raise InvalidValue(f"{policy.field or self.path} must be 0 or more, and {value} was given")
        return value

    def unsets(self, value: Any) -> bool:
        return type(value) is type(self.unset) and value == self.unset


class AutoTopicCreation(PulsarPath):
    """Two fields that speak of one thing: a topic of so many partitions, or (0) one without any."""

    def read(self, stored: JsonPolicies) -> Any:
        if "auto_topic_creation" not in stored:
            return None
        partitions = stored.get("auto_topic_partitions")
        creation = {"allowAutoTopicCreation": stored["auto_topic_creation"]}
        if partitions:
            return creation | {"topicType": "partitioned", "defaultNumPartitions": partitions}
        if partitions is None and not stored["auto_topic_creation"]:
            return creation
        return creation | {"topicType": "non-partitioned"}

    def changes(self, value: Any) -> JsonPolicies:
        if value is None:
            return {"auto_topic_creation": None, "auto_topic_partitions": None}
        if not isinstance(value, dict):
            raise InvalidValue("autoTopicCreation is an object with allowAutoTopicCreation, topicType and defaultNumPartitions")
        allowed, partitions = value.get("allowAutoTopicCreation") or False, value.get("defaultNumPartitions")
        kind = str(value.get("topicType"))
        if allowed and kind.lower() not in ("partitioned", "non-partitioned"):
            raise PreconditionFailed(f"topicType {kind[:40]!r} is not known: use partitioned or non-partitioned")
        if allowed and kind.lower() == "partitioned" and (not isinstance(partitions, int) or partitions < 1):
            raise PreconditionFailed("a partitioned topic needs at least one partition: set defaultNumPartitions")
        if allowed and kind.lower() == "non-partitioned" and partitions:
            raise PreconditionFailed("defaultNumPartitions applies only to partitioned topics: remove it")
        without = 0 if allowed or kind.lower() == "non-partitioned" else None
        return {"auto_topic_creation": allowed, "auto_topic_partitions": partitions or without}


_PATHS = (
    PulsarPath("retention", "retention_policies"),
    PulsarPath("messageTTL", "message_ttl_in_seconds"),
    PulsarPath("deduplication", "deduplicationEnabled"),
    PulsarPath("deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds"),
    AutoTopicCreation("autoTopicCreation", "autoTopicCreationOverride"),
    PulsarPath("autoSubscriptionCreation", "autoSubscriptionCreationOverride"),
    PulsarPath("subscriptionExpirationTime", "subscription_expiration_time_minutes"),
    PulsarPath("delayedDelivery", "delayed_delivery_policies"),
    PulsarPath("inactiveTopicPolicies", "inactive_topic_policies"),
    PulsarPath("persistence", "persistence"),
    PulsarPath("publishRate", "publishMaxMessageRate", by_cluster=True),
    PulsarPath("dispatchRate", "topicDispatchRate", by_cluster=True),
    PulsarPath("subscriptionDispatchRate", "subscriptionDispatchRate", by_cluster=True),
    PulsarPath("replicatorDispatchRate", "replicatorDispatchRate", by_cluster=True),
    PulsarPath("subscribeRate", "clusterSubscribeRate", by_cluster=True),
    PulsarPath("maxProducersPerTopic", "max_producers_per_topic"),
    PulsarPath("maxConsumersPerTopic", "max_consumers_per_topic"),
    PulsarPath("maxConsumersPerSubscription", "max_consumers_per_subscription"),
    PulsarPath("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer"),
    PulsarPath("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription"),
    PulsarPath("maxSubscriptionsPerTopic", "max_subscriptions_per_topic"),
    PulsarPath("maxTopicsPerNamespace", "max_topics_per_namespace"),
    PulsarPath("compactionThreshold", "compaction_threshold", set_by="PUT"),
    PulsarPath("schemaCompatibilityStrategy", "schema_compatibility_strategy", "UNDEFINED", "PUT"),
    PulsarPath("isAllowAutoUpdateSchema", "is_allow_auto_update_schema", True),
    PulsarPath("schemaValidationEnforced", "schema_validation_enforced", False),
    PulsarPath("encryptionRequired", "encryption_required", False),
    PulsarPath("subscriptionAuthMode", "subscription_auth_mode", "None"),
    PulsarPath("subscriptionTypesEnabled", "subscription_types_enabled", []),
    PulsarPath("properties", "properties", {}, "PUT"),
)
PATHS: dict[str, PulsarPath] = {path.path: path for path in _PATHS}


def backlog_quotas(policies: JsonPolicies) -> dict[str, Any]:
    """The quotas that are set and enforced, by type."""
    quotas: dict[str, Any] = {}
    for kind, name in QUOTA_TYPES.items():
        if name in policies and POLICIES[name].enforced:
            size = policies[name] if kind == "destination_storage" else -1
            seconds = policies[name] if kind == "message_age" else -1
            quotas[kind] = {"limit": size, "limitSize": size, "limitTime": seconds, "policy": policies.get(QUOTA_POLICIES[kind])}
    return quotas
