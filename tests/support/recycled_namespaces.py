"""A namespace in the recycle bin, under an id that a test knows."""

from __future__ import annotations

from django.db import transaction

from tenants.access import Actor
from tenants.actions import create_namespace, delete_namespace
from tenants.models import Recycled, RecycledRow


def recycled_namespace(actor: Actor, name: str, recycle_id: str) -> None:
    """It can be restored for an hour."""
    create_namespace(actor, name, {"recycle_bin_retention_hours": 1})
    delete_namespace(actor, name)
    with transaction.atomic():
        RecycledRow.unscoped.filter(recycled__name=name).update(recycled_id=recycle_id)
        Recycled.unscoped.filter(name=name).update(id=recycle_id)
