"""Policies of retention, quotas and storage; see `registry`."""

from __future__ import annotations

from messaging.policies import model as m
from messaging.policies.model import Policy

_TOPIC = "messaging.broker.core.topic_policies:TopicPolicies"

_QUOTA = "messaging.broker.runtime.topics.backlog_quota:quota_of"

TABLE = (
    # Time and room
    Policy(
        name="message_ttl_s",
        kind=m.Seconds,
        unit="seconds",
        setting="message_ttl_s",
        path="messageTTL",
        label="Message TTL",
        phrase="after {}",
        words={0: "never"},
        meaning="A message that is not acknowledged within this time is acknowledged automatically; 0: never.",
        enforced_by=f"{_TOPIC}.message_ttl_s",
    ),
    Policy(
        name="retention_time_min",
        kind=m.CountOrUnlimited,
        unit="minutes",
        setting="retention_time_min",
        path="retention",
        field="retentionTimeInMinutes",
        fill=0,
        label="Retention time",
        phrase="for {}",
        words={0: "not at all", -1: "unlimited"},
        meaning="How long messages are kept after all subscriptions have acknowledged them; 0: not at all, -1: unlimited.",
        enforced_by="messaging.storage.managed.retention:droppable",
    ),
    Policy(
        name="retention_size_mb",
        kind=m.CountOrUnlimited,
        unit="MiB",
        setting="retention_size_mb",
        path="retention",
        field="retentionSizeInMB",
        fill=0,
        label="Retention size",
        phrase="up to {}",
        words={0: "not at all", -1: "unlimited"},
        meaning="How much acknowledged data is kept per topic; the stricter of time and size applies. 0: none, -1: unlimited.",
        enforced_by="messaging.storage.managed.retention:droppable",
    ),
    Policy(
        name="backlog_quota_bytes",
        kind=m.CountOrUnlimited,
        unit="bytes",
        default=-1,
        path="backlogQuota",
        field="destination_storage.limitSize",
        meaning="Size limit of a topic's backlog, that of its slowest durable subscription; -1: unlimited.",
        enforced_by=_QUOTA,
    ),
    Policy(
        name="backlog_quota_bytes_policy",
        kind=m.QuotaAction,
        default="producer_request_hold",
        path="backlogQuota",
        field="destination_storage.policy",
        meaning="What happens when `backlog_quota_bytes` is exceeded.",
        enforced_by=_QUOTA,
    ),
    Policy(
        name="backlog_quota_age_s",
        kind=m.CountOrUnlimited,
        unit="seconds",
        default=-1,
        path="backlogQuota",
        field="message_age.limitTime",
        meaning="Age limit of the oldest unacknowledged message of a topic; -1: unlimited.",
        enforced_by=_QUOTA,
    ),
    Policy(
        name="backlog_quota_age_policy",
        kind=m.QuotaAction,
        default="producer_request_hold",
        path="backlogQuota",
        field="message_age.policy",
        meaning="What happens when `backlog_quota_age_s` is exceeded.",
        enforced_by=_QUOTA,
    ),
    Policy(
        name="subscription_expiration_min",
        kind=m.Count,
        unit="minutes",
        default=0,
        path="subscriptionExpirationTime",
        meaning="A subscription without consumers is deleted after this time; 0: never.",
    ),
    Policy(
        name="compaction_threshold_bytes",
        kind=m.Count,
        unit="bytes",
        default=0,
        path="compactionThreshold",
        meaning="A backlog of this size triggers compaction of the topic; 0: never.",
    ),
    Policy(
        name="inactive_topic_delete",
        kind=m.Flag,
        default=False,
        path="inactiveTopicPolicies",
        field="deleteWhileInactive",
        fill=True,
        meaning="Delete inactive topics.",
    ),
    Policy(
        name="inactive_topic_mode",
        kind=m.InactiveMode,
        default="delete_when_no_subscriptions",
        path="inactiveTopicPolicies",
        field="inactiveTopicDeleteMode",
        fill="delete_when_no_subscriptions",
        meaning="Which topics count as inactive.",
    ),
    Policy(
        name="inactive_topic_after_s",
        kind=m.Positive,
        unit="seconds",
        default=60,
        path="inactiveTopicPolicies",
        field="maxInactiveDurationSeconds",
        fill=60,
        meaning="How long a topic must be inactive before it is deleted.",
    ),
    # Storage
    *(
        Policy(name=f"persistence_{name}", kind=m.Positive, default=1, path="persistence", field=field, fill=2, meaning=meaning)
        for name, field, meaning in (
            ("ensemble", "bookkeeperEnsemble", "Number of bookies across which a ledger is spread."),
            ("write_quorum", "bookkeeperWriteQuorum", "Number of copies of each entry."),
            ("ack_quorum", "bookkeeperAckQuorum", "Number of copies that must be acknowledged before a receipt is sent."),
        )
    ),
    Policy(
        name="persistence_mark_delete_rate",
        kind=m.Rate,
        unit="writes/s",
        default=0.0,
        path="persistence",
        field="managedLedgerMaxMarkDeleteRate",
        fill=0.0,
        meaning="How often a cursor's mark-delete position is written; 0: unlimited.",
    ),
)
