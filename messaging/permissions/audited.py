"""Which requests leave a record in the audit log, and under which name: part of the permission table.

Every route that changes something, and every one that shows what messages hold. A request that was allowed is recorded when it was
carried out; one that was refused is recorded as `denied`, whatever its route (`controlplane.audit`). A test holds this table
against the rows of REST and console: a new route that changes something and is not named here fails it.
"""

from __future__ import annotations

from messaging.policies.pulsar import PATHS
from messaging.policies.pulsar_topics import TOPIC_PATHS
from messaging.policies.pulsar_unset import UNSET_BELOW_NAMESPACE, UNSET_BELOW_TOPIC

DENIED, DENIED_MORE = "denied", "denied.more"
SIGN_IN, SIGN_OUT, CHANGE_PASSWORD = "session.sign_in", "session.sign_out", "user.change_password"
SIGN_IN_FAILED, CHANGE_PASSWORD_FAILED = "session.sign_in_failed", "user.change_password_failed"
# What clients of the broker do, or are refused: counted there, and written by a task.
BROKER_DENIED, BROKER_SIGN_IN_FAILED, BROKER_RESTART = "broker.denied", "broker.sign_in_failed", "broker.restart"
REFUSALS = frozenset({BROKER_DENIED, BROKER_SIGN_IN_FAILED})
SUBSCRIPTION_CREATE, SUBSCRIPTION_DELETE, SUBSCRIPTION_SEEK = "subscription.create", "subscription.delete", "subscription.seek"
MORE = ".more"  # behind the name of an action: further ones, that were only counted

_API: dict[tuple[str, str], str] = {
    ("POST", "api:tenants"): "tenant.create",
    ("PATCH", "api:tenant"): "tenant.update",
    ("DELETE", "api:tenant"): "tenant.delete",
    ("PUT", "api:tenant-labels"): "tenant.set_labels",
    ("PUT", "api:tenant-policies"): "tenant.set_policies",
    ("PATCH", "api:tenant-policies"): "tenant.set_policies",
    ("POST", "api:keys"): "key.create",
    ("DELETE", "api:key"): "key.revoke",
    ("PUT", "api:member"): "member.set",
    ("DELETE", "api:member"): "member.remove",
    ("POST", "api:namespaces"): "namespace.create",
    ("DELETE", "api:namespace"): "namespace.delete",
    ("PUT", "api:policies"): "namespace.set_policies",
    ("PATCH", "api:policies"): "namespace.set_policies",
    ("PUT", "api:topic-policies"): "topic.set_policies",
    ("PATCH", "api:topic-policies"): "topic.set_policies",
    ("PUT", "api:subscription-policies"): "topic.set_policies",
    ("PATCH", "api:subscription-policies"): "topic.set_policies",
    ("PUT", "api:permission"): "permission.grant",
    ("DELETE", "api:permission"): "permission.revoke",
    ("POST", "api:topics"): "topic.create",
    ("DELETE", "api:topic"): "topic.delete",
    ("PUT", "api:dead-letter-policy"): "subscription.set_dead_letter_policy",
    ("DELETE", "api:dead-letter-policy"): "subscription.remove_dead_letter_policy",
    ("DELETE", "api:delayed"): "delayed.cancel",
    ("PATCH", "api:delayed"): "delayed.reschedule",
    ("DELETE", "api:delayed-message"): "delayed.cancel",
    ("PATCH", "api:delayed-message"): "delayed.reschedule",
    ("POST", "api:redrives"): "redrive.start",
    ("POST", "api:redrive-pause"): "redrive.pause",
    ("POST", "api:redrive-resume"): "redrive.resume",
    ("DELETE", "api:redrive"): "redrive.cancel",
    ("POST", "api:alert-rules"): "alert_rule.create",
    ("DELETE", "api:alert-rule"): "alert_rule.delete",
    ("PUT", "api:notifications"): "notifications.set",
    ("PUT", "api:platform-notifications"): "notifications.set",
    ("POST", "api:task-run-requeue"): "task.requeue",
    ("DELETE", "api:task-run"): "task.discard",
}

_BILLING: dict[tuple[str, str], str] = {
    ("POST", "billing:price-plans"): "price_plan.publish",
    ("POST", "billing:plan-assignments"): "price_plan.assign",
    ("PATCH", "billing:account"): "billing.account",
    ("PUT", "billing:issuer"): "billing.issuer",
    ("POST", "billing:credits"): "billing.credit",
    ("POST", "billing:credit-notes"): "invoice.take_back",
    ("POST", "billing:budgets"): "budget.create",
    ("PATCH", "billing:budget"): "budget.update",
    ("DELETE", "billing:budget"): "budget.delete",
    ("POST", "billing:report-schedules"): "report.create",
    ("PATCH", "billing:report-schedule"): "report.update",
    ("DELETE", "billing:report-schedule"): "report.delete",
}

