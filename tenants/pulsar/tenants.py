"""Tenants, as Pulsar's admin API has them."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from messaging.errors import PreconditionFailed
from tenants import actions
from tenants.http.views import actor, body, flag, route
from tenants.models import Tenant
from tenants.pulsar.bodies import TenantInfo
from tenants.pulsar.rows import existing_tenant
from tenants.scoping import platform_scope


def _list(request: HttpRequest) -> list[str]:
    with platform_scope():
        return list(Tenant.objects.values_list("name", flat=True))


def _get(request: HttpRequest, tenant: str) -> dict[str, Any]:
    row = existing_tenant(tenant)
    return {"adminRoles": row.admin_roles, "allowedClusters": row.allowed_clusters}


def _create(request: HttpRequest, tenant: str) -> None:
    info = body(request, TenantInfo)
    if info is None or info.allowed_clusters is None:
        raise PreconditionFailed("a tenant needs its clusters: send an object with allowedClusters, and adminRoles if it has any")
    actions.create_tenant(actor(request), tenant, info.admin_roles or (), info.allowed_clusters)


def _update(request: HttpRequest, tenant: str) -> None:
    info = body(request, TenantInfo, TenantInfo())
    actions.update_tenant(actor(request), tenant, info.admin_roles, info.allowed_clusters)


def _delete(request: HttpRequest, tenant: str) -> None:
    actions.delete_tenant(actor(request), tenant, force=flag(request, "force"))


tenants_view = route(GET=_list)
tenant_view = route(GET=_get, PUT=_create, POST=_update, DELETE=_delete)
