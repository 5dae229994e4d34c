"""Deleted namespaces in the recycle bin: listing, restoring, deleting for good."""

from __future__ import annotations

from messaging.permissions.model import Action, Resource
from messaging.policies.model import Level
from messaging.policies.protection import check_deletable
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.recycled_ends import finish_or_leave
from tenants.actions.recycling import NAMESPACE, begin_purge, bring_back, listed, restorable
from tenants.models import Recycled, Tenant


def recycled_namespaces(actor: Actor, tenant: str, *, after: str = "", limit: int = 100) -> list[Recycled]:
    """Those that can be restored, by id. Who may delete namespaces of the tenant may see them."""
    require(actor, Action.NAMESPACE_ADMIN, Resource(tenant))
    return listed(NAMESPACE, tenant, after, limit)


def recycled_namespace(actor: Actor, tenant: str, recycle_id: str) -> Recycled:
    """Raises `NotFound`."""
    require(actor, Action.NAMESPACE_ADMIN, Resource(tenant))
    return restorable(NAMESPACE, recycle_id, tenant)


def check_purge(actor: Actor, tenant: str, recycle_id: str) -> Recycled:
    """What may be deleted for good. Raises `NotFound`, `DeletionProtected` while the tenant is protected."""
    entry = recycled_namespace(actor, tenant, recycle_id)
    policies = Tenant.unscoped.filter(name=tenant).values_list("policies", flat=True).first()
    check_deletable(f"namespace {entry.name} in the recycle bin", {Level.TENANT: policies})
    return entry


def restore_namespace(actor: Actor, tenant: str, recycle_id: str) -> Recycled:
    """The namespace is there again, with its policies, grants, topics, messages and cursors. Raises `NotFound`, `Conflict`."""
    require(actor, Action.NAMESPACE_ADMIN, Resource(tenant))
    with change(actor) as changing:
        entry = restorable(NAMESPACE, recycle_id, tenant)
        restored = Recycled(id=entry.id, name=entry.name, counts=entry.counts)
        changing.audit("namespace.restore", tenant, entry.name, {"recycle_id": entry.id})
        bring_back(changing, entry)
    return restored


def purge_namespace(actor: Actor, tenant: str, recycle_id: str) -> None:
    """Deletes it for good; what the broker cannot delete now, the workers do. Raises `NotFound`, `DeletionProtected`."""
    check_purge(actor, tenant, recycle_id)
    with change(actor) as changing:
        entry = check_purge(actor, tenant, recycle_id)
        changing.audit("namespace.purge", tenant, entry.name, {"recycle_id": entry.id})
        begin_purge(changing, entry)
    finish_or_leave(actor, entry)
