"""REST rows of the permission table: (HTTP method, route name of Django's URL configuration) -> action.

The web process takes the action of a request from here and from nowhere else: a route without a row is closed. The resource is
made of the arguments of the route (tenant, namespace, topic, subscription). HEAD counts as GET.
"""

from __future__ import annotations

from messaging.permissions.model import Action
from messaging.policies.pulsar import PATHS
from messaging.policies.pulsar_topics import TOPIC_PATHS
from messaging.policies.pulsar_unset import UNSET_BELOW_NAMESPACE, UNSET_BELOW_TOPIC

_API: dict[tuple[str, str], Action] = {
    ("GET", "api:openapi"): Action.PUBLIC,  # the same for everybody: the description of the API
    ("GET", "api:docs"): Action.PUBLIC,
    ("GET", "api:me"): Action.AUTHENTICATED,
    ("GET", "api:platform-audit"): Action.SUPERUSER,
    ("GET", "api:platform-notices"): Action.SUPERUSER,
    ("GET", "api:platform-notifications"): Action.SUPERUSER,  # with the secret that signs
    ("PUT", "api:platform-notifications"): Action.SUPERUSER,
    ("GET", "api:tasks"): Action.SUPERUSER,
    ("GET", "api:task-runs"): Action.SUPERUSER,
    ("GET", "api:task-run"): Action.SUPERUSER,
    ("DELETE", "api:task-run"): Action.SUPERUSER,
    ("POST", "api:task-run-requeue"): Action.SUPERUSER,
    ("GET", "api:tenants"): Action.AUTHENTICATED,  # lists those that the caller may see
    ("POST", "api:tenants"): Action.SUPERUSER,
    ("GET", "api:tenant"): Action.TENANT_READ,
    ("PATCH", "api:tenant"): Action.SUPERUSER,
    ("DELETE", "api:tenant"): Action.SUPERUSER,
    ("GET", "api:tenant-labels"): Action.TENANT_READ,
    ("PUT", "api:tenant-labels"): Action.TENANT_ADMIN,
    ("GET", "api:tenant-policies"): Action.TENANT_READ,
    ("PUT", "api:tenant-policies"): Action.SUPERUSER,
    ("PATCH", "api:tenant-policies"): Action.SUPERUSER,
    ("GET", "api:tenant-policies-in-force"): Action.TENANT_READ,
    ("POST", "api:tenant-policies-preview"): Action.SUPERUSER,
    ("GET", "api:audit"): Action.TENANT_ADMIN,
    ("GET", "api:alert-rules"): Action.TENANT_READ,
    ("POST", "api:alert-rules"): Action.TENANT_ADMIN,
    ("GET", "api:alert-rule"): Action.TENANT_READ,
    ("DELETE", "api:alert-rule"): Action.TENANT_ADMIN,
    ("GET", "api:notices"): Action.TENANT_READ,
    ("GET", "api:notifications"): Action.TENANT_ADMIN,  # with the secret that signs
    ("PUT", "api:notifications"): Action.TENANT_ADMIN,
    ("GET", "api:keys"): Action.TENANT_READ,
    ("POST", "api:keys"): Action.TENANT_ADMIN,
    ("GET", "api:key"): Action.TENANT_READ,
    ("DELETE", "api:key"): Action.TENANT_ADMIN,
    ("GET", "api:members"): Action.TENANT_READ,
    ("PUT", "api:member"): Action.TENANT_ADMIN,
    ("DELETE", "api:member"): Action.TENANT_ADMIN,
    ("GET", "api:namespaces"): Action.TENANT_READ,
    ("POST", "api:namespaces"): Action.TENANT_ADMIN,
    ("GET", "api:namespace"): Action.NAMESPACE_READ,
    ("DELETE", "api:namespace"): Action.TENANT_ADMIN,
    ("GET", "api:policies"): Action.NAMESPACE_READ,
    ("PUT", "api:policies"): Action.TENANT_ADMIN,
    ("PATCH", "api:policies"): Action.TENANT_ADMIN,
    ("GET", "api:topic-policies"): Action.TENANT_READ,
    ("PUT", "api:topic-policies"): Action.TENANT_ADMIN,
    ("PATCH", "api:topic-policies"): Action.TENANT_ADMIN,
    ("GET", "api:subscription-policies"): Action.TENANT_READ,
    ("PUT", "api:subscription-policies"): Action.TENANT_ADMIN,
    ("PATCH", "api:subscription-policies"): Action.TENANT_ADMIN,
    ("GET", "api:policies-in-force"): Action.NAMESPACE_READ,
    ("POST", "api:policies-preview"): Action.TENANT_ADMIN,
    ("GET", "api:topic-policies-in-force"): Action.TENANT_READ,
    ("POST", "api:topic-policies-preview"): Action.TENANT_ADMIN,
    ("GET", "api:subscription-policies-in-force"): Action.TENANT_READ,
    ("POST", "api:subscription-policies-preview"): Action.TENANT_ADMIN,
    ("GET", "api:permissions"): Action.TENANT_READ,
    ("PUT", "api:permission"): Action.TENANT_ADMIN,
    ("DELETE", "api:permission"): Action.TENANT_ADMIN,
    ("GET", "api:changes"): Action.TENANT_READ,
    ("GET", "api:topics"): Action.NAMESPACE_READ,
    ("POST", "api:topics"): Action.TENANT_ADMIN,
    ("GET", "api:topic"): Action.LOOKUP,
    ("DELETE", "api:topic"): Action.TENANT_ADMIN,
    ("GET", "api:topic-stats"): Action.LOOKUP,
    # Of redrives: and CONSUME on the topic, PRODUCE on the target, on behalf of whoever starts one
    ("GET", "api:redrives"): Action.TENANT_ADMIN,
    ("POST", "api:redrives"): Action.TENANT_ADMIN,
    ("POST", "api:redrive-dry-run"): Action.TENANT_ADMIN,
    ("GET", "api:redrive"): Action.TENANT_ADMIN,
    ("DELETE", "api:redrive"): Action.TENANT_ADMIN,
    ("POST", "api:redrive-pause"): Action.TENANT_ADMIN,
    ("POST", "api:redrive-resume"): Action.TENANT_ADMIN,
    ("GET", "api:redrive-outcomes"): Action.TENANT_ADMIN,
    ("GET", "api:dead-letter-policy"): Action.CONSUME,
    ("PUT", "api:dead-letter-policy"): Action.CONSUME,  # and PRODUCE on the target, on behalf of which the broker publishes
    ("DELETE", "api:dead-letter-policy"): Action.CONSUME,
    ("GET", "api:delayed"): Action.CONSUME,  # with keys and producers of messages
    ("GET", "api:delayed-counts"): Action.LOOKUP,
    # Whoever may publish may take back what waits: that is not delivered to anybody
    ("DELETE", "api:delayed"): Action.PRODUCE,
    ("PATCH", "api:delayed"): Action.PRODUCE,
    ("DELETE", "api:delayed-message"): Action.PRODUCE,
    ("PATCH", "api:delayed-message"): Action.PRODUCE,
    ("GET", "api:subscription-explain"): Action.LOOKUP,
    ("GET", "api:message-trace"): Action.LOOKUP,
}

