"""Policies of limits; see `registry`."""

from __future__ import annotations

from messaging.policies import model as m
from messaging.policies.model import Policy

_ADMISSION = "messaging.broker.runtime.topics.limits.admission"
_SHARED = "messaging.broker.runtime.topics.limits.shared_limits"
_STORED = "messaging.broker.runtime.topics.limits.tenant_ceilings:StoredCeiling"
_UNACKED = "messaging.broker.core.dispatch.state:DispatchState.limit_unacked"

TABLE = (
    Policy(
        name="max_producers_per_topic",
        kind=m.Count,
        unit="producers",
        default=0,
        path="maxProducersPerTopic",
        levels=m.WITH_TOPICS,
        words={0: "unlimited"},
        meaning="Maximum number of connected producers per topic; 0: unlimited.",
        enforced_by=f"{_ADMISSION}:check_producer",
    ),
    Policy(
        name="max_consumers_per_topic",
        kind=m.Count,
        unit="consumers",
        default=0,
        path="maxConsumersPerTopic",
        levels=m.WITH_TOPICS,
        words={0: "unlimited"},
        meaning="Maximum number of connected consumers per topic; 0: unlimited.",
        enforced_by=f"{_ADMISSION}:check_consumer",
    ),
    Policy(
        name="max_consumers_per_subscription",
        kind=m.Count,
        unit="consumers",
        default=0,
        path="maxConsumersPerSubscription",
        levels=m.WITH_TOPICS,
        words={0: "unlimited"},
        meaning="Maximum number of connected consumers per subscription; 0: unlimited.",
        enforced_by=f"{_ADMISSION}:check_consumer",
    ),
    Policy(
        name="max_unacked_per_consumer",
        kind=m.Count,
        unit="messages",
        setting="consumer_unacked_max",
        path="maxUnackedMessagesPerConsumer",
        levels=m.WITH_TOPICS,
        words={0: "unlimited"},
        meaning="A Shared or Key_Shared consumer with this many unacknowledged messages receives no more until it has "
        "acknowledged half of them; 0: unlimited.",
        enforced_by=_UNACKED,
    ),
    Policy(
        name="max_unacked_per_subscription",
        kind=m.Count,
        unit="messages",
        setting="subscription_unacked_max",
        path="maxUnackedMessagesPerSubscription",
        levels=m.WITH_TOPICS,
        words={0: "unlimited"},
        meaning="The same for all consumers of a subscription together; 0: unlimited.",
        enforced_by=_UNACKED,
    ),
    Policy(
        name="max_message_size_bytes",
        kind=m.Count,
        unit="bytes",
        default=0,
        path="maxMessageSize",
        levels=(m.Level.TOPIC,),
        label="Max message size",
        words={0: "as the broker"},
        meaning="Largest message that the topic accepts, with its metadata; a batch counts as one message, and chunked messages "
        "are not limited. 0: the broker's setting message_bytes_max.",
        enforced_by="messaging.broker.runtime.wire.send_errors:storable",
    ),
    Policy(
        name="max_subscriptions_per_topic",
        kind=m.Count,
        unit="subscriptions",
        default=0,
        path="maxSubscriptionsPerTopic",
        levels=m.WITH_TOPICS,
        words={0: "unlimited"},
        meaning="Maximum number of durable subscriptions per topic; 0: unlimited.",
        enforced_by=f"{_ADMISSION}:check_durable_subscription",
    ),
    Policy(
        name="max_topics_per_namespace",
        kind=m.Count,
        unit="topics",
        default=0,
        path="maxTopicsPerNamespace",
        words={0: "unlimited"},
        meaning="Maximum number of topics in the namespace; each partition counts. 0: unlimited.",
        enforced_by="messaging.broker.core.limits.topic_quota:TopicQuota.refusal",
    ),
    Policy(
        name="max_partitions_per_topic",
        kind=m.Count,
        unit="partitions",
        default=0,
        words={0: "as the broker"},
        meaning="Maximum number of partitions of a topic; 0: the setting partitions_per_topic_max, which is never exceeded.",
        enforced_by="messaging.broker.runtime.topics.partitions.partitions:Partitions.check_count",
    ),
    Policy(
        name="max_partitions_per_tenant",
        kind=m.Count,
        unit="partitions",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="Maximum number of partitions of all partitioned topics of the tenant together; 0: unlimited.",
        enforced_by=f"{_STORED}.room",
    ),
    Policy(
        name="max_schemas_per_tenant",
        kind=m.Count,
        unit="versions",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="Maximum number of versions of schemas that are kept of all topics of the tenant together; a deleted schema counts "
        "until it is deleted with force. 0: unlimited.",
        enforced_by=f"{_STORED}.room",
    ),
    Policy(
        name="max_stored_bytes_per_tenant",
        kind=m.Count,
        unit="bytes",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="Bytes that are stored on all topics of the tenant together, acknowledged ones included until retention deletes "
        "them. What would exceed it is refused when it is published, and so are producers that open. 0: unlimited.",
        enforced_by="messaging.broker.runtime.topics.limits.stored_bytes:TenantBytes.refusal",
    ),
    Policy(
        name="max_connections_per_tenant",
        kind=m.Count,
        unit="connections",
        setting="connections_of_tenant_max",
        levels=m.TENANT_ONLY,
        words={0: "a fair share"},
        meaning="Maximum number of connections of clients of the tenant, WebSockets included; 0: a fair share of the setting "
        "connections_max, which is never exceeded.",
        enforced_by="messaging.broker.core.limits.connection_shares:ConnectionShares.sign_in",
    ),
    Policy(
        name="max_namespaces_per_tenant",
        kind=m.Count,
        unit="namespaces",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "as the broker"},
        meaning="Maximum number of namespaces of the tenant; 0: the setting namespaces_per_tenant_max, which is never exceeded.",
        enforced_by="tenants.actions.quotas:check_another_namespace",
    ),
    Policy(
        name="max_topics_per_tenant",
        kind=m.Count,
        unit="topics",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="Maximum number of topics in all namespaces of the tenant; each partition counts. 0: unlimited.",
        enforced_by="messaging.broker.core.limits.topic_quota:TopicQuota.refusal",
    ),
    Policy(
        name="max_delayed_messages_per_tenant",
        kind=m.Count,
        unit="messages",
        default=0,
        levels=m.TENANT_ONLY,
        words={0: "unlimited"},
        meaning="Maximum number of messages that wait for their delivery time on all topics of the tenant together; a batch counts "
        "as one. What exceeds it is refused when it is published. A topic that is not loaded counts as when it was unloaded, and "
        "after a start of the broker once it is loaded again. 0: unlimited.",
        enforced_by="messaging.broker.runtime.topics.delayed.limits:DelayCheck.refusal",
    ),
    *(
        Policy(
            name=f"max_{things}_per_{scope}",
            kind=m.Count,
            unit=things,
            default=0,
            levels=levels,
            words={0: "unlimited"},
            meaning=f"Maximum number of {which} {where}; 0: unlimited.",
            enforced_by=f"{_SHARED}:{check}",
        )
        for things, which, check in (
            ("producers", "connected producers", "check_another_producer"),
            ("consumers", "connected consumers, readers included,", "check_another_consumer"),
            ("subscriptions", "durable subscriptions", "room_for_subscriptions"),
        )
        for scope, levels, where in (
            ("namespace", m.WITH_TENANTS, "on all topics of the namespace together"),
            ("tenant", m.TENANT_ONLY, "on all topics of the tenant together"),
        )
    ),
    Policy(
        name="anti_affinity_group",
        kind=m.GroupName,
        default="",
        path="antiAffinity",
        levels=m.NAMESPACE_ONLY,
        label="Anti-affinity group",
        words={"": "none"},
        meaning="Namespaces of the tenant in the same group are kept at different brokers, and in different failure domains, where "
        "there are enough of them.",
        enforced_by="messaging.broker.core.ownership.fleet_rules:FleetRules.allowed",
    ),
)
