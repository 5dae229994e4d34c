"""Policies of a namespace, including replication."""

from __future__ import annotations

from typing import Any, Literal

from django.conf import settings as django_settings
from django.http import HttpRequest, HttpResponse

from messaging.errors import ClusterNotAllowed, InvalidValue, NotFound, PreconditionFailed
from messaging.policies.pulsar import QUOTA_POLICIES, QUOTA_TYPES, PulsarPath, backlog_quotas
from messaging.policies.validation import JsonPolicies
from tenants import actions
from tenants.http.views import View, actor, body, route, value_or_nothing
from tenants.names import namespace_of
from tenants.pulsar.bodies import CLUSTERS_GIVEN, POLICY_GIVEN, BacklogQuota
from tenants.pulsar.rows import existing_namespace

_READ_UNSET = {"maxTopicsPerNamespace": 0}  # what GET answers alone, and not the whole object


class as_precondition:
    """Pulsar answers 412 for an invalid value of a policy."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, traceback: object) -> Literal[False]:
        if isinstance(error, InvalidValue):
            raise PreconditionFailed(error.message) from None
        return False


def policy_view(path: PulsarPath) -> View:
    """A view that reads, sets and unsets the policies behind one of Pulsar's paths."""

    def read(request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        value = path.read(existing_namespace(tenant, namespace).policies)
        return value_or_nothing(_READ_UNSET.get(path.path) if value is None else value)

    def write(request: HttpRequest, tenant: str, namespace: str) -> None:
        value = body(request, POLICY_GIVEN) if request.method != "DELETE" else None
        with as_precondition():
            actions.set_policies(actor(request), str(namespace_of(tenant, namespace)), path.changes(value))

    return route(GET=read, DELETE=write, **{path.set_by: write})


def quota_type(kind: str) -> str:
    """Raises `NotFound`."""
    if kind not in QUOTA_TYPES:
        raise NotFound(f"backlogQuotaType {kind[:40]!r} is not valid: use {' or '.join(QUOTA_TYPES)}")
    return kind


def _get_quotas(request: HttpRequest, tenant: str, namespace: str) -> dict[str, Any]:
    return backlog_quotas(existing_namespace(tenant, namespace).policies)


def _set_quota(request: HttpRequest, tenant: str, namespace: str) -> None:
    changes = requested_quota_changes(request)
    with as_precondition():
        actions.set_policies(actor(request), str(namespace_of(tenant, namespace)), changes)


def requested_quota_changes(request: HttpRequest) -> JsonPolicies:
    """What setting (POST) or removing (DELETE) the quota of the type that is asked for changes."""
    kind = quota_type(request.GET.get("backlogQuotaType") or "destination_storage")
    return quota_changes(kind, None if request.method == "DELETE" else body(request, BacklogQuota, None))


def quota_changes(kind: str, given: BacklogQuota | None) -> JsonPolicies:
    """What setting the quota of that type, or removing it (None), changes."""
    changes: JsonPolicies = {QUOTA_TYPES[kind]: None, QUOTA_POLICIES[kind]: None}
    if given is not None:
        size = given.limit_size if given.limit_size is not None else given.limit
        changes[QUOTA_TYPES[kind]] = (size if kind == "destination_storage" else given.limit_time) or -1
        changes[QUOTA_POLICIES[kind]] = given.policy or "producer_request_hold"
    return changes


def _get_replication(request: HttpRequest, tenant: str, namespace: str) -> list[str]:
    existing_namespace(tenant, namespace)
    return [django_settings.MAGNETAR.cluster_name]


def _set_replication(request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
    existing_namespace(tenant, namespace)
    check_clusters(body(request, CLUSTERS_GIVEN, []))
    return value_or_nothing(None)  # 200, not 204


def check_clusters(clusters: list[str] | None) -> None:
    ours = django_settings.MAGNETAR.cluster_name
    unknown = sorted(set(clusters or ()) - {ours})
    if unknown:
        raise ClusterNotAllowed(f"Invalid cluster id: {', '.join(unknown)}; the only cluster is {ours!r}")


replication_view = route(GET=_get_replication, POST=_set_replication)
quotas_view = route(GET=_get_quotas)
quota_view = route(POST=_set_quota, DELETE=_set_quota)
