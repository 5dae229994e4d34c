"""Limits of request bodies by object and field: our API (`tenants.rest.shapes`), Pulsar's (`/admin/v2`) and the admin RPC.

A body over a limit gets the error of its row: 400 on our API and the admin RPC, and 412 on Pulsar's API where Pulsar returns it.
"""

from __future__ import annotations

from messaging.errors import NotAcceptable, PreconditionFailed
from messaging.limits.model import Limit
from messaging.limits.sizes import (
    BATCH_MESSAGES_MAX,
    INT64_MAX,
    NAME_BYTES_MAX,
    PAIR_BYTES_MAX,
    PAIRS_COUNT_MAX,
    PAIRS_TOTAL_BYTES_MAX,
    PARTITIONS_MAX,
    ROLES_MAX,
    SCHEMA_BYTES_MAX,
    TOPIC_BYTES_MAX,
    WHY_NAME,
    WHY_PAIRS,
    WHY_SCHEMA,
    WHY_TOPIC,
)

BODY_BYTES_MAX = 1 << 20  # of REST: three times the largest body whose fields are all within their limits
BODY_VALUES_MAX = 10_000  # in the objects and lists of a body: ten times those of the longest list
BODY_DEPTH_MAX = 16  # nesting of objects and lists: valid bodies have at most 4 levels

_NAME = Limit(WHY_NAME, bytes_max=NAME_BYTES_MAX)
_TOPIC = Limit(WHY_TOPIC, bytes_max=TOPIC_BYTES_MAX)
_ROLES = Limit("all of them are compared at every permission check", bytes_max=2 * NAME_BYTES_MAX + 1, count_max=ROLES_MAX)
_CLUSTERS = Limit("there is one cluster", bytes_max=NAME_BYTES_MAX, count_max=100)
_PROPERTIES = Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX, count_max=PAIRS_COUNT_MAX, total_bytes_max=PAIRS_TOTAL_BYTES_MAX)
_PARTITIONS = Limit("each partition is a topic", minimum=0, maximum=PARTITIONS_MAX)
_PULSAR_PARTITIONS = Limit("each partition is a topic", minimum=1, maximum=PARTITIONS_MAX, error=NotAcceptable)
_COUNT_OR_UNLIMITED = Limit("exactly representable in JSON; -1 is unlimited", minimum=-1, maximum=2**53 - 1)
_VERSION = Limit("incremented with each change, 64 bits", minimum=0, maximum=INT64_MAX)
_LEDGER_ID = Limit("a position: -1 is the earliest, 2^63-1 the latest", minimum=-1, maximum=INT64_MAX)
_SCHEMA_TYPE = Limit("one of about twenty names", bytes_max=64)
_SCHEMA = Limit("a quarter of a request body; clients of the binary protocol may send more", bytes_max=BODY_BYTES_MAX // 4)

_MILLISECONDS = Limit("milliseconds since 1970, 64 bits", minimum=0, maximum=INT64_MAX)
_REDRIVEN = Limit("a count", minimum=0, maximum=1_000_000)
_REDELIVERIES = Limit("a 32-bit number, as with Pulsar's clients", minimum=0, maximum=2**31 - 1)

_LABELS = Limit("each is a choice in the cost explorer", bytes_max=255, count_max=50, total_bytes_max=8192)

API: dict[str, Limit] = {
    "NewTenant.name": _NAME,
    "NewTenant.admin_roles": _ROLES,
    "NewTenant.allowed_clusters": _CLUSTERS,
    "TenantChange.admin_roles": _ROLES,
    "TenantChange.allowed_clusters": _CLUSTERS,
    "LabelsShape.labels": _LABELS,
    "NewNamespace.name": _NAME,
    "NewNamespace.policies": Limit("the policies have their own limits (messaging.policies)", count_max=100),
    "PermissionActions.actions": Limit("there are six actions", bytes_max=64, count_max=16),
    "NewTopic.name": _NAME,
    "NewTopic.partitions": _PARTITIONS,
    "NewKey.name": _NAME,
    "NewDeadLetterPolicy.max_redeliver_count": _REDELIVERIES,
    "NewDeadLetterPolicy.target": _TOPIC,
    "NewDeadLetterPolicy.initial_subscription": _NAME,
}

API |= {
    "DelayedTime.deliver_at_ms": _MILLISECONDS,
    "DelayedTime.delay_ms": _MILLISECONDS,
    "DelayedTimeOfKey.key": _TOPIC,
    "DelayedTimeOfKey.deliver_at_ms": _MILLISECONDS,
    "DelayedTimeOfKey.delay_ms": _MILLISECONDS,
    "DelayedTimeOfKey.after": Limit("a message id: ledger:entry", bytes_max=40),
    "DelayedTimeOfKey.limit": Limit("messages changed by one request", minimum=1, maximum=1_000),
    "NewAlertRule.name": Limit("is shown in notices", bytes_max=200),
    "NewAlertRule.topic": _TOPIC,
    "NewAlertRule.subscription": _NAME,
    "NewAlertRule.threshold": Limit("a 63-bit number", minimum=0, maximum=2**62),
    "NewAlertRule.clear": Limit("a 63-bit number", minimum=0, maximum=2**62),
    "NewAlertRule.hold_s": Limit("within a day", minimum=0, maximum=86_400),
    "NewNotifications.webhook_url": Limit("a URL", bytes_max=2000),
    "NewNotifications.mail_to": Limit("mail addresses", bytes_max=320, count_max=10),
    "NewRedrive.target": _TOPIC,
    "NewRedrive.subscription": _NAME,
    "NewRedrive.key": _TOPIC,
    "NewRedrive.property_name": Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX),
    "NewRedrive.property_value": Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX),
    "NewRedrive.origin_subscription": _NAME,
    "NewRedrive.from_ms": _MILLISECONDS,
    "NewRedrive.until_ms": _MILLISECONDS,
    "NewRedrive.redriven_max": _REDRIVEN,
    "NewRedrive.rate": Limit("messages per second", minimum=0, maximum=1_000_000),
    "NewRedrive.idempotency_key": _NAME,
}

