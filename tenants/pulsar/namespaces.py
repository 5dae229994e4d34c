"""Namespaces, and operations on all topics of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from django.conf import settings as django_settings
from django.http import HttpRequest

from messaging.adminrpc.methods import SUBSCRIPTIONS_DELETE, SUBSCRIPTIONS_LIST, SUBSCRIPTIONS_SKIP
from messaging.adminrpc.subscriptions import SubscriptionDelete, SubscriptionSkip
from messaging.adminrpc.topics import TopicRef
from messaging.errors import InvalidValue, MagnetarError, PreconditionFailed, TopicNotFound
from messaging.json_types import converted
from messaging.permissions.model import Action
from messaging.policies.pulsar import PATHS, backlog_quotas
from messaging.policies.validation import JsonPolicies
from messaging.protocol.names import parse_topic
from tenants import actions, broker
from tenants.access import require
from tenants.actions.bundles import boundaries_of, set_boundaries, unload_namespace
from tenants.actions.change import PendingChange
from tenants.actions.cursors import move
from tenants.actions.topics import topic_resource
from tenants.http.views import actor, body, flag, route
from tenants.models import Namespace
from tenants.names import namespace_of, subscription_of
from tenants.pulsar import bundles
from tenants.pulsar.bodies import POLICIES_GIVEN, BacklogQuota, CreationPolicies, GivenPermissions
from tenants.pulsar.namespace_permissions import auth_policies
from tenants.pulsar.namespace_policies import as_precondition, check_clusters, quota_changes, quota_type
from tenants.pulsar.rows import existing_namespace, existing_tenant, shown, topic_names
from tenants.scoping import tenant_scope

_NOT_OURS: dict[str, Any] = {  # as Pulsar answers them where nobody set them; that of a Policies object is all that it has
    "allowed_clusters": [],
    "latency_stats_sample_rate": {},
    "migrated": False,
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "schema_auto_update_compatibility_strategy": None,
}

_AUTOMATIC_STRATEGIES = {
    "AutoUpdateDisabled": "ALWAYS_INCOMPATIBLE",
    "AlwaysCompatible": "ALWAYS_COMPATIBLE",
    "Backward": "BACKWARD",
    "Forward": "FORWARD",
    "Full": "FULL",
    "BackwardTransitive": "BACKWARD_TRANSITIVE",
    "ForwardTransitive": "FORWARD_TRANSITIVE",
    "FullTransitive": "FULL_TRANSITIVE",
}


def _list(request: HttpRequest, tenant: str) -> list[str]:
    existing_tenant(tenant)
    with tenant_scope(tenant):
        return list(Namespace.objects.values_list("name", flat=True))


def _get(request: HttpRequest, tenant: str, namespace: str) -> dict[str, Any]:
    """The whole Policies object. Field names mix styles, because that is what Pulsar's tools read."""
    row = existing_namespace(tenant, namespace)
    cluster = django_settings.MAGNETAR.cluster_name
    whole: dict[str, Any] = {}
    for path in PATHS.values():
        value = path.read(row.policies)
        whole[path.whole_key] = ({} if value is None else {cluster: value}) if path.by_cluster else value
    return whole | {
        "auth_policies": auth_policies(row),
        "replication_clusters": [cluster],
        "clusterThatCanDeleteNamespace": cluster,
        "bundles": bundles.shown(boundaries_of(row.name)),
        "backlog_quota_map": backlog_quotas(row.policies),
        "clusterDispatchRate": {},
        "deleted": False,
        **_NOT_OURS,
    }


def _create(request: HttpRequest, tenant: str, namespace: str) -> None:
    given = body(request, CreationPolicies, CreationPolicies())
    check_clusters(given.replication_clusters)
    check_clusters([given.cluster_that_can_delete] if given.cluster_that_can_delete else [])
    boundaries = bundles.given_boundaries(given.bundles)
    with as_precondition():
        policies, name = _policies_of(body(request, POLICIES_GIVEN, {})), str(namespace_of(tenant, namespace))
        auth = given.auth_policies or GivenPermissions()
        granted = actions.NamespacePermissions(
            auth.namespace_auth or {}, auth.destination_auth or {}, auth.subscription_auth_roles or {}
        )
        grant = actions.granting(actor(request), name, granted)

        def begin(changing: PendingChange, row: Namespace) -> None:
            grant(changing, row)
            if boundaries is not None:
                set_boundaries(row, boundaries)

        actions.create_namespace(actor(request), name, policies, begin)


