"""Deletes for good what has been in the recycle bin of the control plane for as long as it was to be. Of the workers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from messaging.errors import MagnetarError
from tenants.access import Actor
from tenants.actions.change import change
from tenants.actions.recycling import begin_purge, due, finish_purge
from tenants.models import Recycled, Tenant


def purge_due(actor: Actor, now: datetime, renew: Callable[[], None]) -> tuple[int, dict[str, str]]:
    """How many, and what went wrong of which: that is tried again by the next round."""
    purged, failed = 0, {}
    for entry in due(now):
        renew()
        try:
            _purge(actor, entry, renew)
        except MagnetarError as error:
            failed[entry.name] = error.message
        else:
            purged += 1
    return purged, failed


def _purge(actor: Actor, entry: Recycled, renew: Callable[[], None]) -> None:
    if not entry.purging:
        with change(actor) as changing:
            current = Recycled.unscoped.filter(id=entry.id).first()
            if current is None:  # it was restored
                return
            tenant = entry.tenant if Tenant.unscoped.filter(uid=entry.tenant_uid).exists() else ""
            changing.audit(f"{entry.kind}.purge", tenant, entry.name, {"recycle_id": entry.id})
            begin_purge(changing, current)
    finish_purge(actor, entry, renew)