_BILLING: dict[tuple[str, str], Action] = {
    ("GET", "billing:price-plans"): Action.SUPERUSER,  # a tenant sees the versions that its own invoices name
    ("POST", "billing:price-plans"): Action.SUPERUSER,
    ("GET", "billing:issuer"): Action.SUPERUSER,
    ("PUT", "billing:issuer"): Action.SUPERUSER,
    ("GET", "billing:account"): Action.TENANT_ADMIN,
    ("PATCH", "billing:account"): Action.SUPERUSER,
    ("GET", "billing:plan-assignments"): Action.TENANT_ADMIN,
    ("POST", "billing:plan-assignments"): Action.SUPERUSER,
    ("GET", "billing:credits"): Action.TENANT_ADMIN,
    ("POST", "billing:credits"): Action.SUPERUSER,
    ("GET", "billing:invoices"): Action.TENANT_ADMIN,
    ("GET", "billing:invoice"): Action.TENANT_ADMIN,
    ("POST", "billing:credit-notes"): Action.SUPERUSER,
    ("GET", "billing:line-usage"): Action.TENANT_ADMIN,
    ("GET", "billing:usage-file"): Action.TENANT_READ,
    ("GET", "billing:costs"): Action.TENANT_READ,
    ("GET", "billing:estimate"): Action.TENANT_READ,
    ("GET", "billing:what-if"): Action.TENANT_READ,
    ("GET", "billing:savings"): Action.TENANT_READ,
    ("GET", "billing:budgets"): Action.TENANT_ADMIN,  # with the addresses of those who are told
    ("POST", "billing:budgets"): Action.TENANT_ADMIN,
    ("GET", "billing:budget"): Action.TENANT_ADMIN,
    ("PATCH", "billing:budget"): Action.TENANT_ADMIN,
    ("DELETE", "billing:budget"): Action.TENANT_ADMIN,
    ("GET", "billing:budget-alerts"): Action.TENANT_ADMIN,
    ("GET", "billing:report-schedules"): Action.TENANT_ADMIN,
    ("POST", "billing:report-schedules"): Action.TENANT_ADMIN,
    ("GET", "billing:report-schedule"): Action.TENANT_ADMIN,
    ("PATCH", "billing:report-schedule"): Action.TENANT_ADMIN,
    ("DELETE", "billing:report-schedule"): Action.TENANT_ADMIN,
    ("GET", "billing:reports"): Action.TENANT_ADMIN,
    ("GET", "billing:report"): Action.TENANT_ADMIN,
    ("GET", "billing:report-file"): Action.TENANT_ADMIN,
}

