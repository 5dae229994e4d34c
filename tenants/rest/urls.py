"""/api/v1: what tenants have. `controlplane.api_urls` puts it together with what workers have."""

from __future__ import annotations

from django.urls import URLPattern, path, register_converter

from messaging.protocol.names import NON_PERSISTENT
from tenants.http.segments import SegmentConverter
from tenants.pulsar import urls as _converters  # noqa: F401
from tenants.rest import document
from tenants.rest.lazy import LazyView


class KindConverter(SegmentConverter):
    """``topics`` for persistent topics, ``non-persistent`` for the others."""

    regex = f"topics|{NON_PERSISTENT}"


register_converter(KindConverter, "kind")

TENANT = "tenants/<segment:tenant>"
NAMESPACE = f"{TENANT}/namespaces/<segment:namespace>"
TOPIC = f"{NAMESPACE}/<kind:kind>/<segment:topic>"
SUBSCRIPTION = f"{TOPIC}/subscriptions/<segment:subscription>"


def _path(route: str, target: str, name: str) -> URLPattern:
    return path(route, LazyView(f"tenants.rest.{target}"), name=name)


urlpatterns = [
    path("openapi.json", document.openapi_view, name="openapi"),
    path("docs", document.docs_view, name="docs"),
    _path("me", "tenants:Me", "me"),
    _path("tune", "tuning:TrafficTune", "tune"),
    _path("audit", "audit:PlatformAudit", "platform-audit"),
    _path("audit/export", "audit:PlatformAuditExport", "platform-audit-export"),
    _path("audit/heads", "audit:AuditHeads", "audit-heads"),
    _path("administrators", "administrators:Administrators", "administrators"),
    _path("administrators/<segment:username>", "administrators:Administrator", "administrator"),
    _path("tenants", "tenants:Tenants", "tenants"),
    _path("recycled-tenants", "recycled:RecycledTenants", "recycled-tenants"),
    _path("recycled-tenants/<segment:recycle_id>", "recycled:RecycledTenant", "recycled-tenant"),
    _path("recycled-tenants/<segment:recycle_id>/restore", "recycled:RecycledTenantRestore", "recycled-tenant-restore"),
    _path(TENANT, "tenants:TenantOne", "tenant"),
    _path(f"{TENANT}/labels", "tenants:TenantLabels", "tenant-labels"),
    _path(f"{TENANT}/language", "tenants:TenantLanguage", "tenant-language"),
    _path(f"{TENANT}/policies", "policies:TenantPolicies", "tenant-policies"),
    _path(f"{TENANT}/masked-fields", "policies:TenantMaskedFields", "tenant-masked-fields"),
    _path(f"{TENANT}/policies/in-force", "policies:TenantPoliciesInForce", "tenant-policies-in-force"),
    _path(f"{TENANT}/policies/preview", "policies:TenantPolicyPreview", "tenant-policies-preview"),
    _path(f"{TENANT}/policies/what-if", "policies:TenantPolicyWhatIf", "tenant-policies-what-if"),
    _path(f"{TENANT}/ceilings", "ceilings:TenantCeilings", "tenant-ceilings"),
    _path(f"{TENANT}/history", "history:TenantHistory", "tenant-history"),
    _path(f"{TENANT}/audit", "audit:Audit", "audit"),
    _path(f"{TENANT}/audit/export", "audit:AuditExport", "audit-export"),
    _path(f"{TENANT}/keys", "tenants:Keys", "keys"),
    _path(f"{TENANT}/keys/revoke-token", "tenants:RevokeToken", "key-revoke-token"),
    _path(f"{TENANT}/keys/<segment:key_id>", "tenants:KeyOne", "key"),
    _path(f"{TENANT}/keys/<segment:key_id>/rotate", "tenants:RotateKey", "key-rotate"),
    _path(f"{TENANT}/access", "access:Explanation", "access"),
    _path(f"{TENANT}/readers", "readers:Readers", "readers"),
    _path(f"{TENANT}/clients", "clients:Clients", "clients"),
    _path(f"{TENANT}/members", "tenants:Members", "members"),
    _path(f"{TENANT}/members/<segment:username>", "tenants:Member", "member"),
    _path(f"{TENANT}/roles", "roles:Roles", "roles"),
    _path(f"{TENANT}/roles/<segment:role>", "roles:RoleOne", "role"),
    _path(f"{TENANT}/teams", "teams:Teams", "teams"),
    _path(f"{TENANT}/teams/<segment:team>", "teams:TeamOne", "team"),
    _path(f"{TENANT}/teams/<segment:team>/members", "teams:TeamMembers", "team-members"),
    _path(f"{TENANT}/teams/<segment:team>/members/<segment:username>", "teams:TeamMemberOne", "team-member"),
    _path(f"{TENANT}/issuers", "issuers:TokenIssuers", "issuers"),
    _path(f"{TENANT}/issuers/<segment:issuer>", "issuers:TokenIssuerOne", "issuer"),
    _path(f"{TENANT}/changes", "changes:Changes", "changes"),
    _path(f"{TENANT}/namespaces", "namespaces:Namespaces", "namespaces"),
    _path(NAMESPACE, "namespaces:NamespaceOne", "namespace"),
    _path(f"{TENANT}/recycled-namespaces", "recycled:RecycledNamespaces", "recycled-namespaces"),
    _path(f"{TENANT}/recycled-namespaces/<segment:recycle_id>", "recycled:RecycledNamespace", "recycled-namespace"),
    _path(
        f"{TENANT}/recycled-namespaces/<segment:recycle_id>/restore",
        "recycled:RecycledNamespaceRestore",
        "recycled-namespace-restore",
    ),
    _path(f"{NAMESPACE}/policies", "namespaces:Policies", "policies"),
    _path(f"{NAMESPACE}/policies/in-force", "policies:NamespacePoliciesInForce", "policies-in-force"),
    _path(f"{NAMESPACE}/policies/preview", "policies:NamespacePolicyPreview", "policies-preview"),
    _path(f"{NAMESPACE}/policies/what-if", "policies:NamespacePolicyWhatIf", "policies-what-if"),
    _path(f"{TOPIC}/policies", "policies:TopicPolicies", "topic-policies"),
    _path(f"{TOPIC}/policies/in-force", "policies:TopicPoliciesInForce", "topic-policies-in-force"),
    _path(f"{TOPIC}/policies/preview", "policies:TopicPolicyPreview", "topic-policies-preview"),
    _path(f"{TOPIC}/policies/what-if", "policies:TopicPolicyWhatIf", "topic-policies-what-if"),
    _path(f"{SUBSCRIPTION}/policies", "policies:SubscriptionPolicies", "subscription-policies"),
    _path(f"{SUBSCRIPTION}/policies/in-force", "policies:SubscriptionPoliciesInForce", "subscription-policies-in-force"),
    _path(f"{SUBSCRIPTION}/policies/preview", "policies:SubscriptionPolicyPreview", "subscription-policies-preview"),
    _path(f"{SUBSCRIPTION}/policies/what-if", "policies:SubscriptionPolicyWhatIf", "subscription-policies-what-if"),
    _path(f"{TENANT}/policies/history", "policy_history:TenantPolicyHistory", "tenant-policies-history"),
    _path(f"{TENANT}/policies/blame", "policy_history:TenantPolicyBlame", "tenant-policies-blame"),
    _path(f"{TENANT}/policies/undo", "policy_history:TenantPolicyUndo", "tenant-policies-undo"),
    _path(f"{NAMESPACE}/policies/history", "policy_history:NamespacePolicyHistory", "policies-history"),
    _path(f"{NAMESPACE}/policies/blame", "policy_history:NamespacePolicyBlame", "policies-blame"),
    _path(f"{NAMESPACE}/policies/undo", "policy_history:NamespacePolicyUndo", "policies-undo"),
    _path(f"{TOPIC}/policies/history", "policy_history:TopicPolicyHistory", "topic-policies-history"),
    _path(f"{TOPIC}/policies/blame", "policy_history:TopicPolicyBlame", "topic-policies-blame"),
    _path(f"{TOPIC}/policies/undo", "policy_history:TopicPolicyUndo", "topic-policies-undo"),
    _path(f"{SUBSCRIPTION}/policies/history", "policy_history:SubscriptionPolicyHistory", "subscription-policies-history"),
    _path(f"{SUBSCRIPTION}/policies/blame", "policy_history:SubscriptionPolicyBlame", "subscription-policies-blame"),
    _path(f"{SUBSCRIPTION}/policies/undo", "policy_history:SubscriptionPolicyUndo", "subscription-policies-undo"),
    _path(f"{NAMESPACE}/history", "history:NamespaceHistory", "namespace-history"),
    _path(f"{NAMESPACE}/permissions", "namespaces:NamespacePermissions", "permissions"),
    _path(f"{NAMESPACE}/permissions/<segment:role>", "namespaces:NamespacePermission", "permission"),
    _path(f"{NAMESPACE}/recycle-bin", "recycle_bin:RecycleBin", "recycle-bin"),
    _path(f"{NAMESPACE}/recycle-bin/<segment:recycle_id>", "recycle_bin:RecycledOne", "recycled-topic"),
    _path(f"{NAMESPACE}/recycle-bin/<segment:recycle_id>/restore", "recycle_bin:RecycledRestore", "recycled-topic-restore"),
    _path(f"{NAMESPACE}/topics", "namespaces:Topics", "topics"),
    _path(TOPIC, "namespaces:Topic", "topic"),
    _path(f"{SUBSCRIPTION}/dead-letter-policy", "subscriptions:DeadLetterPolicy", "dead-letter-policy"),
    _path(f"{TOPIC}/stats", "namespaces:Stats", "topic-stats"),
    _path(f"{TOPIC}/history", "history:TopicHistory", "topic-history"),
    _path(f"{TOPIC}/tune", "tuning:MeasuredTune", "topic-tune"),
    _path(f"{TOPIC}/internal-stats", "topic_operations:InternalStats", "topic-internal-stats"),
    _path(f"{TOPIC}/properties", "topic_operations:Properties", "topic-properties"),
    _path(f"{TOPIC}/unload", "topic_operations:Unload", "topic-unload"),
    _path(f"{TOPIC}/disconnect", "topic_operations:Disconnect", "topic-disconnect"),
    _path(f"{TOPIC}/terminate", "topic_operations:Terminate", "topic-terminate"),
    _path(f"{TOPIC}/truncate", "topic_operations:Truncate", "topic-truncate"),
    _path(f"{TOPIC}/trim", "topic_operations:Trim", "topic-trim"),
    _path(f"{TOPIC}/missing-partitions", "topic_operations:MissingPartitions", "missing-partitions"),
    _path(f"{TOPIC}/compaction", "topic_operations:Compaction", "topic-compaction"),
    _path(f"{TOPIC}/permissions", "namespaces:TopicPermissions", "topic-permissions"),
    _path(f"{TOPIC}/permissions/<segment:role>", "namespaces:TopicPermission", "topic-permission"),
    _path(f"{TOPIC}/schemas", "topic_schemas:Schemas", "schemas"),
    _path(f"{TOPIC}/schemas/check", "topic_schemas:SchemaCheck", "schema-check"),
    _path(f"{TOPIC}/schemas/<segment:version>", "topic_schemas:SchemaOne", "schema"),
    _path(f"{TOPIC}/messages", "messages:Messages", "messages"),
    _path(f"{TOPIC}/messages/<segment:message_id>", "messages:MessageOne", "message"),
    _path(f"{TOPIC}/browse", "browsing:MessagesBrowsing", "browsed-messages"),
    _path(f"{TOPIC}/browse/<segment:message_id>", "browsing:MessageBrowsing", "browsed-message"),
    _path(f"{TOPIC}/last-message", "messages:LastMessage", "last-message"),
    _path(f"{TOPIC}/message-at", "messages:MessageSearch", "message-at"),
    _path(f"{TOPIC}/subscriptions", "cursors:Subscriptions", "subscriptions"),
    _path(SUBSCRIPTION, "cursors:SubscriptionOne", "subscription"),
    _path(f"{SUBSCRIPTION}/properties", "cursors:SubscriptionProperties", "subscription-properties"),
    _path(f"{SUBSCRIPTION}/history", "history:SubscriptionHistory", "subscription-history"),
    _path(f"{SUBSCRIPTION}/messages", "cursors:SubscriptionMessages", "subscription-messages"),
    _path(f"{SUBSCRIPTION}/backlog", "cursors:SubscriptionBacklog", "subscription-backlog"),
    _path(f"{SUBSCRIPTION}/clear", "cursors:SubscriptionClear", "subscription-clear"),
    _path(f"{SUBSCRIPTION}/skip", "cursors:SubscriptionSkipEntries", "subscription-skip"),
    _path(f"{SUBSCRIPTION}/reset", "cursors:SubscriptionPosition", "subscription-reset"),
    _path(f"{SUBSCRIPTION}/expire", "cursors:SubscriptionExpiry", "subscription-expire"),
    _path(f"{SUBSCRIPTION}/moves", "cursor_moves:SubscriptionMoves", "subscription-moves"),
    _path(f"{SUBSCRIPTION}/moves/<segment:move>/undo", "cursor_moves:SubscriptionUndo", "subscription-undo"),
    _path(f"{TOPIC}/delayed", "delayed:DelayedMessages", "delayed"),
    _path(f"{TOPIC}/delayed/counts", "delayed:DelayedCounts", "delayed-counts"),
    _path(f"{TOPIC}/delayed/<segment:message_id>", "delayed:DelayedMessageOne", "delayed-message"),
    _path(f"{TOPIC}/explain", "diagnosis:TopicExplanation", "topic-explain"),
    _path(f"{SUBSCRIPTION}/explain", "diagnosis:Explain", "subscription-explain"),
    _path(f"{TOPIC}/messages/<segment:message_id>/trace", "diagnosis:Trace", "message-trace"),
]
