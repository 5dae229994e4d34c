"""Policies of auto-creation, delivery and schemas; see `registry`."""

from __future__ import annotations

from messaging.policies import model as m
from messaging.policies.model import Policy

_TOPIC = "messaging.broker.core.effective_policies:EffectivePolicies"

_SCHEMAS = "messaging.broker.runtime.topic_schemas"
_ADMISSION = "messaging.broker.runtime.topics.admission"
_DELAYED = "messaging.broker.runtime.topics.delayed_delivery"

TABLE = (
    # Auto-creation
    Policy(
        name="auto_topic_creation",
        kind=m.Flag,
        setting="auto_topic_creation",
        path="autoTopicCreation",
        field="allowAutoTopicCreation",
        fill=True,
        label="Auto-create topics",
        meaning="A topic is created when a producer or consumer first uses it.",
        enforced_by=f"{_TOPIC}.auto_creates_topics",
    ),
    Policy(
        name="auto_topic_partitions",
        kind=m.Partitions,
        unit="partitions",
        setting="auto_topic_partitions",
        path="autoTopicCreation",
        field="defaultNumPartitions",
        label="Partitions of auto-created topics",
        words={0: "not partitioned"},
        meaning="Number of partitions of an auto-created topic; 0: a non-partitioned topic.",
        enforced_by=f"{_TOPIC}.auto_topic_partitions",
    ),
    Policy(
        name="auto_subscription_creation",
        kind=m.Flag,
        default=True,
        path="autoSubscriptionCreation",
        levels=m.WITH_TOPICS,
        field="allowAutoSubscriptionCreation",
        fill=True,
        label="Auto-create subscriptions",
        meaning="A durable subscription is created when a consumer first uses it.",
        enforced_by=f"{_ADMISSION}:check_creation_by_use",
    ),
    # Delivery
    Policy(
        name="deduplication",
        kind=m.Flag,
        setting="deduplication",
        path="deduplication",
        levels=m.WITH_TOPICS,
        meaning="A message that a producer sends again with the same producer name and sequence id is stored only once.",
        enforced_by=f"{_TOPIC}.deduplicates",
    ),
    Policy(
        name="deduplication_snapshot_interval_s",
        kind=m.Seconds,
        unit="seconds",
        setting="deduplication_snapshot_interval_s",
        path="deduplicationSnapshotInterval",
        levels=m.WITH_TOPICS,
        label="Deduplication snapshots",
        phrase="every {}",
        words={0: "only by the number of entries"},
        meaning="How long after a message was stored the deduplication state of its topic is, at the latest: what is not in it is "
        "read again when the topic is loaded. 0: only after 10,000 entries, and when the topic is unloaded.",
        enforced_by="messaging.broker.runtime.topics.dedup_state:save_later",
    ),
    Policy(
        name="delayed_delivery",
        kind=m.Flag,
        setting="delayed_delivery_enabled",
        path="delayedDelivery",
        levels=m.WITH_TOPICS,
        field="active",
        fill=True,
        meaning="Shared and Key_Shared subscriptions deliver messages at the delivery time that the producer requests.",
        enforced_by=f"{_DELAYED}:DelayedDelivery.policies_changed",
    ),
    Policy(
        name="delayed_delivery_tick_ms",
        kind=m.Tick,
        unit="milliseconds",
        setting="delayed_delivery_tick_ms",
        path="delayedDelivery",
        levels=m.WITH_TOPICS,
        field="tickTime",
        fill=1000,
        label="Delayed delivery tick",
        meaning="Precision of delivery times: messages may come this much earlier, unless the broker's setting "
        "delayed_delivery_strict is on.",
        enforced_by=f"{_DELAYED}:DelayedDelivery.policies_changed",
    ),
    Policy(
        name="delayed_delivery_max_ms",
        kind=m.Count,
        unit="milliseconds",
        default=0,
        path="delayedDelivery",
        levels=m.WITH_TOPICS,
        field="maxDeliveryDelayInMillis",
        fill=0,
        label="Longest delivery delay",
        words={0: "unlimited"},
        meaning="The longest delay that a producer may request; 0: unlimited.",
        enforced_by=f"{_ADMISSION}:delivery_time_max",
    ),
    Policy(
        name="subscription_types",
        kind=m.SubscriptionTypes,
        default=[],
        path="subscriptionTypesEnabled",
        levels=m.WITH_TOPICS,
        label="Subscription types",
        words={(): "all"},
        meaning="Allowed subscription types; an empty list allows all.",
        enforced_by=f"{_ADMISSION}:check_consumer",
    ),
    Policy(
        name="subscription_auth_mode",
        kind=m.SubscriptionAuthMode,
        default="None",
        path="subscriptionAuthMode",
        levels=m.NAMESPACE_ONLY,
        label="Subscription authorization",
        words={"None": "any name", "Prefix": "names that begin with the role"},
        meaning="With `Prefix`, the name of a subscription must begin with the role that uses it.",
        enforced_by="messaging.permissions.model:allowed",
    ),
    Policy(
        name="encryption_required",
        kind=m.Flag,
        default=False,
        path="encryptionRequired",
        meaning="Producers must encrypt their messages; others are refused.",
        enforced_by=f"{_ADMISSION}:check_encryption",
    ),
    # Schemas
    Policy(
        name="schema_compatibility",
        kind=m.SchemaStrategy,
        default="UNDEFINED",
        path="schemaCompatibilityStrategy",
        levels=m.WITH_TOPICS,
        meaning="Which schema changes are allowed. UNDEFINED: FULL.",
        enforced_by=f"{_SCHEMAS}:TopicSchemas.strategy",
    ),
    Policy(
        name="schema_auto_update",
        kind=m.Flag,
        default=True,
        path="isAllowAutoUpdateSchema",
        meaning="Clients may register new versions of a schema; without it only the admin API may.",
        enforced_by=f"{_SCHEMAS}:TopicSchemas.register",
    ),
    Policy(
        name="schema_enforced",
        kind=m.Flag,
        default=False,
        path="schemaValidationEnforced",
        levels=m.WITH_TOPICS,
        meaning="Refuse producers without a schema on topics that have one.",
        enforced_by=f"{_SCHEMAS}:TopicSchemas.check_producer",
    ),
    # Properties
    Policy(
        name="properties",
        kind=m.Properties,
        default={},
        path="properties",
        levels=m.NAMESPACE_ONLY,
        meaning="Names and values attached to the namespace. They are stored and shown, and have no other effect.",
        enforced_by="tenants.actions.namespaces:set_policies",
    ),
)