def _policies_of(whole: dict[str, Any]) -> JsonPolicies:
    """The policies that a whole Policies object sets. Raises `PreconditionFailed` for a field that could not be kept."""
    policies: JsonPolicies = {}
    for path in PATHS.values():
        value = whole.pop(path.whole_key, None)
        if path.by_cluster:
            value = value.get(django_settings.MAGNETAR.cluster_name) if isinstance(value, dict) else value
        if value not in (None, ""):  # clients of Go send "" for a strategy that is not set
            policies |= path.changes(value)
    policies |= _quotas_of(whole.pop("backlog_quota_map", None) or {})
    policies = _strategy_of(whole.pop("schema_auto_update_compatibility_strategy", None)) | policies
    for name, value in whole.items():
        if name not in CreationPolicies.__struct_encode_fields__ and not _says_nothing(value):
            raise PreconditionFailed(f"{name[:80]} cannot be set when a namespace is created: remove it")
    return policies


def _quotas_of(given: dict[str, Any]) -> JsonPolicies:
    """Raises `InvalidValue` and `NotFound`."""
    try:
        quotas = converted(given, dict[str, BacklogQuota])
    except msgspec.ValidationError as error:
        raise InvalidValue(f"backlog_quota_map is not valid: {error}") from None
    policies: JsonPolicies = {}
    for kind, quota in quotas.items():
        policies |= quota_changes(quota_type(kind), quota)
    return policies


def _strategy_of(automatic: Any) -> JsonPolicies:
    """What Pulsar makes of the strategy's predecessor, where no strategy is set. Raises `InvalidValue`."""
    if automatic in (None, ""):
        return {}
    if not isinstance(automatic, str) or automatic not in _AUTOMATIC_STRATEGIES:
        raise InvalidValue(
            f"schema_auto_update_compatibility_strategy cannot be {str(automatic)[:40]!r}: use {', '.join(_AUTOMATIC_STRATEGIES)}"
        )
    return PATHS["schemaCompatibilityStrategy"].changes(_AUTOMATIC_STRATEGIES[automatic])


def _says_nothing(value: Any) -> bool:
    """Whether this is what tools send for a field that nobody set."""
    if isinstance(value, dict):
        return all(_says_nothing(part) for part in value.values())
    return value in (None, False, "", -1) or value == []


def _delete(request: HttpRequest, tenant: str, namespace: str) -> None:
    actions.delete_namespace(actor(request), str(namespace_of(tenant, namespace)), force=flag(request, "force"))


def _topics(request: HttpRequest, tenant: str, namespace: str) -> list[str]:
    mode = request.GET.get("mode", "PERSISTENT").upper()
    names = shown(request, topic_names(tenant, namespace).topics)
    return [topic for topic in names if mode == "ALL" or (topic.startswith("persistent://") == (mode == "PERSISTENT"))]


def _unload(request: HttpRequest, tenant: str, namespace: str) -> None:
    unload_namespace(existing_namespace(tenant, namespace).name)


# --- over all topics: the check of the single operation for each ---------------------------------------------------------------


def _subscriptions(request: HttpRequest, topics: Iterable[str], only: str = "") -> Iterator[tuple[str, str]]:
    """(topic, subscription) pairs of the topics. Raises unless the caller may consume from every one of them."""
    for topic in topics:
        if not parse_topic(topic).persistent:  # what its subscriptions have ends with their consumers
            continue
        try:
            subscriptions = broker.rpc().call(SUBSCRIPTIONS_LIST, TopicRef(topic=topic)).subscriptions
        except TopicNotFound:
            continue
        for subscription in subscriptions:
            if not only or subscription == only:
                require(actor(request), Action.CURSOR_ADMIN, topic_resource(parse_topic(topic), subscription))
                yield topic, subscription


def clear_backlog(request: HttpRequest, topics: Iterable[str], subscription: str = "") -> None:
    """Of one subscription of that name on each of the topics, or of all."""
    only = subscription_of(subscription) if subscription else ""
    for topic, name in list(_subscriptions(request, topics, only)):
        move(actor(request), SUBSCRIPTIONS_SKIP, SubscriptionSkip(topic=topic, subscription=name), of_many=True)


def _clear_backlog(request: HttpRequest, tenant: str, namespace: str, subscription: str = "") -> None:
    clear_backlog(request, topic_names(tenant, namespace).topics, subscription)


def unsubscribe(request: HttpRequest, topics: Iterable[str], subscription: str) -> None:
    """From each of the topics."""
    failed: MagnetarError | None = None
    for topic, name in list(_subscriptions(request, topics, subscription_of(subscription))):
        try:
            move(actor(request), SUBSCRIPTIONS_DELETE, SubscriptionDelete(topic=topic, subscription=name))
        except PreconditionFailed as error:
            failed = error
    if failed is not None:
        raise failed


def _unsubscribe(request: HttpRequest, tenant: str, namespace: str, subscription: str) -> None:
    unsubscribe(request, topic_names(tenant, namespace).topics, subscription)


namespaces_view = route(GET=_list)
namespace_view = route(GET=_get, PUT=_create, DELETE=_delete)
topics_view = route(GET=_topics)
unload_view = route(PUT=_unload)
clear_backlog_view = route(POST=_clear_backlog)
unsubscribe_view = route(POST=_unsubscribe)
