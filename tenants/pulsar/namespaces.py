from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from django.conf import settings as django_settings
from django.http import HttpRequest, HttpResponse

from messaging.adminrpc.schema import SubscriptionDelete, SubscriptionSkip, TopicNames, TopicRef, TopicsList
from messaging.errors import InvalidValue, MagnetarError, NotFound, PreconditionFailed, TopicNotFound
from messaging.permissions.model import Action
from messaging.protocol.names import parse_topic
from tenants import actions, broker
from tenants.access import require
from tenants.actions.topics import topic_resource
from tenants.models import Grant, Namespace, SubscriptionGrant
from tenants.names import namespace_of, subscription_of
from tenants.policies import JsonPolicies
from tenants.pulsar import tenants
from tenants.pulsar.http import View, actor, body, flag, route, value_or_nothing
from tenants.pulsar.policy_table import BY_PATH, ROWS
from tenants.scoping import tenant_scope

_QUOTA_TYPES = {"destination_storage": "backlog_quota_bytes", "message_age": "backlog_quota_age_s"}
_QUOTA_POLICIES = {"destination_storage": "backlog_quota_bytes_policy", "message_age": "backlog_quota_age_policy"}
_BUNDLES = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}  # one owner a topic; ranges of hashes are not used


def existing(tenant: str, namespace: str) -> Namespace:
    name = str(namespace_of(tenant, namespace))
    with tenant_scope(tenant):
        found = Namespace.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"Namespace does not exist: {name!r}")
    return found


def names(tenant: str, namespace: str) -> TopicNames:
    return broker.rpc().call("topics.list", TopicsList(namespace=existing(tenant, namespace).name))


# --- the namespace itself ----------------------------------------------------------------------------------------------------


def _list(request: HttpRequest, tenant: str) -> list[str]:
    tenants.existing(tenant)
    with tenant_scope(tenant):
        return list(Namespace.objects.values_list("name", flat=True))


def _get(request: HttpRequest, tenant: str, namespace: str) -> dict[str, Any]:
    """The whole of it. Fields of mixed style, because that is what Pulsar's tools read."""
    found = existing(tenant, namespace)
    whole = {row.policies_key: row.read(found.policies) for row in ROWS if row.policies_key}
    cluster = django_settings.MAGNETAR.cluster_name
    rates = {
        "publishMaxMessageRate": "publishRate",
        "topicDispatchRate": "dispatchRate",
        "subscriptionDispatchRate": "subscriptionDispatchRate",
        "clusterSubscribeRate": "subscribeRate",
    }
    for key, path in rates.items():
        rate = BY_PATH[path].read(found.policies)
        whole[key] = {} if rate is None else {cluster: rate}
    return whole | {
        "auth_policies": _auth_policies(found),
        "replication_clusters": [cluster],
        "bundles": _BUNDLES,
        "backlog_quota_map": _quotas(found.policies),
        "clusterDispatchRate": {},
        "replicatorDispatchRate": {},
        "deleted": False,
    }


class _Bundles(msgspec.Struct, rename="camel"):
    num_bundles: int = 0


class _NewNamespace(msgspec.Struct):
    """What of a Policies object is checked at creation but not kept."""

    bundles: _Bundles | None = None
    replication_clusters: list[str] | None = None


def _create(request: HttpRequest, tenant: str, namespace: str) -> None:
    given = body(request, _NewNamespace, _NewNamespace())
    if given.bundles is not None and not 0 <= given.bundles.num_bundles <= 1024:
        raise PreconditionFailed(f"{given.bundles.num_bundles} bundles are not possible: use 0 to 1024")
    _check_clusters(given.replication_clusters)
    whole = body(request, dict[str, Any], {})
    policies: JsonPolicies = {}
    for row in ROWS:
        if row.policies_key and whole.get(row.policies_key) is not None:
            policies |= row.changes(whole[row.policies_key])
    with _as_precondition():
        actions.create_namespace(actor(request), str(namespace_of(tenant, namespace)), policies)


def _delete(request: HttpRequest, tenant: str, namespace: str) -> None:
    actions.delete_namespace(actor(request), str(namespace_of(tenant, namespace)), force=flag(request, "force"))


