"""The objects of our API, used for validation and for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from messaging.policies.api_schema import policies_schema
from messaging.policies.validation import split
from tenants.models import AuditRecord, Key, Membership, Namespace, Tenant

POLICIES = {"application/json": policies_schema()}
POLICIES_GIVEN = {"application/json": policies_schema(nullable=True)}


@extend_schema_field(policies_schema())
class PoliciesField(serializers.DictField):
    """The policies that can be set."""


@extend_schema_field(policies_schema(nullable=True))
class PoliciesGivenField(serializers.DictField):
    """The same; null removes a policy, so that it is inherited."""


class Problem(serializers.Serializer[Any]):
    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What was wrong and what to do.")
    code = serializers.CharField(help_text="A stable code for programs.")
    request_id = serializers.CharField(help_text="Also in the header X-Request-ID, the logs and the audit log.")


class Me(serializers.Serializer[Any]):
    role = serializers.CharField()
    key_id = serializers.CharField(allow_blank=True)
    superuser = serializers.BooleanField()


class TenantShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    admin_roles = serializers.ListField(child=serializers.CharField())
    allowed_clusters = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()


class NewTenant(serializers.Serializer[Any]):
    name = serializers.CharField()
    admin_roles = serializers.ListField(child=serializers.CharField(), required=False)
    allowed_clusters = serializers.ListField(child=serializers.CharField(), required=False)


class TenantChange(serializers.Serializer[Any]):
    admin_roles = serializers.ListField(child=serializers.CharField(), required=False)
    allowed_clusters = serializers.ListField(child=serializers.CharField(), required=False)


class LabelsShape(serializers.Serializer[Any]):
    labels = serializers.DictField(child=serializers.CharField(), help_text="Key to value, such as team to payments.")


class NamespaceShape(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="tenant/namespace")
    tenant = serializers.CharField()
    policies = PoliciesField(help_text="Policies set on the namespace; others are inherited.")
    policies_not_enforced = serializers.DictField(
        help_text="Stored by an earlier release but not enforced; null in a PATCH of the policies removes one."
    )
    created_at = serializers.DateTimeField()


class NewNamespace(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Without the tenant.")
    policies = PoliciesGivenField(required=False)


class PolicyInForce(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    value = serializers.JSONField(help_text="The value in force.")
    text = serializers.CharField(help_text="The same in words, with its unit.")
    unit = serializers.CharField(allow_blank=True)
    level = serializers.CharField(help_text="Where the value in force is set.")
    set = serializers.DictField(help_text="level -> what is set there")
    levels = serializers.ListField(child=serializers.CharField(), help_text="Where it may be set, the nearest first.")
    meaning = serializers.CharField()
    pulsar = serializers.CharField(help_text="Pulsar's name.")


class PoliciesInForce(serializers.Serializer[Any]):
    policies = PolicyInForce(many=True)


class PolicyEffect(serializers.Serializer[Any]):
    policy = serializers.CharField()
    topic = serializers.CharField(allow_blank=True, help_text="Empty: the namespace.")
    subscription = serializers.CharField(allow_blank=True)
    affected = serializers.IntegerField(help_text="How many things or bytes, as the sentence says.")
    sentence = serializers.CharField()


class PolicyPreviewAnswer(serializers.Serializer[Any]):
    effects = PolicyEffect(many=True)
    effects_count = serializers.IntegerField(help_text="How many there are; the first 200 are listed.")
    topics_looked_at = serializers.IntegerField()
    topics_left_out = serializers.IntegerField(help_text="Topics that are not loaded, or beyond the first 500.")


class Permissions(serializers.Serializer[Any]):
    permissions = serializers.DictField(child=serializers.ListField(child=serializers.CharField()), help_text="role -> actions")


class PermissionActions(serializers.Serializer[Any]):
    actions = serializers.ListField(child=serializers.CharField())


class TopicShape(serializers.Serializer[Any]):
    topic = serializers.CharField(help_text="Full name.")
    partitions = serializers.IntegerField(help_text="0: a non-partitioned topic.")


class NewTopic(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Without domain, tenant and namespace.")
    partitions = serializers.IntegerField(
        required=False, min_value=0, max_value=10_000, help_text="0 or missing: a non-partitioned topic."
    )
    persistent = serializers.BooleanField(
        required=False, default=True, help_text="false: messages are delivered at once or dropped. Its address has non-persistent."
    )


class TopicStats(serializers.Serializer[Any]):
    stats = serializers.DictField(help_text="Pulsar's TopicStats.")


class DeadLetterPolicyShape(serializers.Serializer[Any]):
    max_redeliver_count = serializers.IntegerField()
    target = serializers.CharField(help_text="Full name of the topic that dead letters are moved to.")
    initial_subscription = serializers.CharField(help_text="Created on the target if it is missing; empty: none.")
    owner = serializers.CharField(help_text="The role on whose behalf the broker publishes to the target.")
    waiting_entries = serializers.IntegerField(help_text="That are to be moved.")
    moved_messages = serializers.IntegerField(help_text="Since the policy was set or the topic was loaded.")
    last_error = serializers.CharField(help_text="Why the last attempt to move messages failed; empty: it did not.")


class NewDeadLetterPolicy(serializers.Serializer[Any]):
    max_redeliver_count = serializers.IntegerField(help_text="A message that is redelivered more often is moved.")
    target = serializers.CharField(
        required=False, allow_blank=True, help_text="Full name of a topic; missing: <topic>-<subscription>-DLQ."
    )
    initial_subscription = serializers.CharField(
        required=False, allow_blank=True, help_text="Created on the target if it is missing."
    )


class ExplainFinding(serializers.Serializer[Any]):
    reason = serializers.CharField(help_text="A stable code for programs.")
    sentence = serializers.CharField()
    remedy = serializers.CharField(help_text="What is safe to do.", allow_blank=True)
    consumer = serializers.CharField(allow_blank=True)
    key = serializers.CharField(allow_blank=True)
    position = serializers.CharField(help_text="ledger:entry", allow_blank=True)
    until_ms = serializers.IntegerField(allow_null=True, help_text="Milliseconds since 1970.")


class SubscriptionExplained(serializers.Serializer[Any]):
    health = serializers.CharField(help_text="good, idle, blocked or abandoned.")
    sentence = serializers.CharField(help_text="Of the most important finding.")
    remedy = serializers.CharField(allow_blank=True)
    findings = ExplainFinding(many=True)
    backlog_entries = serializers.IntegerField()
    delayed_entries = serializers.IntegerField(help_text="Known to be delivered later.")
    next_delayed_ms = serializers.IntegerField(allow_null=True, help_text="None of these is due before; ms since 1970.")
    message_ttl_s = serializers.IntegerField(help_text="0: nothing expires; else delayed messages do, due or not.")
    mark_delete = serializers.CharField(help_text="ledger:entry")
    read_position = serializers.CharField(help_text="ledger:entry")


class TracedEntry(serializers.Serializer[Any]):
    stored_at_ms = serializers.IntegerField(help_text="By the clock of the broker.")
    publish_time_ms = serializers.IntegerField(help_text="By the clock of the producer.")
    producer = serializers.CharField(allow_blank=True)
    sequence_id = serializers.IntegerField()
    messages = serializers.IntegerField()
    size_bytes = serializers.IntegerField()
    deliver_at_ms = serializers.IntegerField(allow_null=True)


class TracedDelivery(serializers.Serializer[Any]):
    at_ms = serializers.IntegerField()
    event = serializers.CharField(help_text="sent, expired or dead_lettered")
    consumer = serializers.CharField(allow_blank=True)
    certain = serializers.BooleanField(help_text="false: it concerned some messages of a block of which this is one.")


class TracedSubscription(serializers.Serializer[Any]):
    subscription = serializers.CharField()
    where = serializers.CharField(help_text="A stable code for programs.")
    sentence = serializers.CharField()
    consumer = serializers.CharField(allow_blank=True)
    messages_left = serializers.IntegerField(allow_null=True, help_text="Of a batch of which some messages are acknowledged.")
    redeliveries = serializers.IntegerField(allow_null=True, help_text="null: unknown.")
    deliveries = TracedDelivery(many=True)


class MessageTraced(serializers.Serializer[Any]):
    sentence = serializers.CharField()
    entry = TracedEntry(allow_null=True)
    recorded_since_ms = serializers.IntegerField(
        allow_null=True, help_text="What was delivered before is unknown; null: anything is."
    )
    subscriptions = TracedSubscription(many=True)


class KeyShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    role = serializers.CharField(help_text="The role to which permissions are granted: name@tenant.")
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField(allow_blank=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewKey(serializers.Serializer[Any]):
    name = serializers.CharField()
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class KeyWithToken(KeyShape):
    token = serializers.CharField(help_text="Returned only once.")


class MemberShape(serializers.Serializer[Any]):
    username = serializers.CharField()
    level = serializers.ChoiceField(["owner", "member"])


class MemberLevel(serializers.Serializer[Any]):
    level = serializers.ChoiceField(["owner", "member"])


class AuditShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    at = serializers.DateTimeField()
    role = serializers.CharField()
    address = serializers.CharField(allow_blank=True, help_text="Address of the caller; empty: a process of the platform.")
    key_id = serializers.CharField(allow_blank=True)
    tenant = serializers.CharField(allow_blank=True, help_text="Name of the tenant at that time; empty: the platform.")
    action = serializers.CharField()
    resource = serializers.CharField()
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)
    request_id = serializers.CharField(allow_blank=True)


def show_tenant(row: Tenant) -> dict[str, Any]:
    return {
        "name": row.name,
        "admin_roles": row.admin_roles,
        "allowed_clusters": row.allowed_clusters,
        "created_at": row.created_at,
    }


def show_namespace(row: Namespace) -> dict[str, Any]:
    enforced, idle = split(row.policies)
    return {
        "name": row.name,
        "tenant": row.tenant_id,
        "policies": enforced,
        "policies_not_enforced": idle,
        "created_at": row.created_at,
    }


def show_key(row: Key) -> dict[str, Any]:
    fields = ("id", "name", "role", "created_at", "created_by", "expires_at", "revoked_at")
    return {field: getattr(row, field) for field in fields}


def show_member(row: Membership) -> dict[str, Any]:
    return {"username": row.user.username, "level": row.level}


def show_audit(row: AuditRecord) -> dict[str, Any]:
    fields = ("at", "role", "address", "key_id", "tenant", "action", "resource", "before", "after", "request_id")
    return {"id": str(row.id), **{field: getattr(row, field) for field in fields}}
