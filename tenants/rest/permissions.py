"""The permission of each route of /api/v1 that `tenants.rest.urls` has: (HTTP method, route name) -> action.

The web process takes the action of a request from these rows and from nowhere else (`controlplane.permissions`): a route without
one is closed. The resource is made of the arguments of the route (tenant, namespace, topic, subscription). HEAD counts as GET.
"""

from __future__ import annotations

from messaging.permissions.model import Action

ACTIONS: dict[tuple[str, str], Action] = {
    ("GET", "api:openapi"): Action.PUBLIC,  # the same for everybody: the description of the API
    ("GET", "api:docs"): Action.PUBLIC,
    ("GET", "api:me"): Action.AUTHENTICATED,
    ("GET", "api:platform-audit"): Action.SUPERUSER,
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

# Under which name a request is recorded in the audit log.
AUDITED: dict[tuple[str, str], str] = {
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
}

# They change nothing, although their method says otherwise.
QUESTIONS = frozenset(
    {
        ("POST", "api:tenant-policies-preview"),
        ("POST", "api:policies-preview"),
        ("POST", "api:topic-policies-preview"),
        ("POST", "api:subscription-policies-preview"),
    }
)