_PULSAR: dict[tuple[str, str], Action] = {
    ("GET", "admin_v2:tenants"): Action.SUPERUSER,
    ("GET", "admin_v2:tenant"): Action.TENANT_READ,
    ("PUT", "admin_v2:tenant"): Action.SUPERUSER,
    ("POST", "admin_v2:tenant"): Action.SUPERUSER,
    ("DELETE", "admin_v2:tenant"): Action.SUPERUSER,
    ("GET", "admin_v2:clusters"): Action.AUTHENTICATED,
    ("GET", "admin_v2:cluster"): Action.AUTHENTICATED,
    ("GET", "admin_v2:brokers"): Action.SUPERUSER,
    ("GET", "admin_v2:brokers-of-cluster"): Action.SUPERUSER,
    ("GET", "admin_v2:leader-broker"): Action.SUPERUSER,
    ("GET", "admin_v2:brokers-health"): Action.PUBLIC,  # load balancers ask; answers are shared, so asking often costs nothing
    ("GET", "admin_v2:brokers-ready"): Action.PUBLIC,
    ("GET", "admin_v2:brokers-runtime-configuration"): Action.SUPERUSER,
    ("GET", "admin_v2:brokers-dynamic-names"): Action.SUPERUSER,
    ("GET", "admin_v2:brokers-dynamic-values"): Action.SUPERUSER,
    ("POST", "admin_v2:brokers-dynamic-value"): Action.SUPERUSER,
    ("DELETE", "admin_v2:brokers-dynamic-name"): Action.SUPERUSER,
    ("GET", "admin_v2:brokers-version"): Action.AUTHENTICATED,
    ("GET", "admin_v2:namespaces"): Action.TENANT_READ,
    ("GET", "admin_v2:namespace"): Action.TENANT_READ,
    ("PUT", "admin_v2:namespace"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:namespace"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:namespace-topics"): Action.NAMESPACE_READ,
    ("GET", "admin_v2:namespace-bundles"): Action.NAMESPACE_READ,
    ("PUT", "admin_v2:namespace-unload"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:namespace-permissions"): Action.TENANT_READ,
    ("POST", "admin_v2:namespace-permission"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:namespace-permission"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:subscription-permissions"): Action.TENANT_READ,
    ("POST", "admin_v2:subscription-permission"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:subscription-permission"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:subscription-permission-role"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:replication"): Action.TENANT_READ,
    ("POST", "admin_v2:replication"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:backlog-quotas"): Action.TENANT_READ,
    ("POST", "admin_v2:backlog-quota"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:backlog-quota"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:namespace-property"): Action.TENANT_READ,
    ("DELETE", "admin_v2:namespace-property"): Action.TENANT_ADMIN,
    ("PUT", "admin_v2:namespace-property-value"): Action.TENANT_ADMIN,
    ("POST", "admin_v2:namespace-clear-backlog"): Action.NAMESPACE_READ,  # and CONSUME on each subscription, one by one
    ("POST", "admin_v2:namespace-clear-backlog-of"): Action.CONSUME,
    ("POST", "admin_v2:namespace-unsubscribe"): Action.CONSUME,
    ("GET", "admin_v2:schema"): Action.LOOKUP,
    ("POST", "admin_v2:schema"): Action.PRODUCE,
    ("DELETE", "admin_v2:schema"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:schema-version"): Action.LOOKUP,
    ("GET", "admin_v2:schema-versions"): Action.LOOKUP,
    ("GET", "admin_v2:schema-metadata"): Action.LOOKUP,
    ("POST", "admin_v2:schema-compatibility"): Action.LOOKUP,
    ("POST", "admin_v2:schema-find"): Action.LOOKUP,
    ("GET", "admin_v2:topics"): Action.NAMESPACE_READ,
    ("GET", "admin_v2:partitioned-topics"): Action.NAMESPACE_READ,
    ("PUT", "admin_v2:topic"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:topic"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:partitions"): Action.LOOKUP,
    ("PUT", "admin_v2:partitions"): Action.TENANT_ADMIN,
    ("POST", "admin_v2:partitions"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:partitions"): Action.TENANT_ADMIN,
    ("POST", "admin_v2:missing-partitions"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:topic-properties"): Action.LOOKUP,
    ("PUT", "admin_v2:topic-properties"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:topic-properties"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:topic-permissions"): Action.TENANT_READ,
    ("POST", "admin_v2:topic-permission"): Action.TENANT_ADMIN,
    ("POST", "admin_v2:topics-grants"): Action.TENANT_ADMIN,  # on each topic that the body names; none: superusers alone
    ("POST", "admin_v2:topics-revocations"): Action.TENANT_ADMIN,  # the same
    ("DELETE", "admin_v2:topic-permission"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:topic-stats"): Action.LOOKUP,
    ("GET", "admin_v2:topic-internal-stats"): Action.LOOKUP,
    ("GET", "admin_v2:partitioned-stats"): Action.LOOKUP,
    ("GET", "admin_v2:partitioned-internal-stats"): Action.LOOKUP,
    ("GET", "admin_v2:topic-internal-info"): Action.LOOKUP,
    ("PUT", "admin_v2:topic-backlog-size"): Action.LOOKUP,
    ("PUT", "admin_v2:topic-unload"): Action.TENANT_ADMIN,
    ("POST", "admin_v2:topic-terminate"): Action.TENANT_ADMIN,
    ("POST", "admin_v2:topic-terminate-partitions"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:topic-truncate"): Action.TENANT_ADMIN,
    ("POST", "admin_v2:topic-trim"): Action.TENANT_ADMIN,
    ("PUT", "admin_v2:topic-compaction"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:topic-compaction"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:last-message-id"): Action.CONSUME,
    ("GET", "admin_v2:message"): Action.CONSUME,
    ("GET", "admin_v2:examine-message"): Action.CONSUME,
    ("GET", "admin_v2:find-message"): Action.CONSUME,
    ("GET", "admin_v2:subscriptions"): Action.CONSUME,
    ("PUT", "admin_v2:subscription"): Action.CONSUME,
    ("DELETE", "admin_v2:subscription"): Action.CONSUME,
    ("POST", "admin_v2:skip-all"): Action.CONSUME,
    ("POST", "admin_v2:skip"): Action.CONSUME,
    ("POST", "admin_v2:expire"): Action.CONSUME,
    ("POST", "admin_v2:expire-to"): Action.CONSUME,
    ("POST", "admin_v2:expire-all"): Action.CONSUME,  # and on each subscription, one by one
    ("POST", "admin_v2:reset-cursor"): Action.CONSUME,
    ("POST", "admin_v2:reset-cursor-to-time"): Action.CONSUME,
    ("GET", "admin_v2:subscription-properties"): Action.CONSUME,
    ("PUT", "admin_v2:subscription-properties"): Action.CONSUME,
    ("GET", "admin_v2:peek"): Action.CONSUME,
    ("POST", "admin_v2:analyze-backlog"): Action.CONSUME,
    ("GET", "lookup:topic"): Action.LOOKUP,
    ("GET", "lookup:bundle"): Action.LOOKUP,
}

_POLICIES: dict[tuple[str, str], Action] = {
    (method, f"admin_v2:policy-{path}"): Action.TENANT_READ if method == "GET" else Action.TENANT_ADMIN
    for path, one in PATHS.items()
    for method in ("GET", one.set_by, "DELETE")
}

_TOPIC_POLICIES: dict[tuple[str, str], Action] = {
    ("DELETE", "admin_v2:topic-policies"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:topic-backlog-quotas"): Action.TENANT_READ,
    ("POST", "admin_v2:topic-backlog-quota"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:topic-backlog-quota"): Action.TENANT_ADMIN,
    ("GET", "admin_v2:subscription-dispatch-rate"): Action.TENANT_READ,
    ("POST", "admin_v2:subscription-dispatch-rate"): Action.TENANT_ADMIN,
    ("DELETE", "admin_v2:subscription-dispatch-rate"): Action.TENANT_ADMIN,
} | {
    (method, f"admin_v2:topic-policy-{path}"): Action.TENANT_READ if method == "GET" else Action.TENANT_ADMIN
    for path, one in TOPIC_PATHS.items()
    for method in one.methods
}

_UNSET: dict[tuple[str, str], Action] = {
    ("GET", "admin_v2:cluster-peers"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-domains"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-domain"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-migration"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-isolation"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-isolation-brokers"): Action.SUPERUSER,
    ("GET", "admin_v2:resource-groups"): Action.SUPERUSER,
    ("GET", "admin_v2:resource-group"): Action.SUPERUSER,
    ("GET", "admin_v2:bookie-racks"): Action.SUPERUSER,
    ("GET", "admin_v2:bookies"): Action.SUPERUSER,
    ("GET", "admin_v2:backlog-quota-check"): Action.SUPERUSER,
    ("GET", "admin_v2:replicated-subscription"): Action.CONSUME,
} | {
    (method, f"admin_v2:{below}-unset-{path}"): Action.TENANT_READ if method == "GET" else Action.TENANT_ADMIN
    for below, paths in (("namespace", UNSET_BELOW_NAMESPACE), ("topic", UNSET_BELOW_TOPIC))
    for path, methods in paths.items()
    for method in methods
}

_PROCESSES: dict[tuple[str, str], Action] = {
    ("GET", "internal:feed"): Action.SERVICE,
    ("GET", "health:live"): Action.PUBLIC,
    ("GET", "health:ready"): Action.PUBLIC,
    ("GET", "health:metrics"): Action.PUBLIC,  # sums only: no name of any tenant
    ("GET", "health:status"): Action.PUBLIC,
}

REST: dict[tuple[str, str], Action] = _API | _BILLING | _PULSAR | _POLICIES | _TOPIC_POLICIES | _UNSET | _PROCESSES