_PULSAR: dict[tuple[str, str], str] = {
    ("PUT", "admin_v2:tenant"): "tenant.create",
    ("POST", "admin_v2:tenant"): "tenant.update",
    ("DELETE", "admin_v2:tenant"): "tenant.delete",
    ("PUT", "admin_v2:namespace"): "namespace.create",
    ("DELETE", "admin_v2:namespace"): "namespace.delete",
    ("PUT", "admin_v2:namespace-unload"): "namespace.unload",
    ("POST", "admin_v2:namespace-permission"): "permission.grant",
    ("DELETE", "admin_v2:namespace-permission"): "permission.revoke",
    ("POST", "admin_v2:subscription-permission"): "subscription.restrict",
    ("DELETE", "admin_v2:subscription-permission"): "subscription.unrestrict",
    ("DELETE", "admin_v2:subscription-permission-role"): "subscription.unrestrict",
    ("POST", "admin_v2:replication"): "namespace.set_policies",
    ("POST", "admin_v2:backlog-quota"): "namespace.set_policies",
    ("DELETE", "admin_v2:backlog-quota"): "namespace.set_policies",
    ("DELETE", "admin_v2:namespace-property"): "namespace.set_policies",
    ("PUT", "admin_v2:namespace-property-value"): "namespace.set_policies",
    ("POST", "admin_v2:namespace-clear-backlog"): "namespace.clear_backlog",
    ("POST", "admin_v2:namespace-clear-backlog-of"): "namespace.clear_backlog",
    ("POST", "admin_v2:namespace-unsubscribe"): "namespace.unsubscribe",
    ("PUT", "admin_v2:topic"): "topic.create",
    ("DELETE", "admin_v2:topic"): "topic.delete",
    ("PUT", "admin_v2:partitions"): "topic.create",
    ("POST", "admin_v2:partitions"): "topic.grow",
    ("DELETE", "admin_v2:partitions"): "topic.delete",
    ("POST", "admin_v2:missing-partitions"): "topic.create_missing_partitions",
    ("PUT", "admin_v2:topic-properties"): "topic.set_properties",
    ("DELETE", "admin_v2:topic-properties"): "topic.set_properties",
    ("POST", "admin_v2:topic-permission"): "permission.grant",
    ("DELETE", "admin_v2:topic-permission"): "permission.revoke",
    ("POST", "admin_v2:topics-grants"): "permission.grant",
    ("POST", "admin_v2:topics-revocations"): "permission.revoke",
    ("PUT", "admin_v2:topic-unload"): "topic.unload",
    ("POST", "admin_v2:topic-terminate"): "topic.terminate",
    ("POST", "admin_v2:topic-terminate-partitions"): "topic.terminate",
    ("DELETE", "admin_v2:topic-truncate"): "topic.truncate",
    ("POST", "admin_v2:topic-trim"): "topic.trim",
    ("PUT", "admin_v2:topic-compaction"): "topic.compact",
    ("POST", "admin_v2:schema"): "schema.add",
    ("DELETE", "admin_v2:schema"): "schema.delete",
    ("PUT", "admin_v2:subscription"): "subscription.create",
    ("DELETE", "admin_v2:subscription"): "subscription.delete",
    ("POST", "admin_v2:skip-all"): "subscription.clear_backlog",
    ("POST", "admin_v2:skip"): "subscription.skip",
    ("POST", "admin_v2:expire"): "subscription.expire",
    ("POST", "admin_v2:expire-to"): "subscription.expire",
    ("POST", "admin_v2:expire-all"): "topic.expire",
    ("POST", "admin_v2:reset-cursor"): "subscription.reset",
    ("POST", "admin_v2:reset-cursor-to-time"): "subscription.reset",
    ("PUT", "admin_v2:subscription-properties"): "subscription.set_properties",
}

