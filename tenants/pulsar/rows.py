"""Looks up the rows that routes name; raises `NotFound` with Pulsar's wording."""

from __future__ import annotations

from messaging.adminrpc.schema import TopicNames, TopicsList
from messaging.errors import NotFound
from tenants import broker
from tenants.models import Namespace, Tenant
from tenants.names import namespace_of
from tenants.scoping import tenant_scope


def existing_tenant(name: str) -> Tenant:
    with tenant_scope(name):
        tenant = Tenant.objects.first()
    if tenant is None:
        raise NotFound(f"Tenant does not exist: {name!r}")
    return tenant


def existing_namespace(tenant: str, namespace: str) -> Namespace:
    name = str(namespace_of(tenant, namespace))
    with tenant_scope(tenant):
        found = Namespace.objects.filter(name=name).first()
    if found is None:
        raise NotFound(f"Namespace does not exist: {name!r}")
    return found


def topic_names(tenant: str, namespace: str) -> TopicNames:
    return broker.rpc().call("topics.list", TopicsList(namespace=existing_namespace(tenant, namespace).name))