_PLAN_NAME = Limit("names of price plans have 63 characters", bytes_max=63)
_DETAILS = Limit("is printed on invoices", bytes_max=1000, count_max=8)
_CURRENCY = Limit("a code of ISO 4217", bytes_max=3)
_AMOUNT = Limit("18 digits on each side of the point", bytes_max=40)

API |= {
    "NewPricePlan.document": Limit("a price plan; its fields have their own limits (workers.rating.plan)", count_max=16),
    "NewIssuer.details": _DETAILS,
    "NewIssuer.forgiven_minor": Limit("an amount of a few cents", minimum=0, maximum=1_000_000),
    "BillingChange.details": _DETAILS,
    "BillingChange.tax_label": Limit("is printed on invoices", bytes_max=40),
    "BillingChange.tax_rate": Limit("per cent, with a few digits", bytes_max=12),
    "BillingChange.payment_days": Limit("within a year", minimum=0, maximum=365),
    "NewPlanAssignment.plan": _PLAN_NAME,
    "NewCredit.title": Limit("is printed on invoices", bytes_max=200),
    "NewCredit.currency": _CURRENCY,
    "NewCredit.amount": _AMOUNT,
    "NewCreditNote.note": Limit("is printed on the credit note", bytes_max=1000),
    "NewCreditNote.amounts": Limit("one for each line of an invoice", bytes_max=200, count_max=500),
}

_TITLE = Limit("is shown in lists and mails", bytes_max=100)
_NAMESPACE = Limit("two names and a slash", bytes_max=2 * NAME_BYTES_MAX + 1)
_THRESHOLDS = Limit("each is told once a month", count_max=10)
_EMAILS = Limit("each is sent a mail", bytes_max=320, count_max=5)
_BY = Limit("a level, or a label", bytes_max=80)