# They change nothing, although their method says otherwise.
QUESTIONS = frozenset(
    {
        ("POST", "admin_v2:brokers-dynamic-value"),  # refused by name: no setting changes while a broker runs
        ("DELETE", "admin_v2:brokers-dynamic-name"),
        ("POST", "admin_v2:schema-compatibility"),
        ("POST", "admin_v2:schema-find"),
        ("POST", "admin_v2:analyze-backlog"),
        ("PUT", "admin_v2:topic-backlog-size"),
        ("POST", "api:tenant-policies-preview"),
        ("POST", "api:policies-preview"),
        ("POST", "api:topic-policies-preview"),
        ("POST", "api:subscription-policies-preview"),
        ("POST", "api:redrive-dry-run"),
        *(("DELETE", f"admin_v2:namespace-unset-{path}") for path, methods in UNSET_BELOW_NAMESPACE.items() if "DELETE" in methods),
        *(("DELETE", f"admin_v2:topic-unset-{path}") for path, methods in UNSET_BELOW_TOPIC.items() if "DELETE" in methods),
    }
)

_CONSOLE: dict[tuple[str, str], str] = {
    ("POST", "console:sign_in"): SIGN_IN,
    ("POST", "console:sign_out"): SIGN_OUT,
    ("POST", "console:password"): CHANGE_PASSWORD,
    ("POST", "console:tenant_create"): "tenant.create",
    ("POST", "console:tenant_delete"): "tenant.delete",
    ("POST", "console:tenant_labels"): "tenant.set_labels",
    ("POST", "console:tenant_policies"): "tenant.set_policies",
    ("POST", "console:key_create"): "key.create",
    ("POST", "console:key_revoke"): "key.revoke",
    ("POST", "console:person_create"): "person.create",
    ("POST", "console:person_password"): "person.set_password",
    ("POST", "console:person_active"): "person.set_active",
    ("POST", "console:namespace_create"): "namespace.create",
    ("POST", "console:policies"): "namespace.set_policies",
    ("POST", "console:topic_policies"): "topic.set_policies",
    ("POST", "console:namespace_delete"): "namespace.delete",
    ("POST", "console:quick_start"): "key.create",
    ("POST", "console:topic_create"): "topic.create",
    ("POST", "console:topic_delete"): "topic.delete",
    ("POST", "console:dead_letter_policy"): "subscription.set_dead_letter_policy",
    ("POST", "console:usage_compute"): "usage.compute",
    ("POST", "console:task_decide"): "task",  # .requeue or .discard
    ("POST", "console:delayed"): "delayed",  # .cancel or .reschedule
    ("POST", "console:redrives"): "redrive.start",
    ("POST", "console:redrive"): "redrive",  # .pause, .resume or .cancel
    ("POST", "console:alerts"): "alert_rule",  # .create or .delete, or notifications.set
    ("POST", "console:price_plan_create"): "price_plan.publish",
    ("POST", "console:issuer"): "billing.issuer",
    ("POST", "console:billing"): "billing",  # .account or .credit, or price_plan.assign
    ("POST", "console:platform_alerts"): "notifications.set",
    ("POST", "console:budgets"): "budget.create",
    ("POST", "console:budget_delete"): "budget.delete",
    ("POST", "console:reports"): "report.create",
    ("POST", "console:report_delete"): "report.delete",
}

_POLICIES: dict[tuple[str, str], str] = {
    (method, f"admin_v2:policy-{path}"): "namespace.set_policies"
    for path, one in PATHS.items()
    for method in (one.set_by, "DELETE")
}

_TOPIC_POLICIES: dict[tuple[str, str], str] = {
    (method, route): "topic.set_policies"
    for route, methods in (
        ("admin_v2:topic-policies", ("DELETE",)),
        ("admin_v2:topic-backlog-quota", ("POST", "DELETE")),
        ("admin_v2:subscription-dispatch-rate", ("POST", "DELETE")),
        *((f"admin_v2:topic-policy-{path}", one.methods[1:]) for path, one in TOPIC_PATHS.items()),
    )
    for method in methods
}

# Routes that read, and whose answer holds what somebody published.
PAYLOAD_READS: dict[tuple[str, str], str] = {
    ("GET", "admin_v2:peek"): "subscription.peek",
    ("GET", "admin_v2:message"): "message.read",
    ("GET", "admin_v2:examine-message"): "message.read",
}

# Of binary commands and WebSocket paths: what leaves a record where it is done. Each may be refused, too (`BROKER_DENIED`).
BROKER_AUDITED: dict[str, str] = {
    "PRODUCER": SUBSCRIPTION_CREATE,  # the initial subscription
    "SUBSCRIBE": SUBSCRIPTION_CREATE,
    "UNSUBSCRIBE": SUBSCRIPTION_DELETE,
    "SEEK": SUBSCRIPTION_SEEK,
    "/ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}": SUBSCRIPTION_CREATE,
}

AUDITED: dict[tuple[str, str], str] = _API | _BILLING | _PULSAR | _POLICIES | _TOPIC_POLICIES | _CONSOLE | PAYLOAD_READS
