"""Deleted namespaces and tenants in the recycle bin, as our API has them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import Time
from tenants.actions import recycled_namespaces as actions
from tenants.actions import recycled_tenants as of_platform
from tenants.models import Recycled
from tenants.rest.base import View, id_after, limit_of
from tenants.rest.outcome import Outcome
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing


class RecycledShape(msgspec.Struct, kw_only=True):
    recycle_id: Annotated[str, Meta(description="Rises with the time of deletion.")]
    name: Annotated[str, Meta(description="The name that it had, and gets back. It is not free meanwhile.")]
    contents: Annotated[dict[str, int], Meta(description="How much is in it, by kind, such as topics.")]
    deleted_at: Time
    expires_at: Annotated[Time, Meta(description="From then on it cannot be restored.")]
    deleted_by: Annotated[str, Meta(description="The role of whoever deleted it.")]


def show_recycled(entry: Recycled) -> RecycledShape:
    return RecycledShape(
        recycle_id=entry.id,
        name=entry.name,
        contents=entry.counts,
        deleted_at=entry.deleted_at,
        expires_at=entry.expires_at,
        deleted_by=entry.deleted_by,
    )


def page_of_recycled(entries: list[Recycled], limit: int) -> Response:
    """`entries`: one more than the page holds, where there is one."""
    following = entries[limit - 1].id if len(entries) > limit else None
    return Response({"items": [show_recycled(entry) for entry in entries[:limit]], "next": following})


class RecycledNamespaces(View):
    @describe("Deleted namespaces that can be restored, by time of deletion", page_of(RecycledShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        limit = limit_of(request)
        return page_of_recycled(actions.recycled_namespaces(self.actor(), tenant, after=id_after(request), limit=limit + 1), limit)


class RecycledNamespace(View):
    @describe("A deleted namespace", RecycledShape)
    def get(self, request: Request, tenant: str, recycle_id: str) -> Response:
        return Response(show_recycled(actions.recycled_namespace(self.actor(), tenant, recycle_id)))

    @describe("Delete a namespace for good that is in the recycle bin", None, status=204, dry_run=True)
    def delete(self, request: Request, tenant: str, recycle_id: str) -> Response:
        if self.dry_run():
            entry = actions.check_purge(self.actor(), tenant, recycle_id)
            return Response(Outcome(dry_run=True, action="namespace.purge", resource=entry.name, affected=entry.counts))
        actions.purge_namespace(self.actor(), tenant, recycle_id)
        return Response(status=204)


class RecycledNamespaceRestore(View):
    @describe("Restore a deleted namespace with its policies, permissions, topics and messages", Outcome, dry_run=True)
    def post(self, request: Request, tenant: str, recycle_id: str) -> Response:
        dry_run = self.dry_run()
        restore = actions.recycled_namespace if dry_run else actions.restore_namespace
        entry = restore(self.actor(), tenant, recycle_id)
        return Response(Outcome(dry_run=dry_run, action="namespace.restore", resource=entry.name, affected=entry.counts))


class RecycledTenants(View):
    @describe("Deleted tenants that can be restored, by time of deletion", page_of(RecycledShape), parameters=PAGE)
    def get(self, request: Request) -> Response:
        limit = limit_of(request)
        return page_of_recycled(of_platform.recycled_tenants(self.actor(), after=id_after(request), limit=limit + 1), limit)


class RecycledTenant(View):
    @describe("A deleted tenant", RecycledShape)
    def get(self, request: Request, recycle_id: str) -> Response:
        return Response(show_recycled(of_platform.recycled_tenant(self.actor(), recycle_id)))

    @describe("Delete a tenant for good that is in the recycle bin", None, status=204, dry_run=True)
    def delete(self, request: Request, recycle_id: str) -> Response:
        if self.dry_run():
            entry = of_platform.recycled_tenant(self.actor(), recycle_id)
            return Response(Outcome(dry_run=True, action="tenant.purge", resource=entry.name, affected=entry.counts))
        of_platform.purge_tenant(self.actor(), recycle_id)
        return Response(status=204)


class RecycledTenantRestore(View):
    @describe("Restore a deleted tenant with its people, keys, namespaces, topics and messages", Outcome, dry_run=True)
    def post(self, request: Request, recycle_id: str) -> Response:
        dry_run = self.dry_run()
        restore = of_platform.recycled_tenant if dry_run else of_platform.restore_tenant
        entry = restore(self.actor(), recycle_id)
        return Response(Outcome(dry_run=dry_run, action="tenant.restore", resource=entry.name, affected=entry.counts))
