"""Pulsar's namespace policies as data: path -> the shape of its body -> our policies.

A *scalar* is a bare JSON value that is one policy of ours. A *group* is a JSON object whose fields are policies of ours; a field
that is missing when the group is set takes the value in `fill`, and the group is unset when none of its policies is set. `unset`
is what GET answers then: None is 204 without a body.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from messaging.errors import InvalidValue, MagnetarError
from tenants.policies import JsonPolicies


@dataclass(frozen=True)
class Row:
    path: str
    policies_key: str  # its name in the whole object that GET /namespaces/T/N answers; "": not in there
    scalar: str = ""
    group: dict[str, str] = field(default_factory=dict)  # field -> policy
    fill: dict[str, Any] = field(default_factory=dict)  # field -> value
    unset: Any = None

    def read(self, policies: JsonPolicies) -> Any:
        if self.scalar:
            return policies.get(self.scalar, self.unset)
        if not any(name in policies for name in self.group.values()):
            return self.unset
        return {key: policies.get(name, self.fill.get(key)) for key, name in self.group.items()}

    def changes(self, value: Any) -> JsonPolicies:
        """What setting `value` (None: unsetting) changes. Raises `InvalidValue`."""
        if self.scalar:
            return {self.scalar: value}
        if value is None:
            return dict.fromkeys(self.group.values())
        if not isinstance(value, dict):
            raise InvalidValue(f"{self.path} is an object with the fields {', '.join(self.group)}")
        return {name: value.get(key, self.fill.get(key)) for key, name in self.group.items()}


class NotAcceptable(MagnetarError):
    code, http_status = "not_acceptable", 406


class _AutoTopicCreation(Row):
    """Two fields that speak of one thing: a topic of so many partitions, or (0) one without any."""

    def read(self, policies: JsonPolicies) -> Any:
        if "auto_topic_creation" not in policies:
            return None
        partitions = policies.get("auto_topic_partitions")
        found = {"allowAutoTopicCreation": policies["auto_topic_creation"]}
        if partitions:
            return {**found, "topicType": "partitioned", "defaultNumPartitions": partitions}
        return {**found, "topicType": "non-partitioned", "defaultNumPartitions": None}

    def changes(self, value: Any) -> JsonPolicies:
        if value is None:
            return {"auto_topic_creation": None, "auto_topic_partitions": None}
        if not isinstance(value, dict):
            raise InvalidValue("autoTopicCreation is an object with allowAutoTopicCreation, topicType and defaultNumPartitions")
        allowed, partitions = value.get("allowAutoTopicCreation", True), value.get("defaultNumPartitions")
        kind = value.get("topicType") or "non-partitioned"
        if kind not in ("partitioned", "non-partitioned"):
            raise NotAcceptable(f"topicType {kind!r} is not known: use partitioned or non-partitioned")
        if kind == "partitioned" and allowed and (not isinstance(partitions, int) or partitions < 1):
            raise NotAcceptable("a partitioned topic has at least one partition: set defaultNumPartitions")
        if kind == "non-partitioned" and partitions:
            raise NotAcceptable("a topic that is not partitioned has no defaultNumPartitions: leave it out")
        return {"auto_topic_creation": allowed, "auto_topic_partitions": (partitions or 0) if kind == "partitioned" else 0}


def _rate(prefix: str) -> dict[str, Any]:
    group = {
        "dispatchThrottlingRateInMsg": f"{prefix}_messages",
        "dispatchThrottlingRateInByte": f"{prefix}_bytes",
        "relativeToPublishRate": f"{prefix}_relative",
        "ratePeriodInSecond": f"{prefix}_period_s",
    }
    fill = {"relativeToPublishRate": False, "ratePeriodInSecond": 1}
    fill |= {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": -1}
    return {"group": group, "fill": fill}


ROWS: tuple[Row, ...] = (
    Row(
        "retention",
        "retention_policies",
        group={"retentionTimeInMinutes": "retention_time_min", "retentionSizeInMB": "retention_size_mb"},
        fill={"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
    ),
    Row("messageTTL", "message_ttl_in_seconds", "message_ttl_s"),
    Row("deduplication", "deduplicationEnabled", "deduplication"),
    Row("deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds", "deduplication_snapshot_entries"),
    _AutoTopicCreation("autoTopicCreation", "autoTopicCreationOverride"),
    Row(
        "autoSubscriptionCreation",
        "autoSubscriptionCreationOverride",
        group={"allowAutoSubscriptionCreation": "auto_subscription_creation"},
        fill={"allowAutoSubscriptionCreation": True},
    ),
    Row("subscriptionExpirationTime", "subscription_expiration_time_minutes", "subscription_expiration_min"),
    Row(
        "delayedDelivery",
        "delayed_delivery_policies",
        group={
            "active": "delayed_delivery",
            "tickTime": "delayed_delivery_tick_ms",
            "maxDeliveryDelayInMillis": "delayed_delivery_max_ms",
        },
        fill={"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 0},
    ),
    Row(
        "inactiveTopicPolicies",
        "inactive_topic_policies",
        group={
            "inactiveTopicDeleteMode": "inactive_topic_mode",
            "maxInactiveDurationSeconds": "inactive_topic_after_s",
            "deleteWhileInactive": "inactive_topic_delete",
        },
        fill={
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 60,
            "deleteWhileInactive": True,
        },
    ),
    Row(
        "persistence",
        "persistence",
        group={
            "bookkeeperEnsemble": "persistence_ensemble",
            "bookkeeperWriteQuorum": "persistence_write_quorum",
            "bookkeeperAckQuorum": "persistence_ack_quorum",
            "managedLedgerMaxMarkDeleteRate": "persistence_mark_delete_rate",
        },
        fill={
            "bookkeeperEnsemble": 2,
            "bookkeeperWriteQuorum": 2,
            "bookkeeperAckQuorum": 2,
            "managedLedgerMaxMarkDeleteRate": 0.0,
        },
    ),
    Row(
        "publishRate",
        "",
        group={"publishThrottlingRateInMsg": "publish_rate_messages", "publishThrottlingRateInByte": "publish_rate_bytes"},
        fill={"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": -1},
    ),
    Row("dispatchRate", "", **_rate("dispatch_rate")),
    Row("subscriptionDispatchRate", "", **_rate("subscription_dispatch_rate")),
    Row(
        "subscribeRate",
        "",
        group={
            "subscribeThrottlingRatePerConsumer": "subscribe_rate_per_consumer",
            "ratePeriodInSecond": "subscribe_rate_period_s",
        },
        fill={"subscribeThrottlingRatePerConsumer": -1, "ratePeriodInSecond": 30},
    ),
    Row("maxProducersPerTopic", "max_producers_per_topic", "max_producers_per_topic"),
    Row("maxConsumersPerTopic", "max_consumers_per_topic", "max_consumers_per_topic"),
    Row("maxConsumersPerSubscription", "max_consumers_per_subscription", "max_consumers_per_subscription"),
    Row("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer", "max_unacked_per_consumer"),
    Row("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription", "max_unacked_per_subscription"),
    Row("maxSubscriptionsPerTopic", "max_subscriptions_per_topic", "max_subscriptions_per_topic"),
    Row("maxTopicsPerNamespace", "max_topics_per_namespace", "max_topics_per_namespace"),
    Row("compactionThreshold", "compaction_threshold", "compaction_threshold_bytes"),
    Row("schemaCompatibilityStrategy", "schema_compatibility_strategy", "schema_compatibility", unset="UNDEFINED"),
    Row("isAllowAutoUpdateSchema", "is_allow_auto_update_schema", "schema_auto_update", unset=True),
    Row("schemaValidationEnforced", "schema_validation_enforced", "schema_enforced", unset=False),
    Row("encryptionRequired", "encryption_required", "encryption_required", unset=False),
    Row("subscriptionAuthMode", "subscription_auth_mode", "subscription_auth_mode", unset="None"),
    Row("subscriptionTypesEnabled", "subscription_types_enabled", "subscription_types", unset=[]),
    Row("properties", "properties", "properties", unset={}),
)
BY_PATH: dict[str, Row] = {row.path: row for row in ROWS}
