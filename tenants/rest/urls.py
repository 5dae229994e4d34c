"""/api/v1"""

from __future__ import annotations

from django.urls import path, register_converter

from messaging.protocol.names import NON_PERSISTENT
from tenants.http.segments import SegmentConverter
from tenants.pulsar import urls as _converters  # noqa: F401
from tenants.rest import document
from tenants.rest.lazy import LazyView

app_name = "api"


class KindConverter(SegmentConverter):
    """``topics`` for persistent topics, ``non-persistent`` for the others."""

    regex = f"topics|{NON_PERSISTENT}"


register_converter(KindConverter, "kind")

_T = "tenants/<segment:tenant>"
_N = f"{_T}/namespaces/<segment:namespace>"
_TOPIC = f"{_N}/<kind:kind>/<segment:topic>"
_SUB = f"{_TOPIC}/subscriptions/<segment:subscription>"


def _path(route: str, target: str, name: str) -> object:
    return path(route, LazyView(f"tenants.rest.{target}"), name=name)


urlpatterns = [
    path("openapi.json", document.openapi_view, name="openapi"),
    path("docs", document.docs_view, name="docs"),
    path("tasks", LazyView("workers.rest.tasks:Tasks"), name="tasks"),
    path("task-runs", LazyView("workers.rest.tasks:TaskRuns"), name="task-runs"),
    path("task-runs/<segment:run_id>", LazyView("workers.rest.tasks:TaskRunOne"), name="task-run"),
    path("task-runs/<segment:run_id>/requeue", LazyView("workers.rest.tasks:TaskRunRequeue"), name="task-run-requeue"),
    path("notices", LazyView("workers.alerts.rest:PlatformNotices"), name="platform-notices"),
    path("notifications", LazyView("workers.alerts.rest:PlatformNotifications"), name="platform-notifications"),
    _path("me", "tenants:Me", "me"),
    _path("audit", "tenants:PlatformAudit", "platform-audit"),
    _path("tenants", "tenants:Tenants", "tenants"),
    _path(_T, "tenants:TenantOne", "tenant"),
    _path(f"{_T}/labels", "tenants:TenantLabels", "tenant-labels"),
    _path(f"{_T}/policies", "policies:TenantPolicies", "tenant-policies"),
    _path(f"{_T}/policies/in-force", "policies:TenantPoliciesInForce", "tenant-policies-in-force"),
    _path(f"{_T}/policies/preview", "policies:TenantPolicyPreview", "tenant-policies-preview"),
    _path(f"{_T}/audit", "tenants:Audit", "audit"),
    path(f"{_T}/alert-rules", LazyView("workers.alerts.rest:AlertRules"), name="alert-rules"),
    path(f"{_T}/alert-rules/<segment:rule>", LazyView("workers.alerts.rest:AlertRuleOne"), name="alert-rule"),
    path(f"{_T}/notices", LazyView("workers.alerts.rest:Notices"), name="notices"),
    path(f"{_T}/notifications", LazyView("workers.alerts.rest:Notifications"), name="notifications"),
    _path(f"{_T}/keys", "tenants:Keys", "keys"),
    _path(f"{_T}/keys/<segment:key_id>", "tenants:KeyOne", "key"),
    _path(f"{_T}/members", "tenants:Members", "members"),
    _path(f"{_T}/members/<segment:username>", "tenants:Member", "member"),
    _path(f"{_T}/changes", "changes:Changes", "changes"),
    _path(f"{_T}/namespaces", "namespaces:Namespaces", "namespaces"),
    _path(_N, "namespaces:NamespaceOne", "namespace"),
    _path(f"{_N}/policies", "namespaces:Policies", "policies"),
    _path(f"{_N}/policies/in-force", "policies:NamespacePoliciesInForce", "policies-in-force"),
    _path(f"{_N}/policies/preview", "policies:NamespacePolicyPreview", "policies-preview"),
    _path(f"{_TOPIC}/policies", "policies:TopicPolicies", "topic-policies"),
    _path(f"{_TOPIC}/policies/in-force", "policies:TopicPoliciesInForce", "topic-policies-in-force"),
    _path(f"{_TOPIC}/policies/preview", "policies:TopicPolicyPreview", "topic-policies-preview"),
    _path(f"{_SUB}/policies", "policies:SubscriptionPolicies", "subscription-policies"),
    _path(f"{_SUB}/policies/in-force", "policies:SubscriptionPoliciesInForce", "subscription-policies-in-force"),
    _path(f"{_SUB}/policies/preview", "policies:SubscriptionPolicyPreview", "subscription-policies-preview"),
    _path(f"{_N}/permissions", "namespaces:NamespacePermissions", "permissions"),
    _path(f"{_N}/permissions/<segment:role>", "namespaces:NamespacePermission", "permission"),
    _path(f"{_N}/topics", "namespaces:Topics", "topics"),
    _path(_TOPIC, "namespaces:Topic", "topic"),
    _path(f"{_SUB}/dead-letter-policy", "subscriptions:DeadLetterPolicy", "dead-letter-policy"),
    path(f"{_TOPIC}/redrives", LazyView("workers.redrive.rest:Redrives"), name="redrives"),
    path(f"{_TOPIC}/redrives/dry-run", LazyView("workers.redrive.rest:RedriveDryRun"), name="redrive-dry-run"),
    path(f"{_TOPIC}/redrives/<segment:job>", LazyView("workers.redrive.rest:RedriveOne"), name="redrive"),
    path(f"{_TOPIC}/redrives/<segment:job>/pause", LazyView("workers.redrive.rest:RedrivePause"), name="redrive-pause"),
    path(f"{_TOPIC}/redrives/<segment:job>/resume", LazyView("workers.redrive.rest:RedriveResume"), name="redrive-resume"),
    path(f"{_TOPIC}/redrives/<segment:job>/outcomes", LazyView("workers.redrive.rest:RedriveOutcomes"), name="redrive-outcomes"),
    _path(f"{_TOPIC}/stats", "namespaces:Stats", "topic-stats"),
    _path(f"{_TOPIC}/delayed", "delayed:DelayedMessages", "delayed"),
    _path(f"{_TOPIC}/delayed/counts", "delayed:DelayedCounts", "delayed-counts"),
    _path(f"{_TOPIC}/delayed/<segment:message_id>", "delayed:DelayedMessageOne", "delayed-message"),
    _path(f"{_SUB}/explain", "diagnosis:Explain", "subscription-explain"),
    _path(f"{_TOPIC}/messages/<segment:message_id>/trace", "diagnosis:Trace", "message-trace"),
]
