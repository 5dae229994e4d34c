"""The end of what is in the recycle bin of the control plane: after a purge has begun, and when its time is over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from messaging.errors import MagnetarError
from tenants.access import Actor
from tenants.actions.change import change
from tenants.actions.key_roles import revoke_roles_of
from tenants.actions.recycling import NAMESPACE, TENANT, begin_purge, delete_topics, due
from tenants.models import Recycled, Tenant


def finish(actor: Actor, entry: Recycled, renew: Callable[[], None]) -> None:
    """Deletes what is left of one whose purge has begun, of a tenant with what it had in its own bin; then its name is free. What
    is cut off is finished by the next call. Raises what the broker raises."""
    if entry.kind == TENANT:
        for within in Recycled.unscoped.filter(tenant_uid=entry.tenant_uid, kind=NAMESPACE):
            _purge(actor, within, renew)
    delete_topics(entry, renew)
    with change(actor, must_confirm=False) as changing:
        if entry.kind == TENANT:
            revoke_roles_of(changing, entry.name)
        Recycled.unscoped.filter(id=entry.id).delete()


def finish_or_leave(actor: Actor, entry: Recycled) -> None:
    """What the broker cannot do now, the workers do with their next round."""
    try:
        finish(actor, entry, lambda: None)
    except MagnetarError:
        return


def purge_due(actor: Actor, now: datetime, renew: Callable[[], None]) -> tuple[int, dict[str, str]]:
    """How many, and what went wrong of which: that is tried again by the next round."""
    purged, failed = 0, {}
    for entry in due(now):
        renew()
        try:
            purged += _purge(actor, entry, renew)
        except MagnetarError as error:
            failed[entry.name] = error.message
    return purged, failed


def _purge(actor: Actor, entry: Recycled, renew: Callable[[], None]) -> bool:
    if not entry.purging:
        with change(actor) as changing:
            current = Recycled.unscoped.filter(id=entry.id).first()
            if current is None:  # it was restored
                return False
            tenant = entry.tenant if Tenant.unscoped.filter(uid=entry.tenant_uid).exists() else ""
            changing.audit(f"{entry.kind}.purge", tenant, entry.name, {"recycle_id": entry.id})
            begin_purge(changing, current)
    finish(actor, entry, renew)
    return True