API |= {
    "NewBudget.name": _TITLE,
    "NewBudget.amount": _AMOUNT,
    "NewBudget.currency": _CURRENCY,
    "NewBudget.namespace": _NAMESPACE,
    "NewBudget.thresholds": _THRESHOLDS,
    "NewBudget.emails": _EMAILS,
    "BudgetChange.name": _TITLE,
    "BudgetChange.amount": _AMOUNT,
    "BudgetChange.currency": _CURRENCY,
    "BudgetChange.namespace": _NAMESPACE,
    "BudgetChange.thresholds": _THRESHOLDS,
    "BudgetChange.emails": _EMAILS,
    "NewReportSchedule.name": _TITLE,
    "NewReportSchedule.by": _BY,
    "NewReportSchedule.emails": _EMAILS,
    "ReportScheduleChange.name": _TITLE,
    "ReportScheduleChange.by": _BY,
    "ReportScheduleChange.emails": _EMAILS,
}

PULSAR: dict[str, Limit] = {
    # Bodies that are a single value
    "body.actions": Limit("there are six actions", bytes_max=64, count_max=16),
    "body.roles": _ROLES,
    "body.clusters": _CLUSTERS,
    "body.properties": _PROPERTIES,
    "body.partitions": _PULSAR_PARTITIONS,
    "body.policy": Limit(
        "the largest policy is `properties`",
        bytes_max=PAIR_BYTES_MAX,
        count_max=PAIRS_COUNT_MAX,
        total_bytes_max=PAIRS_TOTAL_BYTES_MAX,
    ),
    "body.policies": Limit("Pulsar's Policies object has 50 fields", count_max=128, error=PreconditionFailed),
    "body.grants": Limit("each names a topic, which is looked up", count_max=100),
    "body.position": Limit("earliest or latest", bytes_max=64),
    # Objects
    "TenantInfo.admin_roles": _ROLES,
    "TenantInfo.allowed_clusters": _CLUSTERS,
    "BundlesData.num_bundles": Limit("ignored; 32 bits", minimum=0, maximum=2**31 - 1, error=PreconditionFailed),
    "CreationPolicies.replication_clusters": _CLUSTERS,
    "CreationPolicies.cluster_that_can_delete": Limit("the name of a cluster", bytes_max=256),
    "BacklogQuota.limit_size": _COUNT_OR_UNLIMITED,
    "BacklogQuota.limit": _COUNT_OR_UNLIMITED,
    "BacklogQuota.limit_time": _COUNT_OR_UNLIMITED,
    "BacklogQuota.policy": Limit("one of three values", bytes_max=64),
    "PartitionedTopicMetadata.partitions": _PULSAR_PARTITIONS,
    "PartitionedTopicMetadata.properties": _PROPERTIES,
    "SchemaPayload.type": _SCHEMA_TYPE,
    "SchemaPayload.schema": _SCHEMA,
    "SchemaPayload.properties": _PROPERTIES,
    "TopicGrant.topic": _TOPIC,
    "TopicGrant.role": Limit("a role", bytes_max=2 * NAME_BYTES_MAX + 1),
    "TopicGrant.actions": Limit("there are six actions", bytes_max=64, count_max=16),
    "ResetCursorData.ledger_id": _LEDGER_ID,
    "ResetCursorData.entry_id": _LEDGER_ID,
    "ResetCursorData.partition_index": Limit("a partition, or -1", minimum=-1, maximum=PARTITIONS_MAX - 1),
    "ResetCursorData.batch_index": Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1),
    "ResetCursorData.properties": _PROPERTIES,
}

