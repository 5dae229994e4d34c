"""Deleted tenants in the recycle bin: listing, restoring, deleting for good. Only superusers see them."""

from __future__ import annotations

from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.recycled_ends import finish_or_leave
from tenants.actions.recycling import TENANT, begin_purge, bring_back, listed, restorable
from tenants.models import Recycled


def recycled_tenants(actor: Actor, *, after: str = "", limit: int = 100) -> list[Recycled]:
    """Those that can be restored, by id."""
    require(actor, Action.SUPERUSER, Resource())
    return listed(TENANT, "", after, limit)


def recycled_tenant(actor: Actor, recycle_id: str) -> Recycled:
    """Raises `NotFound`."""
    require(actor, Action.SUPERUSER, Resource())
    return restorable(TENANT, recycle_id)


def restore_tenant(actor: Actor, recycle_id: str) -> Recycled:
    """The tenant is there again, with its people, keys, namespaces, topics and messages. Raises `NotFound`, `Conflict`."""
    require(actor, Action.SUPERUSER, Resource())
    with change(actor) as changing:
        entry = restorable(TENANT, recycle_id)
        restored = Recycled(id=entry.id, name=entry.name, counts=entry.counts)
        bring_back(changing, entry)
        changing.audit("tenant.restore", restored.name, restored.name, {"recycle_id": restored.id})
    return restored


def purge_tenant(actor: Actor, recycle_id: str) -> None:
    """Deletes it for good; what the broker cannot delete now, the workers do. Raises `NotFound`."""
    require(actor, Action.SUPERUSER, Resource())
    with change(actor) as changing:
        entry = restorable(TENANT, recycle_id)
        changing.audit("tenant.purge", "", entry.name, {"recycle_id": entry.id})
        begin_purge(changing, entry)
    finish_or_leave(actor, entry)