def _topics(request: HttpRequest, tenant: str, namespace: str) -> list[str]:
    mode = request.GET.get("mode", "PERSISTENT").upper()
    found = names(tenant, namespace).topics
    return [topic for topic in found if mode == "ALL" or (topic.startswith("persistent://") == (mode == "PERSISTENT"))]


def _get_bundles(request: HttpRequest, tenant: str, namespace: str) -> dict[str, Any]:
    existing(tenant, namespace)
    return _BUNDLES


def _unload(request: HttpRequest, tenant: str, namespace: str) -> None:
    for topic in names(tenant, namespace).topics:
        broker.rpc().call("topics.unload", TopicRef(topic=topic))


# --- policies ----------------------------------------------------------------------------------------------------------------


class _as_precondition:
    """Pulsar answers 412 for a value that a policy cannot have."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, traceback: object) -> Literal[False]:
        if isinstance(error, InvalidValue):
            raise PreconditionFailed(error.message) from None
        return False


def policy_view(path: str, methods: tuple[str, ...]) -> View:
    """The view of one row of the policy table."""
    row = BY_PATH[path]

    def read(request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        return value_or_nothing(row.read(existing(tenant, namespace).policies))

    def write(request: HttpRequest, tenant: str, namespace: str) -> None:
        value = body(request, Any) if request.method != "DELETE" else None
        with _as_precondition():
            actions.set_policies(actor(request), str(namespace_of(tenant, namespace)), row.changes(value))

    return route(GET=read, **dict.fromkeys(methods, write))


class _Quota(msgspec.Struct, rename="camel"):
    """`limit` is the name of `limitSize` in old tools."""

    limit_size: int | None = None
    limit: int | None = None
    limit_time: int | None = None
    policy: str | None = None


def _quota_type(request: HttpRequest) -> str:
    kind = request.GET.get("backlogQuotaType") or "destination_storage"
    if kind not in _QUOTA_TYPES:
        raise InvalidValue(f"backlogQuotaType {kind[:40]!r} is not known: use {' or '.join(_QUOTA_TYPES)}")
    return kind


def _quotas(policies: JsonPolicies) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, name in _QUOTA_TYPES.items():
        if name in policies:
            size = policies[name] if kind == "destination_storage" else -1
            seconds = policies[name] if kind == "message_age" else -1
            found[kind] = {"limit": size, "limitSize": size, "limitTime": seconds, "policy": policies.get(_QUOTA_POLICIES[kind])}
    return found


def _get_quotas(request: HttpRequest, tenant: str, namespace: str) -> dict[str, Any]:
    return _quotas(existing(tenant, namespace).policies)


def _set_quota(request: HttpRequest, tenant: str, namespace: str) -> None:
    kind = _quota_type(request)
    given = None if request.method == "DELETE" else body(request, _Quota, None)
    changes: JsonPolicies = {_QUOTA_TYPES[kind]: None, _QUOTA_POLICIES[kind]: None}
    if given is not None:
        size = given.limit_size if given.limit_size is not None else given.limit
        changes[_QUOTA_TYPES[kind]] = (size if kind == "destination_storage" else given.limit_time) or -1
        changes[_QUOTA_POLICIES[kind]] = given.policy or "producer_request_hold"
    with _as_precondition():
        actions.set_policies(actor(request), str(namespace_of(tenant, namespace)), changes)


def _get_replication(request: HttpRequest, tenant: str, namespace: str) -> list[str]:
    existing(tenant, namespace)
    return [django_settings.MAGNETAR.cluster_name]


def _set_replication(request: HttpRequest, tenant: str, namespace: str) -> None:
    existing(tenant, namespace)
    _check_clusters(body(request, list[str], []))


def _check_clusters(clusters: list[str] | None) -> None:
    ours = django_settings.MAGNETAR.cluster_name
    unknown = sorted(set(clusters or ()) - {ours})
    if unknown:
        raise PreconditionFailed(f"Invalid cluster id: {', '.join(unknown)}; the only one here is {ours!r}")


# --- permissions -------------------------------------------------------------------------------------------------------------


def _roles(namespace: Namespace, topic: str = "") -> dict[str, list[str]]:
    with tenant_scope(namespace.tenant_id):
        return dict(Grant.objects.filter(namespace=namespace, topic=topic).values_list("role", "actions"))


def _subscription_roles(namespace: Namespace) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    with tenant_scope(namespace.tenant_id):
        rows = SubscriptionGrant.objects.filter(namespace=namespace).values_list("subscription", "role")
        for subscription, role in rows:
            found.setdefault(subscription, []).append(role)
    return found


def _auth_policies(namespace: Namespace) -> dict[str, Any]:
    topics: dict[str, dict[str, list[str]]] = {}
    with tenant_scope(namespace.tenant_id):
        for topic, role, granted in (
            Grant.objects.filter(namespace=namespace).exclude(topic="").values_list("topic", "role", "actions")
        ):
            topics.setdefault(topic, {})[role] = granted
    return {
        "namespace_auth": _roles(namespace),
        "destination_auth": topics,
        "subscription_auth_roles": _subscription_roles(namespace),
    }


def _get_permissions(request: HttpRequest, tenant: str, namespace: str) -> dict[str, list[str]]:
    return _roles(existing(tenant, namespace))


def _grant(request: HttpRequest, tenant: str, namespace: str, role: str) -> None:
    actions.grant_permission(actor(request), str(namespace_of(tenant, namespace)), role, body(request, list[str], []))


def _revoke(request: HttpRequest, tenant: str, namespace: str, role: str) -> None:
    actions.revoke_permission(actor(request), str(namespace_of(tenant, namespace)), role)


def _get_subscription_permissions(request: HttpRequest, tenant: str, namespace: str) -> dict[str, list[str]]:
    return _subscription_roles(existing(tenant, namespace))


def _restrict(request: HttpRequest, tenant: str, namespace: str, subscription: str) -> None:
    name = subscription_of(subscription)
    actions.restrict_subscription(actor(request), str(namespace_of(tenant, namespace)), name, body(request, list[str], []))


def _unrestrict(request: HttpRequest, tenant: str, namespace: str, subscription: str, role: str) -> None:
    name = subscription_of(subscription)
    actions.unrestrict_subscription(actor(request), str(namespace_of(tenant, namespace)), name, role)


# --- over all topics: the check of the single operation for each ---------------------------------------------------------------


def _subscriptions(request: HttpRequest, tenant: str, namespace: str, only: str = "") -> Iterator[tuple[str, str]]:
    """(topic, subscription) over the namespace; the caller may consume from every one of them, or it raises."""
    for topic in names(tenant, namespace).topics:
        try:
            found = broker.rpc().call("subscriptions.list", TopicRef(topic=topic)).subscriptions
        except TopicNotFound:
            continue
        for subscription in found:
            if not only or subscription == only:
                require(actor(request), Action.CONSUME, topic_resource(parse_topic(topic), subscription))
                yield topic, subscription


def _clear_backlog(request: HttpRequest, tenant: str, namespace: str, subscription: str = "") -> None:
    only = subscription_of(subscription) if subscription else ""
    for topic, name in list(_subscriptions(request, tenant, namespace, only)):
        broker.rpc().call("subscriptions.skip", SubscriptionSkip(topic=topic, subscription=name))


def _unsubscribe(request: HttpRequest, tenant: str, namespace: str, subscription: str) -> None:
    failed: MagnetarError | None = None
    for topic, name in list(_subscriptions(request, tenant, namespace, subscription_of(subscription))):
        try:
            broker.rpc().call("subscriptions.delete", SubscriptionDelete(topic=topic, subscription=name))
        except PreconditionFailed as error:
            failed = error
    if failed is not None:
        raise failed


namespaces_view = route(GET=_list)
namespace_view = route(GET=_get, PUT=_create, DELETE=_delete)
topics_view = route(GET=_topics)
bundles_view = route(GET=_get_bundles)
unload_view = route(PUT=_unload)
permissions_view = route(GET=_get_permissions)
permission_view = route(POST=_grant, DELETE=_revoke)
subscription_permissions_view = route(GET=_get_subscription_permissions)
subscription_permission_view = route(POST=_restrict)
subscription_permission_role_view = route(DELETE=_unrestrict)
replication_view = route(GET=_get_replication, POST=_set_replication)
quotas_view = route(GET=_get_quotas)
quota_view = route(POST=_set_quota, DELETE=_set_quota)
clear_backlog_view = route(POST=_clear_backlog)
unsubscribe_view = route(POST=_unsubscribe)
