"""The properties of a namespace, one by one; all together are the policy `properties`."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from tenants import actions
from tenants.http.views import actor, route, text, value_or_nothing
from tenants.names import namespace_of
from tenants.pulsar.namespace_policies import as_precondition
from tenants.pulsar.rows import existing_namespace


def _get(request: HttpRequest, tenant: str, namespace: str, key: str) -> HttpResponse:
    return _word(existing_namespace(tenant, namespace).policies.get("properties", {}).get(key))


def _set(request: HttpRequest, tenant: str, namespace: str, key: str, value: str) -> None:
    with as_precondition():
        actions.set_property(actor(request), str(namespace_of(tenant, namespace)), key, value)


def _remove(request: HttpRequest, tenant: str, namespace: str, key: str) -> HttpResponse:
    return _word(actions.set_property(actor(request), str(namespace_of(tenant, namespace)), key, None))


def _word(value: str | None) -> HttpResponse:
    return value_or_nothing(None) if value is None else text(value)


property_view = route(GET=_get, DELETE=_remove)
property_value_view = route(PUT=_set)
