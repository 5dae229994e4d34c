"""The policies of a namespace: flat, typed, with units in the names. What is None is not set, and inherits.

Which of them a broker acts on is the broker's affair (docs/compatibility.md has the list); all are validated and kept.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from messaging.errors import InvalidValue, PreconditionFailed

_LIMIT = 2**53 - 1  # what JSON readers keep exactly
Count = Annotated[int, Meta(ge=0, le=_LIMIT)]
Positive = Annotated[int, Meta(ge=1, le=_LIMIT)]
CountOrUnlimited = Annotated[int, Meta(ge=-1, le=_LIMIT)]
Seconds = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Partitions = Annotated[int, Meta(ge=0, le=100_000)]
Rate = Annotated[float, Meta(ge=0, le=_LIMIT)]
QuotaPolicy = Literal["producer_request_hold", "producer_exception", "consumer_backlog_eviction"]
SubscriptionType = Literal["Exclusive", "Shared", "Failover", "Key_Shared"]
SchemaStrategy = Literal[
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
]


class Policies(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True, kw_only=True, frozen=True):
    # Time and room
    message_ttl_s: Seconds | None = None  # 0: messages do not expire
    retention_time_min: CountOrUnlimited | None = None  # -1: for ever
    retention_size_mb: CountOrUnlimited | None = None  # -1: without limit
    backlog_quota_bytes: CountOrUnlimited | None = None
    backlog_quota_bytes_policy: QuotaPolicy | None = None
    backlog_quota_age_s: CountOrUnlimited | None = None
    backlog_quota_age_policy: QuotaPolicy | None = None
    subscription_expiration_min: Count | None = None
    compaction_threshold_bytes: Count | None = None
    inactive_topic_delete: bool | None = None
    inactive_topic_mode: Literal["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"] | None = None
    inactive_topic_after_s: Positive | None = None
    # What comes into being by use
    auto_topic_creation: bool | None = None
    auto_topic_partitions: Partitions | None = None  # 0: a plain topic
    auto_subscription_creation: bool | None = None
    # Delivery
    deduplication: bool | None = None
    deduplication_snapshot_entries: Count | None = None
    delayed_delivery: bool | None = None
    delayed_delivery_tick_ms: Positive | None = None
    delayed_delivery_max_ms: Count | None = None  # 0: without limit
    subscription_types: list[SubscriptionType] | None = None
    subscription_auth_mode: Literal["None", "Prefix"] | None = None
    encryption_required: bool | None = None
    # Limits; 0: without limit
    max_producers_per_topic: Count | None = None
    max_consumers_per_topic: Count | None = None
    max_consumers_per_subscription: Count | None = None
    max_unacked_per_consumer: Count | None = None
    max_unacked_per_subscription: Count | None = None
    max_subscriptions_per_topic: Count | None = None
    max_topics_per_namespace: Count | None = None
    # Rates; -1: without limit
    publish_rate_messages: CountOrUnlimited | None = None
    publish_rate_bytes: CountOrUnlimited | None = None
    dispatch_rate_messages: CountOrUnlimited | None = None
    dispatch_rate_bytes: CountOrUnlimited | None = None
    dispatch_rate_relative: bool | None = None
    dispatch_rate_period_s: Positive | None = None
    subscription_dispatch_rate_messages: CountOrUnlimited | None = None
    subscription_dispatch_rate_bytes: CountOrUnlimited | None = None
    subscription_dispatch_rate_relative: bool | None = None
    subscription_dispatch_rate_period_s: Positive | None = None
    subscribe_rate_per_consumer: CountOrUnlimited | None = None
    subscribe_rate_period_s: Positive | None = None
    # Schemas
    schema_compatibility: SchemaStrategy | None = None
    schema_auto_update: bool | None = None
    schema_enforced: bool | None = None
    # Storage
    persistence_ensemble: Positive | None = None
    persistence_write_quorum: Positive | None = None
    persistence_ack_quorum: Positive | None = None
    persistence_mark_delete_rate: Rate | None = None
    # Names that people attach
    properties: dict[str, str] | None = None

    def __post_init__(self) -> None:
        """Rules between fields. Raises `PreconditionFailed`, which is how Pulsar answers them."""
        if self.properties and any("\x00" in text for pair in self.properties.items() for text in pair):
            raise PreconditionFailed("a property holds a NUL character, which cannot be stored: leave it out")
        time_min, size_mb = self.retention_time_min, self.retention_size_mb
        if time_min is not None and size_mb is not None and (time_min == 0) != (size_mb == 0):
            raise PreconditionFailed(
                f"retention of {time_min} min and {size_mb} MB keeps nothing: set both to 0 for none, or -1 for no limit"
            )
        quota, keeps = self.backlog_quota_bytes, (size_mb or 0) << 20
        if quota is not None and quota >= 0 and keeps > 0 and quota >= keeps:
            raise PreconditionFailed(f"a backlog quota of {quota} bytes is not below the retention of {size_mb} MB: lower it")
        quota_age, keeps_s = self.backlog_quota_age_s, (time_min or 0) * 60
        if quota_age is not None and quota_age >= 0 and keeps_s > 0 and quota_age >= keeps_s:
            raise PreconditionFailed(f"a backlog quota of {quota_age} s is not below the retention of {time_min} min: lower it")
        ensemble, write, ack = self.persistence_ensemble, self.persistence_write_quorum, self.persistence_ack_quorum
        if ensemble is not None and write is not None and ack is not None and not ensemble >= write >= ack:
            raise PreconditionFailed(
                f"persistence {ensemble}/{write}/{ack} is not possible: ensemble >= write quorum >= ack quorum"
            )


NAMES = frozenset(Policies.__struct_fields__)
JsonPolicies = dict[str, object]


def stored(policies: JsonPolicies) -> Policies:
    """Policies as a row holds them. What this release does not know is passed over."""
    return msgspec.convert({name: value for name, value in policies.items() if name in NAMES}, Policies)


def changed(policies: JsonPolicies, changes: JsonPolicies) -> JsonPolicies:
    """`policies` with `changes` applied, in the shape that is stored; a value of None unsets.

    Raises `InvalidValue` naming the field that is unknown or wrong, `PreconditionFailed` where fields contradict each other.
    """
    merged = {**policies, **changes}
    try:
        valid = msgspec.convert({name: value for name, value in merged.items() if value is not None}, Policies)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, PreconditionFailed):
            raise error.__cause__ from None
        raise InvalidValue(f"policies are not valid: {error}") from None
    return {name: value for name in NAMES if (value := getattr(valid, name)) is not None}
