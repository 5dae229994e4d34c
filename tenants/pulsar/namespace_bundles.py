"""Operations on the topics of one bundle of a namespace, and splitting bundles."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from messaging.errors import PreconditionFailed
from messaging.protocol.bundles import ALGORITHM_DEFAULT, position_of
from tenants.actions.bundles import boundaries_of, split_bundle, topics_of_bundle, unload_bundle, unload_topics
from tenants.http.views import actor, body, flag, route
from tenants.pulsar import bundles, namespaces
from tenants.pulsar.bodies import POSITIONS_GIVEN
from tenants.pulsar.rows import existing_namespace, shown

_BY_POSITIONS = "specified_positions_divide"


def _topics(tenant: str, namespace: str, bundle: str) -> list[str]:
    _, topics = topics_of_bundle(existing_namespace(tenant, namespace).name, bundle)
    return topics


def _list(request: HttpRequest, tenant: str, namespace: str) -> dict[str, Any]:
    return bundles.shown(boundaries_of(existing_namespace(tenant, namespace).name))


def _unload(request: HttpRequest, tenant: str, namespace: str, bundle: str) -> None:
    destination = request.GET.get("destinationBroker", "")
    name = existing_namespace(tenant, namespace).name
    unload_bundle(actor(request), name, bundle, "" if destination == request.get_host() else destination)


def _split(request: HttpRequest, tenant: str, namespace: str, bundle: str) -> None:
    algorithm = request.GET.get("splitAlgorithmName", "") or ALGORITHM_DEFAULT
    positions = body(request, POSITIONS_GIVEN, [])
    name = existing_namespace(tenant, namespace).name
    if algorithm == _BY_POSITIONS and not positions:
        raise PreconditionFailed(f"With {_BY_POSITIONS} split algorithm, splitBoundaries must not be empty")
    topics = split_bundle(actor(request), name, bundle, algorithm, positions)
    if flag(request, "unload"):
        unload_topics(topics)


def _positions(request: HttpRequest, tenant: str, namespace: str, bundle: str) -> dict[str, Any]:
    """Of the bundle's topics, or of those that are asked for."""
    name = existing_namespace(tenant, namespace).name
    (parsed, topics), asked = topics_of_bundle(name, bundle), set(request.GET.getlist("topics"))
    positions = {topic: position_of(topic) for topic in topics if not asked or topic in asked}
    return {"namespace": name, "bundle": str(parsed), "topicHashPositions": positions}


def topics_in(request: HttpRequest, tenant: str, namespace: str, bundle: str) -> list[str]:
    """Those that are not persistent."""
    return [topic for topic in shown(request, _topics(tenant, namespace, bundle)) if topic.startswith("non-persistent://")]


def _clear_backlog(request: HttpRequest, tenant: str, namespace: str, bundle: str, subscription: str = "") -> None:
    namespaces.clear_backlog(request, _topics(tenant, namespace, bundle), subscription)


def _unsubscribe(request: HttpRequest, tenant: str, namespace: str, bundle: str, subscription: str) -> None:
    namespaces.unsubscribe(request, _topics(tenant, namespace, bundle), subscription)


bundles_view = route(GET=_list)
unload_view = route(PUT=_unload)
split_view = route(PUT=_split)
positions_view = route(GET=_positions)
clear_backlog_view = route(POST=_clear_backlog)
unsubscribe_view = route(POST=_unsubscribe)
