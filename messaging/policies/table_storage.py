"""Policies of how long and where messages are kept; see `registry`."""

from __future__ import annotations

from messaging.policies import model as m
from messaging.policies.model import Policy

_BROKER = "messaging.broker.runtime.broker:Broker"

TABLE = (
    # Time and room
    Policy(
        name="message_ttl_s",
        kind=m.Seconds,
        unit="seconds",
        setting="message_ttl_s",
        path="messageTTL",
        label="Message expiry (TTL)",
        phrase="after {}",
        words={0: "never"},
        meaning="A message that a subscription has not acknowledged after this time counts as acknowledged; 0: never.",
        enforced_by=f"{_BROKER}.message_ttl_s",
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
        words={0: "not at all", -1: "for ever"},
        meaning="How long messages stay that every subscription has acknowledged; 0: not at all, -1: for ever.",
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
        words={0: "not at all", -1: "without limit"},
        meaning="How much of them stays for each topic; the stricter of time and size holds. 0: nothing, -1: without limit.",
        enforced_by="messaging.storage.managed.retention:droppable",
    ),
    Policy(
        name="backlog_quota_bytes",
        kind=m.CountOrUnlimited,
        unit="bytes",
        default=-1,
        path="backlogQuota",
        field="destination_storage.limitSize",
        meaning="The most that may be stored and not acknowledged in a topic; -1: without limit.",
    ),
    Policy(
        name="backlog_quota_bytes_policy",
        kind=m.QuotaAction,
        default="producer_request_hold",
        path="backlogQuota",
        field="destination_storage.policy",
        meaning="What happens when `backlog_quota_bytes` is passed.",
    ),
    Policy(
        name="backlog_quota_age_s",
        kind=m.CountOrUnlimited,
        unit="seconds",
        default=-1,
        path="backlogQuota",
        field="message_age.limitTime",
        meaning="How old the oldest unacknowledged message of a topic may be; -1: without limit.",
    ),
    Policy(
        name="backlog_quota_age_policy",
        kind=m.QuotaAction,
        default="producer_request_hold",
        path="backlogQuota",
        field="message_age.policy",
        meaning="What happens when `backlog_quota_age_s` is passed.",
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
        meaning="A backlog of this size starts a compaction of the topic; 0: never.",
    ),
    Policy(
        name="inactive_topic_delete",
        kind=m.Flag,
        default=False,
        path="inactiveTopicPolicies",
        field="deleteWhileInactive",
        fill=True,
        meaning="A topic that nobody uses is deleted.",
    ),
    Policy(
        name="inactive_topic_mode",
        kind=m.InactiveMode,
        default="delete_when_no_subscriptions",
        path="inactiveTopicPolicies",
        field="inactiveTopicDeleteMode",
        fill="delete_when_no_subscriptions",
        meaning="Which topics count as not used.",
    ),
    Policy(
        name="inactive_topic_after_s",
        kind=m.Positive,
        unit="seconds",
        default=60,
        path="inactiveTopicPolicies",
        field="maxInactiveDurationSeconds",
        fill=60,
        meaning="After how long without use a topic is deleted.",
    ),
    # Storage
    *(
        Policy(name=f"persistence_{name}", kind=m.Positive, default=1, path="persistence", field=field, fill=2, meaning=meaning)
        for name, field, meaning in (
            ("ensemble", "bookkeeperEnsemble", "Stores that a ledger is spread over."),
            ("write_quorum", "bookkeeperWriteQuorum", "Copies of each entry."),
            ("ack_quorum", "bookkeeperAckQuorum", "Copies that are waited for."),
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
        meaning="How often the position of a cursor is written; 0: without limit.",
    ),
)
