"""A namespace or a tenant in the recycle bin, under an id that a test knows."""

from __future__ import annotations

from django.db import transaction

from tenants.access import Actor
from tenants.actions import create_namespace, create_tenant, delete_namespace, delete_tenant, set_tenant_policies
from tenants.models import Recycled, RecycledRow

POLICY = {"recycle_bin_retention_hours": 1}


def recycled_namespace(actor: Actor, name: str, recycle_id: str) -> None:
    """It can be restored for an hour."""
    create_namespace(actor, name, POLICY)
    delete_namespace(actor, name)
    _call(name, recycle_id)


def recycled_tenant(actor: Actor, name: str, recycle_id: str) -> None:
    """Likewise."""
    create_tenant(actor, name)
    set_tenant_policies(actor, name, POLICY)
    delete_tenant(actor, name)
    _call(name, recycle_id)


def _call(name: str, recycle_id: str) -> None:
    with transaction.atomic():
        RecycledRow.unscoped.filter(recycled__name=name).update(recycled_id=recycle_id)
        Recycled.unscoped.filter(name=name).update(id=recycle_id)
