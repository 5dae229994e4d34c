"""Policies of limits and rates; see `registry`."""

from __future__ import annotations

from messaging.policies import model as m
from messaging.policies.model import Policy

_ADMISSION = "messaging.broker.runtime.topics.admission"
_DISPATCH = "messaging.broker.runtime.topics.dispatch_limits:DispatchLimits.allows"
_UNLIMITED = {0: "unlimited", -1: "unlimited"}
_UNACKED = "messaging.broker.core.dispatch.state:DispatchState.limit_unacked"

TABLE = (
    # Limits
    Policy(
        name="max_producers_per_topic",
        kind=m.Count,
        unit="producers",
        default=0,
        path="maxProducersPerTopic",
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
        words={0: "unlimited"},
        meaning="The same for all consumers of a subscription together; 0: unlimited.",
        enforced_by=_UNACKED,
    ),
    Policy(
        name="max_subscriptions_per_topic",
        kind=m.Count,
        unit="subscriptions",
        default=0,
        path="maxSubscriptionsPerTopic",
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
        enforced_by="messaging.broker.core.topic_quota:TopicQuota.refusal",
    ),
    # Rates
    Policy(
        name="publish_rate_messages",
        kind=m.CountOrUnlimited,
        unit="messages/s",
        default=-1,
        path="publishRate",
        field="publishThrottlingRateInMsg",
        fill=-1,
        meaning="Messages per second that a topic accepts; -1: unlimited.",
    ),
    Policy(
        name="publish_rate_bytes",
        kind=m.CountOrUnlimited,
        unit="bytes/s",
        default=-1,
        path="publishRate",
        field="publishThrottlingRateInByte",
        fill=-1,
        meaning="Bytes per second that a topic accepts; -1: unlimited.",
    ),
    *(
        policy
        for prefix, path, of, setting in (
            ("dispatch_rate", "dispatchRate", "a topic", "topic"),
            ("subscription_dispatch_rate", "subscriptionDispatchRate", "a subscription", "subscription"),
        )
        for policy in (
            Policy(
                name=f"{prefix}_messages",
                kind=m.CountOrUnlimited,
                unit="messages",
                setting=f"dispatch_throttling_rate_per_{setting}_in_msg",
                path=path,
                field="dispatchThrottlingRateInMsg",
                fill=-1,
                words=_UNLIMITED,
                meaning=f"Messages that {of} delivers per period, those in batches counted; 0 or -1: unlimited.",
                enforced_by=_DISPATCH,
            ),
            Policy(
                name=f"{prefix}_bytes",
                kind=m.CountOrUnlimited,
                unit="bytes",
                setting=f"dispatch_throttling_rate_per_{setting}_in_byte",
                path=path,
                field="dispatchThrottlingRateInByte",
                fill=-1,
                words=_UNLIMITED,
                meaning=f"Bytes that {of} delivers per period; 0 or -1: unlimited.",
                enforced_by=_DISPATCH,
            ),
            Policy(
                name=f"{prefix}_relative",
                kind=m.Flag,
                setting="dispatch_throttling_rate_relative_to_publish_rate",
                path=path,
                field="relativeToPublishRate",
                fill=False,
                meaning="The rate at which the topic is published to is added to the limit.",
                enforced_by=_DISPATCH,
            ),
            Policy(
                name=f"{prefix}_period_s",
                kind=m.Positive,
                unit="seconds",
                default=1,
                path=path,
                field="ratePeriodInSecond",
                fill=1,
                meaning="Period of this limit. The rate is even: a tenth of the period allows a tenth of the limit.",
                enforced_by=_DISPATCH,
            ),
        )
    ),
    Policy(
        name="subscribe_rate_per_consumer",
        kind=m.CountOrUnlimited,
        unit="subscribes",
        default=-1,
        path="subscribeRate",
        field="subscribeThrottlingRatePerConsumer",
        fill=-1,
        meaning="How often a consumer may subscribe per period; -1: unlimited.",
    ),
    Policy(
        name="subscribe_rate_period_s",
        kind=m.Positive,
        unit="seconds",
        default=30,
        path="subscribeRate",
        field="ratePeriodInSecond",
        fill=30,
        meaning="Period of this limit.",
    ),
)
