"""What Pulsar has and is not here, read as what nobody has set up (`messaging.policies.pulsar_unset`)."""

from __future__ import annotations

from typing import Any, NoReturn

from django.conf import settings as django_settings
from django.http import HttpRequest, HttpResponse

from messaging.adminrpc.methods import SUBSCRIPTIONS_LIST
from messaging.adminrpc.topics import TopicRef
from messaging.errors import NotFound, SubscriptionNotFound
from messaging.policies.pulsar_unset import APPLIED, Unset
from tenants import broker
from tenants.http.views import View, done, flag, route, value_or_nothing
from tenants.names import subscription_of, topic_of
from tenants.pulsar.brokers import existing_cluster
from tenants.pulsar.rows import existing_namespace
from tenants.pulsar.topic_policies import stored
from tenants.pulsar.topics import existing, partitions_of


def namespace_views(one: Unset) -> dict[str, View]:
    """The views of its paths below a namespace."""

    def read(request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        existing_namespace(tenant, namespace)
        return _answer(one.answer, one.status)

    def remove(request: HttpRequest, tenant: str, namespace: str) -> None:
        existing_namespace(tenant, namespace)

    return {path: route(**_handlers(methods, GET=read, DELETE=remove)) for path, methods in one.paths.items()}


def topic_views(one: Unset) -> dict[str, View]:
    """The same below a topic."""

    def read(request: HttpRequest, **parts: str) -> HttpResponse:
        stored(topic_of(parts))
        applied = flag(request, "applied")
        if applied and one.path == "replication":
            return _answer([django_settings.MAGNETAR.cluster_name], 200)
        return _answer(APPLIED.get(one.path, one.answer) if applied else one.answer, one.status)

    def remove(request: HttpRequest, **parts: str) -> None:
        stored(topic_of(parts))

    return {path: route(**_handlers(methods, GET=read, DELETE=remove)) for path, methods in one.paths.items()}


def _handlers(methods: tuple[str, ...], **handlers: Any) -> dict[str, Any]:
    return {method: handlers[method] for method in methods}


def _answer(value: Any, status: int) -> HttpResponse:
    return done() if status == 204 else value_or_nothing(value)


def _replicated(request: HttpRequest, subscription: str, **parts: str) -> dict[str, bool]:
    """By topic, or partition."""
    name, topic = subscription_of(subscription), existing(parts)
    if name not in broker.rpc().call(SUBSCRIPTIONS_LIST, TopicRef(topic=str(topic))).subscriptions:
        raise SubscriptionNotFound(f"Subscription {name} not found")
    return dict.fromkeys(partitions_of(topic), False)


# --- clusters, brokers and what stands beside them ------------------------------------------------------------------------------


def _no_peers(request: HttpRequest, cluster: str) -> HttpResponse:
    existing_cluster(cluster)
    return value_or_nothing(None)


def _no_migration(request: HttpRequest, cluster: str) -> NoReturn:
    raise NotFound(f"cluster {cluster} does not migrate: there is one cluster")


def _no_groups(request: HttpRequest) -> list[str]:
    return []


def _no_group(request: HttpRequest, group: str) -> NoReturn:
    raise NotFound(f"ResourceGroup {group} does not exist: policies and settings limit rates")


def _checked(request: HttpRequest) -> None:
    """Backlog quotas are checked all the time."""


replicated_view = route(GET=_replicated)
peers_view = route(GET=_no_peers)
migration_view = route(GET=_no_migration)
groups_view = route(GET=_no_groups)
group_view = route(GET=_no_group)
quota_check_view = route(GET=_checked)