# The admin RPC, by field: a field name means the same in every request.
RPC: dict[str, Limit] = {
    "id": Limit("an id that the broker gave a change", bytes_max=64),
    "topic": _TOPIC,
    "namespace": Limit("two names and a slash", bytes_max=2 * NAME_BYTES_MAX + 1),
    "subscription": _NAME,
    "tenant": _NAME,
    "tenant_uid": Limit("an id that the platform gave a tenant", bytes_max=64),
    "properties": _PROPERTIES,
    "removed": Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX),
    "partitions": _PARTITIONS,
    "type": _SCHEMA_TYPE,
    "data": Limit(WHY_SCHEMA, bytes_max=SCHEMA_BYTES_MAX),
    "role": Limit(WHY_NAME, bytes_max=2 * NAME_BYTES_MAX + 1),
    "ledger_id": _LEDGER_ID,
    "entry_id": _LEDGER_ID,
    "timestamp_ms": Limit("milliseconds since 1970, 64 bits", minimum=0, maximum=INT64_MAX),
    "older_than_s": Limit("seconds; the milliseconds fit 64 bits", minimum=0, maximum=INT64_MAX // 1000),
    "entries": Limit("of one subscription, 64 bits", minimum=0, maximum=INT64_MAX),
    "max_redeliver_count": _REDELIVERIES,
    "target": _TOPIC,
    "initial_subscription": _NAME,
    "session": Limit("the id of a compaction: 32 hexadecimal digits", bytes_max=64),
    "blocks": Limit("of one page", count_max=10_000),
    "block_header": Limit("of a block in the log", bytes_max=65_535),
    "block_data": Limit("a page, or one entry; the size of the request limits all together", bytes_max=BODY_BYTES_MAX * 16),
    "end_offsets": Limit("ids of a block, holes included", count_max=10_000),
    "first_entry": _LEDGER_ID,
    "removed_messages": Limit("of one topic, 64 bits", minimum=0, maximum=INT64_MAX),
    "last_batch_index": Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1),
    "error": Limit("is shown to administrators", bytes_max=4096),
    "owner": Limit("the role of a key or a person", bytes_max=2 * NAME_BYTES_MAX + 1),
    "position": Limit("counts from 1, 64 bits", minimum=1, maximum=INT64_MAX),
    "after": _TOPIC,
    "words": Limit("part of the name of a topic or subscription", bytes_max=TOPIC_BYTES_MAX),
    "tenants": Limit("tenants that are searched at once", bytes_max=NAME_BYTES_MAX, count_max=100),
    "limit": Limit("topics of one page", minimum=1, maximum=10_000),
    "topics": Limit("topics of one page", bytes_max=TOPIC_BYTES_MAX, count_max=10_000),
    "task_id": _NAME,
    "boot_id": Limit("identifies one run of a broker: 32 hexadecimal digits", bytes_max=64),
    "acknowledged_sequence": Limit("number of an audit event within one run of a broker, 64 bits", minimum=0, maximum=INT64_MAX),
    "from_version": _VERSION,
    "newest_version": _VERSION,
    "feed_id": _NAME,
    "next_key": _TOPIC,
    "to_version": _VERSION,
    "version": _VERSION,
    "changes": Limit("of all tenants together; limited by the body size and sent only by the control plane", count_max=1_000_000),
    "kind": Limit("one of a few values", bytes_max=64),
    "key": _TOPIC,
    "policies": Limit("the policies have their own limits (messaging.policies)", count_max=100),
    "state": Limit("one namespace with its grants, which have their own limits", count_max=64),
    "property_name": Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX),
    "property_value": Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX),
    "from_ms": _MILLISECONDS,
    "until_ms": _MILLISECONDS,
    "origin_subscription": _NAME,
    "redriven_max": _REDRIVEN,
    "deliver_at_ms": _MILLISECONDS,
    "after_ms": Limit("milliseconds since 1970, -1: from the first on", minimum=-1, maximum=INT64_MAX),
    "batch_index": Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1),
    "job": Limit("the id of a redrive: 32 hexadecimal digits", bytes_max=64),
    "step": Limit("counts the steps of a redrive", minimum=0, maximum=2**31 - 1),
    "positions": Limit("of one step of a redrive", count_max=1_000),
}
