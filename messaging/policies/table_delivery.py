"""Policies of what comes into being by use, of delivery and of schemas; see `registry`."""

from __future__ import annotations

from messaging.policies import model as m
from messaging.policies.model import Policy

_BROKER = "messaging.broker.runtime.broker:Broker"

_ADMISSION = "messaging.broker.runtime.topics.admission"

TABLE = (
    # What comes into being by use
    Policy(
        name="auto_topic_creation",
        kind=m.Flag,
        setting="auto_topic_creation",
        path="autoTopicCreation",
        field="allowAutoTopicCreation",
        fill=True,
        label="Topics created on first use",
        meaning="A producer or consumer of a topic that does not exist creates it.",
        enforced_by=f"{_BROKER}.auto_creates",
    ),
    Policy(
        name="auto_topic_partitions",
        kind=m.Partitions,
        unit="partitions",
        default=0,
        path="autoTopicCreation",
        field="defaultNumPartitions",
        meaning="How many partitions a topic has that is created by use; 0: a plain topic.",
    ),
    Policy(
        name="auto_subscription_creation",
        kind=m.Flag,
        default=True,
        path="autoSubscriptionCreation",
        field="allowAutoSubscriptionCreation",
        fill=True,
        label="Subscriptions created on first use",
        meaning="A consumer of a durable subscription that does not exist creates it.",
        enforced_by=f"{_ADMISSION}:check_creation_by_use",
    ),
    # Delivery
    Policy(
        name="deduplication",
        kind=m.Flag,
        setting="deduplication",
        path="deduplication",
        meaning="A message that a producer sends again, with the same name and sequence id, is stored once.",
        enforced_by=f"{_BROKER}.deduplicates",
    ),
    Policy(
        name="deduplication_snapshot_entries",
        kind=m.Count,
        unit="entries",
        default=0,
        path="deduplicationSnapshotInterval",
        meaning="How many entries are stored between two snapshots of the deduplication state.",
    ),
    Policy(
        name="delayed_delivery",
        kind=m.Flag,
        default=False,
        path="delayedDelivery",
        field="active",
        fill=True,
        meaning="A message with a delivery time is delivered then.",
    ),
    Policy(
        name="delayed_delivery_tick_ms",
        kind=m.Positive,
        unit="milliseconds",
        default=1000,
        path="delayedDelivery",
        field="tickTime",
        fill=1000,
        meaning="How exactly delivery times are kept.",
    ),
    Policy(
        name="delayed_delivery_max_ms",
        kind=m.Count,
        unit="milliseconds",
        default=0,
        path="delayedDelivery",
        field="maxDeliveryDelayInMillis",
        fill=0,
        meaning="The longest delay that a producer may ask for; 0: without limit.",
    ),
    Policy(
        name="subscription_types",
        kind=m.SubscriptionTypes,
        default=[],
        path="subscriptionTypesEnabled",
        label="Subscription types",
        words={(): "all"},
        meaning="The types that a subscription may have; an empty list: all.",
        enforced_by=f"{_ADMISSION}:check_consumer",
    ),
    Policy(
        name="subscription_auth_mode",
        kind=m.SubscriptionAuthMode,
        default="None",
        path="subscriptionAuthMode",
        meaning="With `Prefix`, the name of a subscription begins with the role that uses it.",
    ),
    Policy(
        name="encryption_required",
        kind=m.Flag,
        default=False,
        path="encryptionRequired",
        meaning="Producers encrypt their messages, or are refused.",
    ),
    # Schemas
    Policy(
        name="schema_compatibility",
        kind=m.SchemaStrategy,
        default="UNDEFINED",
        path="schemaCompatibilityStrategy",
        meaning="Which change of a schema is accepted.",
    ),
    Policy(
        name="schema_auto_update",
        kind=m.Flag,
        default=True,
        path="isAllowAutoUpdateSchema",
        meaning="A producer may register a new version of a schema.",
    ),
    Policy(
        name="schema_enforced",
        kind=m.Flag,
        default=False,
        path="schemaValidationEnforced",
        meaning="A producer without a schema is refused on a topic that has one.",
    ),
    # Names that people attach
    Policy(
        name="properties",
        kind=m.Properties,
        default={},
        path="properties",
        meaning="Names and values that people attach to the namespace. They are kept and shown; nothing else follows from them.",
        enforced_by="tenants.actions.namespaces:set_policies",
    ),
)
