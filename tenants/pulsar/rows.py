"""Looks up the rows that routes name; raises `NotFound` with Pulsar's wording."""

from __future__ import annotations

from collections.abc import Iterable

from django.http import HttpRequest

from messaging.adminrpc.methods import TOPICS_LIST
from messaging.adminrpc.topics import TopicNames, TopicsList
from messaging.errors import NotFound, TopicNotFound
from messaging.protocol.names import TopicName
from messaging.protocol.system_topics import without_system_topics
from tenants import broker
from tenants.http.views import flag
from tenants.models import Namespace, Tenant
from tenants.names import namespace_of
from tenants.scoping import tenant_scope


class as_missing:
    """Pulsar's words for what does not exist: tools compare them."""

    def __init__(self, topic: TopicName) -> None:
        self._topic = topic

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, TopicNotFound):
            raise TopicNotFound(f"Topic {self._topic} not found") from None
        if isinstance(error, NotFound):
            raise NotFound("Namespace not found") from None


def existing_tenant(name: str) -> Tenant:
    with tenant_scope(name):
        tenant = Tenant.objects.first()
    if tenant is None:
        raise NotFound(f"Tenant does not exist: {name!r}")
    return tenant


def existing_namespace(tenant: str, namespace: str) -> Namespace:
    name = str(namespace_of(tenant, namespace))
    with tenant_scope(tenant):
        row = Namespace.objects.filter(name=name).first()
    if row is None:
        raise NotFound(f"Namespace does not exist: {name!r}")
    return row


def shown(request: HttpRequest, names: Iterable[str]) -> list[str]:
    """Without system topics, unless the request asks for them."""
    return list(names) if flag(request, "includeSystemTopic") else without_system_topics(names)


def topic_names(tenant: str, namespace: str) -> TopicNames:
    return broker.rpc().call(TOPICS_LIST, TopicsList(namespace=existing_namespace(tenant, namespace).name))
