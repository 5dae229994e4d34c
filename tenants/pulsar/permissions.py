"""The permission of each route of Pulsar's admin API (`tenants.pulsar.urls`, `lookup_urls`): (HTTP method, route name) -> action.

As in `tenants.rest.permissions`; the routes of policies are made of the tables that their paths are made of.
"""

from __future__ import annotations

from messaging.permissions.model import Action
from messaging.policies.pulsar import PATHS
from messaging.policies.pulsar_topics import TOPIC_PATHS
from messaging.policies.pulsar_unset import UNSET_BELOW_NAMESPACE, UNSET_BELOW_TOPIC

_ROUTES: dict[tuple[str, str], Action] = {
    ("GET", "admin_v2:tenants"): Action.SUPERUSER,
    ("GET", "admin_v2:tenant"): Action.TENANT_READ,
    ("PUT", "admin_v2:tenant"): Action.SUPERUSER,
    ("POST", "admin_v2:tenant"): Action.SUPERUSER,
    ("DELETE", "admin_v2:tenant"): Action.SUPERUSER,
    ("GET", "admin_v2:clusters"): Action.AUTHENTICATED,
    ("GET", "admin_v2:cluster"): Action.AUTHENTICATED,
    ("GET", "admin_v2:cluster-domains"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-domain"): Action.SUPERUSER,
    ("POST", "admin_v2:cluster-domain"): Action.SUPERUSER,
    ("DELETE", "admin_v2:cluster-domain"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-isolation"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-isolation-brokers"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-isolation-broker"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-isolation-policy"): Action.SUPERUSER,
    ("POST", "admin_v2:cluster-isolation-policy"): Action.SUPERUSER,
    ("DELETE", "admin_v2:cluster-isolation-policy"): Action.SUPERUSER,
    ("GET", "admin_v1:anti-affinity-namespaces"): Action.TENANT_READ,  # of the tenant that the query names
    ("GET", "admin_v2:anti-affinity-namespaces"): Action.TENANT_READ,  # the same
    ("GET", "admin_v2:anti-affinity"): Action.TENANT_READ,
    ("POST", "admin_v2:anti-affinity"): Action.NAMESPACE_ADMIN,
    ("DELETE", "admin_v2:anti-affinity"): Action.NAMESPACE_ADMIN,
    ("GET", "admin_v2:bookies"): Action.SUPERUSER,
    ("GET", "admin_v2:bookie-racks"): Action.SUPERUSER,
    ("GET", "admin_v2:bookie-rack"): Action.SUPERUSER,
    ("POST", "admin_v2:bookie-rack"): Action.SUPERUSER,
    ("DELETE", "admin_v2:bookie-rack"): Action.SUPERUSER,
    ("GET", "admin_v2:brokers"): Action.SUPERUSER,
    ("GET", "admin_v2:brokers-of-cluster"): Action.SUPERUSER,
    ("GET", "admin_v2:broker-stats-topics"): Action.SUPERUSER,
    ("GET", "admin_v2:load-report"): Action.SUPERUSER,
    ("GET", "admin_v2:broker-stats-metrics"): Action.SUPERUSER,
    ("GET", "admin_v2:brokers-internal-configuration"): Action.SUPERUSER,
    ("GET", "admin_v2:leader-broker"): Action.SUPERUSER,
    ("GET", "admin_v2:owned-bundles"): Action.SUPERUSER,
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
    ("PUT", "admin_v2:namespace"): Action.NAMESPACE_ADMIN,
    ("DELETE", "admin_v2:namespace"): Action.NAMESPACE_ADMIN,
    ("GET", "admin_v2:namespace-topics"): Action.NAMESPACE_READ,
    ("GET", "admin_v2:namespace-bundles"): Action.NAMESPACE_READ,
    ("PUT", "admin_v2:namespace-unload"): Action.OPERATE,
    ("GET", "admin_v2:namespace-permissions"): Action.TENANT_READ,
    ("POST", "admin_v2:namespace-permission"): Action.GRANT_ADMIN,
    ("DELETE", "admin_v2:namespace-permission"): Action.GRANT_ADMIN,
    ("GET", "admin_v2:subscription-permissions"): Action.TENANT_READ,
    ("POST", "admin_v2:subscription-permission"): Action.GRANT_ADMIN,
    ("DELETE", "admin_v2:subscription-permission"): Action.GRANT_ADMIN,
    ("DELETE", "admin_v2:subscription-permission-role"): Action.GRANT_ADMIN,
    ("GET", "admin_v2:replication"): Action.TENANT_READ,
    ("POST", "admin_v2:replication"): Action.NAMESPACE_ADMIN,
    ("GET", "admin_v2:backlog-quotas"): Action.TENANT_READ,
    ("POST", "admin_v2:backlog-quota"): Action.NAMESPACE_ADMIN,
    ("DELETE", "admin_v2:backlog-quota"): Action.NAMESPACE_ADMIN,
    ("GET", "admin_v2:namespace-property"): Action.TENANT_READ,
    ("DELETE", "admin_v2:namespace-property"): Action.NAMESPACE_ADMIN,
    ("PUT", "admin_v2:namespace-property-value"): Action.NAMESPACE_ADMIN,
    ("POST", "admin_v2:namespace-clear-backlog"): Action.NAMESPACE_READ,  # and CONSUME on each subscription, one by one
    ("POST", "admin_v2:namespace-clear-backlog-of"): Action.CURSOR_ADMIN,
    ("POST", "admin_v2:namespace-unsubscribe"): Action.CURSOR_ADMIN,
    ("PUT", "admin_v2:bundle-unload"): Action.OPERATE,
    ("PUT", "admin_v2:bundle-split"): Action.NAMESPACE_ADMIN,
    ("GET", "admin_v2:bundle-positions"): Action.NAMESPACE_READ,
    ("POST", "admin_v2:bundle-clear-backlog"): Action.NAMESPACE_READ,  # and CONSUME on each subscription, one by one
    ("POST", "admin_v2:bundle-clear-backlog-of"): Action.CURSOR_ADMIN,
    ("POST", "admin_v2:bundle-unsubscribe"): Action.CURSOR_ADMIN,
    ("GET", "admin_v2:schema"): Action.LOOKUP,
    ("POST", "admin_v2:schema"): Action.PRODUCE,
    ("DELETE", "admin_v2:schema"): Action.TOPIC_ADMIN,
    ("GET", "admin_v2:schema-version"): Action.LOOKUP,
    ("GET", "admin_v2:schema-versions"): Action.LOOKUP,
    ("GET", "admin_v2:schema-metadata"): Action.LOOKUP,
    ("POST", "admin_v2:schema-compatibility"): Action.LOOKUP,
    ("POST", "admin_v2:schema-find"): Action.LOOKUP,
    ("GET", "admin_v2:topics"): Action.NAMESPACE_READ,
    ("GET", "admin_v2:partitioned-topics"): Action.NAMESPACE_READ,
    ("GET", "admin_v2:topic"): Action.NAMESPACE_READ,  # what looks like a topic is a bundle there
    ("PUT", "admin_v2:topic"): Action.TOPIC_ADMIN,
    ("DELETE", "admin_v2:topic"): Action.TOPIC_ADMIN,
    ("GET", "admin_v2:partitions"): Action.LOOKUP,
    ("PUT", "admin_v2:partitions"): Action.TOPIC_ADMIN,
    ("POST", "admin_v2:partitions"): Action.TOPIC_ADMIN,
    ("DELETE", "admin_v2:partitions"): Action.TOPIC_ADMIN,
    ("POST", "admin_v2:missing-partitions"): Action.TOPIC_ADMIN,
    ("GET", "admin_v2:topic-properties"): Action.LOOKUP,
    ("PUT", "admin_v2:topic-properties"): Action.TOPIC_ADMIN,
    ("DELETE", "admin_v2:topic-properties"): Action.TOPIC_ADMIN,
    ("GET", "admin_v2:topic-permissions"): Action.TENANT_READ,
    ("POST", "admin_v2:topic-permission"): Action.GRANT_ADMIN,
    ("POST", "admin_v2:topics-grants"): Action.GRANT_ADMIN,  # on each topic that the body names; none: superusers alone
    ("POST", "admin_v2:topics-revocations"): Action.GRANT_ADMIN,  # the same
    ("DELETE", "admin_v2:topic-permission"): Action.GRANT_ADMIN,
    ("GET", "admin_v2:topic-stats"): Action.LOOKUP,
    ("GET", "admin_v2:topic-internal-stats"): Action.LOOKUP,
    ("GET", "admin_v2:partitioned-stats"): Action.LOOKUP,
    ("GET", "admin_v2:partitioned-internal-stats"): Action.LOOKUP,
    ("GET", "admin_v2:topic-internal-info"): Action.LOOKUP,
    ("PUT", "admin_v2:topic-backlog-size"): Action.LOOKUP,
    ("PUT", "admin_v2:topic-unload"): Action.OPERATE,
    ("POST", "admin_v2:topic-terminate"): Action.TOPIC_ADMIN,
    ("POST", "admin_v2:topic-terminate-partitions"): Action.TOPIC_ADMIN,
    ("DELETE", "admin_v2:topic-truncate"): Action.TOPIC_ADMIN,
    ("POST", "admin_v2:topic-trim"): Action.TOPIC_ADMIN,
    ("PUT", "admin_v2:topic-compaction"): Action.TOPIC_ADMIN,
    ("GET", "admin_v2:topic-compaction"): Action.TOPIC_ADMIN,
    ("GET", "admin_v2:last-message-id"): Action.CURSOR_ADMIN,
    ("GET", "admin_v2:message"): Action.MESSAGE_READ,
    ("GET", "admin_v2:examine-message"): Action.MESSAGE_READ,
    ("GET", "admin_v2:find-message"): Action.CURSOR_ADMIN,
    ("GET", "admin_v2:subscriptions"): Action.CURSOR_ADMIN,
    ("PUT", "admin_v2:subscription"): Action.CURSOR_ADMIN,
    ("DELETE", "admin_v2:subscription"): Action.CURSOR_ADMIN,
    ("POST", "admin_v2:skip-all"): Action.CURSOR_ADMIN,
    ("POST", "admin_v2:skip"): Action.CURSOR_ADMIN,
    ("POST", "admin_v2:expire"): Action.CURSOR_ADMIN,
    ("POST", "admin_v2:expire-to"): Action.CURSOR_ADMIN,
    ("POST", "admin_v2:expire-all"): Action.CURSOR_ADMIN,  # and on each subscription, one by one
    ("POST", "admin_v2:reset-cursor"): Action.CURSOR_ADMIN,
    ("POST", "admin_v2:reset-cursor-to-time"): Action.CURSOR_ADMIN,
    ("GET", "admin_v2:subscription-properties"): Action.CURSOR_ADMIN,
    ("PUT", "admin_v2:subscription-properties"): Action.CURSOR_ADMIN,
    ("GET", "admin_v2:peek"): Action.MESSAGE_READ,
    ("POST", "admin_v2:analyze-backlog"): Action.CURSOR_ADMIN,
    ("GET", "lookup:topic"): Action.LOOKUP,
    ("GET", "lookup:bundle"): Action.LOOKUP,
}

_POLICIES: dict[tuple[str, str], Action] = {
    (method, f"admin_v2:policy-{path}"): Action.TENANT_READ if method == "GET" else Action.NAMESPACE_ADMIN
    for path, policy in PATHS.items()
    for method in ("GET", policy.set_by, "DELETE")
}

_TOPIC_POLICIES: dict[tuple[str, str], Action] = {
    ("DELETE", "admin_v2:topic-policies"): Action.TOPIC_ADMIN,
    ("GET", "admin_v2:topic-backlog-quotas"): Action.TENANT_READ,
    ("POST", "admin_v2:topic-backlog-quota"): Action.TOPIC_ADMIN,
    ("DELETE", "admin_v2:topic-backlog-quota"): Action.TOPIC_ADMIN,
    ("GET", "admin_v2:subscription-dispatch-rate"): Action.TENANT_READ,
    ("POST", "admin_v2:subscription-dispatch-rate"): Action.TOPIC_ADMIN,
    ("DELETE", "admin_v2:subscription-dispatch-rate"): Action.TOPIC_ADMIN,
} | {
    (method, f"admin_v2:topic-policy-{path}"): Action.TENANT_READ if method == "GET" else Action.TOPIC_ADMIN
    for path, policy in TOPIC_PATHS.items()
    for method in policy.methods
}

_UNSET: dict[tuple[str, str], Action] = {
    ("GET", "admin_v2:cluster-peers"): Action.SUPERUSER,
    ("GET", "admin_v2:cluster-migration"): Action.SUPERUSER,
    ("GET", "admin_v2:resource-groups"): Action.SUPERUSER,
    ("GET", "admin_v2:resource-group"): Action.SUPERUSER,
    ("GET", "admin_v2:backlog-quota-check"): Action.SUPERUSER,
    ("GET", "admin_v2:replicated-subscription"): Action.CURSOR_ADMIN,
} | {
    (method, f"admin_v2:{below}-unset-{path}"): Action.TENANT_READ if method == "GET" else changes
    for below, changes, paths in (
        ("namespace", Action.NAMESPACE_ADMIN, UNSET_BELOW_NAMESPACE),
        ("topic", Action.TOPIC_ADMIN, UNSET_BELOW_TOPIC),
    )
    for path, methods in paths.items()
    for method in methods
}

ACTIONS: dict[tuple[str, str], Action] = _ROUTES | _POLICIES | _TOPIC_POLICIES | _UNSET

_AUDITED_ROUTES: dict[tuple[str, str], str] = {
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
    ("PUT", "admin_v2:bundle-unload"): "namespace.unload",
    ("PUT", "admin_v2:bundle-split"): "namespace.split_bundle",
    ("POST", "admin_v2:bundle-clear-backlog"): "namespace.clear_backlog",
    ("POST", "admin_v2:bundle-clear-backlog-of"): "namespace.clear_backlog",
    ("POST", "admin_v2:bundle-unsubscribe"): "namespace.unsubscribe",
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
    ("POST", "admin_v2:bookie-rack"): "bookie_rack.set",
    ("DELETE", "admin_v2:bookie-rack"): "bookie_rack.delete",
    ("POST", "admin_v2:brokers-dynamic-value"): "broker.setting.set",
    ("POST", "admin_v2:cluster-domain"): "failure_domain.set",
    ("DELETE", "admin_v2:cluster-domain"): "failure_domain.delete",
    ("POST", "admin_v2:cluster-isolation-policy"): "isolation.set",
    ("DELETE", "admin_v2:cluster-isolation-policy"): "isolation.delete",
    ("POST", "admin_v2:anti-affinity"): "namespace.set_policies",
    ("DELETE", "admin_v2:anti-affinity"): "namespace.set_policies",
    ("DELETE", "admin_v2:brokers-dynamic-name"): "broker.setting.unset",
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

_AUDITED_POLICIES: dict[tuple[str, str], str] = {
    (method, f"admin_v2:policy-{path}"): "namespace.set_policies"
    for path, policy in PATHS.items()
    for method in (policy.set_by, "DELETE")
}

_AUDITED_TOPIC_POLICIES: dict[tuple[str, str], str] = {
    (method, route): "topic.set_policies"
    for route, methods in (
        ("admin_v2:topic-policies", ("DELETE",)),
        ("admin_v2:topic-backlog-quota", ("POST", "DELETE")),
        ("admin_v2:subscription-dispatch-rate", ("POST", "DELETE")),
        *((f"admin_v2:topic-policy-{path}", policy.methods[1:]) for path, policy in TOPIC_PATHS.items()),
    )
    for method in methods
}

# Routes that read, and whose answer holds what somebody published.
PAYLOAD_READS: dict[tuple[str, str], str] = {
    ("GET", "admin_v2:peek"): "subscription.peek",
    ("GET", "admin_v2:message"): "message.read",
    ("GET", "admin_v2:examine-message"): "message.read",
}

# Under which name a request is recorded in the audit log.
AUDITED: dict[tuple[str, str], str] = _AUDITED_ROUTES | _AUDITED_POLICIES | _AUDITED_TOPIC_POLICIES | PAYLOAD_READS

# They change nothing, although their method says otherwise.
QUESTIONS = frozenset(
    {
        ("POST", "admin_v2:schema-compatibility"),
        ("POST", "admin_v2:schema-find"),
        ("POST", "admin_v2:analyze-backlog"),
        ("PUT", "admin_v2:topic-backlog-size"),
        *(("DELETE", f"admin_v2:namespace-unset-{path}") for path, methods in UNSET_BELOW_NAMESPACE.items() if "DELETE" in methods),
        *(("DELETE", f"admin_v2:topic-unset-{path}") for path, methods in UNSET_BELOW_TOPIC.items() if "DELETE" in methods),
    }
)
