"""The registry in the order in which people look for it: groups, and in them subjects, policies that are decided together.

What Pulsar sets with one call is one subject, so that values which must not contradict each other are seen and set at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from messaging.policies.model import TENANT_ONLY, Level, Policy
from messaging.policies.registry import ENFORCED


class Subject(NamedTuple):
    """`name`: in addresses; that of its policy where it has only one."""

    name: str
    title: str
    policies: tuple[Policy, ...]

    def at(self, level: Level) -> tuple[Policy, ...]:
        """Those that may be set there."""
        return tuple(policy for policy in self.policies if level in policy.levels)


class Group(NamedTuple):
    name: str
    title: str
    subjects: tuple[Subject, ...]


def _together(name: str, title: str, *policies: str) -> Subject:
    return Subject(name, title, tuple(ENFORCED[policy] for policy in policies))


def _alone(*names: str) -> Sequence[Subject]:
    return [Subject(name, ENFORCED[name].title, (ENFORCED[name],)) for name in names]


def _rate(name: str, title: str, *fields: str) -> Subject:
    return _together(name, title, *(f"{name}_{field}" for field in fields))


_DISPATCH = ("messages", "bytes", "relative", "period_s")

GROUPS: tuple[Group, ...] = (
    Group(
        "storage",
        "Time and storage",
        (
            *_alone("message_ttl_s"),
            _together("retention", "Retention", "retention_time_min", "retention_size_mb"),
            _together("backlog_quota_size", "Backlog quota by size", "backlog_quota_bytes", "backlog_quota_bytes_policy"),
            _together("backlog_quota_age", "Backlog quota by age", "backlog_quota_age_s", "backlog_quota_age_policy"),
            *_alone("compaction_threshold_bytes"),
            _together(
                "persistence",
                "Persistence",
                "persistence_ensemble",
                "persistence_write_quorum",
                "persistence_ack_quorum",
                "persistence_mark_delete_rate",
            ),
        ),
    ),
    Group(
        "lifetime",
        "Creation and deletion",
        (
            _together("auto_topic_creation", "Auto-creation of topics", "auto_topic_creation", "auto_topic_partitions"),
            *_alone("auto_subscription_creation"),
            _together(
                "inactive_topics", "Inactive topics", "inactive_topic_delete", "inactive_topic_mode", "inactive_topic_after_s"
            ),
            *_alone("subscription_expiration_min", "deletion_protected", "recycle_bin_retention_hours"),
        ),
    ),
    Group(
        "delivery",
        "Delivery",
        (
            _together("deduplication", "Deduplication", "deduplication", "deduplication_snapshot_interval_s"),
            _together(
                "delayed_delivery",
                "Delayed delivery",
                "delayed_delivery",
                "delayed_delivery_tick_ms",
                "delayed_delivery_max_ms",
                "delayed_delivery_default_ms",
                "delayed_delivery_fixed_ms",
            ),
            *_alone("subscription_types", "max_unacked_per_consumer", "max_unacked_per_subscription"),
        ),
    ),
    Group("safety", "Access and encryption", tuple(_alone("masked_fields", "subscription_auth_mode", "encryption_required"))),
    Group("schemas", "Schemas", tuple(_alone("schema_compatibility", "schema_auto_update", "schema_enforced"))),
    Group(
        "rates",
        "Rates",
        (
            _rate("publish_rate", "Publish rate of a topic", "messages", "bytes"),
            _rate("dispatch_rate", "Dispatch rate of a topic", *_DISPATCH),
            _rate("subscription_dispatch_rate", "Dispatch rate of a subscription", *_DISPATCH),
            _together("subscribe_rate", "Subscribe rate", "subscribe_rate_per_consumer", "subscribe_rate_period_s"),
            _rate("namespace_publish_rate", "Publish rate of the namespace", "messages", "bytes"),
            _rate("namespace_dispatch_rate", "Dispatch rate of the namespace", "messages", "bytes"),
        ),
    ),
    Group(
        "limits",
        "Limits",
        tuple(
            _alone(
                "max_message_size_bytes",
                "max_producers_per_topic",
                "max_consumers_per_topic",
                "max_consumers_per_subscription",
                "max_subscriptions_per_topic",
                "max_partitions_per_topic",
                "max_topics_per_namespace",
                "max_producers_per_namespace",
                "max_consumers_per_namespace",
                "max_subscriptions_per_namespace",
            )
        ),
    ),
    Group(
        "ceilings",
        "Ceilings of the tenant",
        (
            _rate("tenant_publish_rate", "Publish rate of the tenant", "messages", "bytes"),
            _rate("tenant_dispatch_rate", "Dispatch rate of the tenant", "messages", "bytes"),
            _together("max_retention", "Greatest retention", "max_retention_time_min", "max_retention_size_mb"),
            *_alone(
                *(
                    name
                    for name, policy in ENFORCED.items()
                    if policy.levels == TENANT_ONLY and not name.startswith(("tenant_publish", "tenant_dispatch", "max_retention"))
                )
            ),
        ),
    ),
    Group("placement", "Placement", tuple(_alone("anti_affinity_group"))),
    Group("properties", "Properties", tuple(_alone("properties"))),
)
SUBJECTS: dict[str, Subject] = {subject.name: subject for group in GROUPS for subject in group.subjects}
SUBJECT_OF: dict[str, Subject] = {policy.name: subject for subject in SUBJECTS.values() for policy in subject.policies}
