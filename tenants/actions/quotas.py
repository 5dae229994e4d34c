"""How much one tenant may have in the control plane. Every broker holds all of it in memory, and nobody pays for its own."""

from __future__ import annotations

from django.conf import settings as django_settings
from django.db.models import Sum

from messaging.errors import PreconditionFailed
from tenants.models import Key, Namespace

STATES_BYTES_MAX = 16 << 20  # of the states of one tenant's namespaces together, as the feed tells them


def check_another_namespace(tenant: str) -> None:
    """Raises `PreconditionFailed`."""
    most: int = django_settings.MAGNETAR.namespaces_per_tenant_max
    if Namespace.unscoped.filter(tenant=tenant).count() >= most:
        raise PreconditionFailed(f"tenant {tenant!r} has reached namespaces_per_tenant_max = {most} namespaces: delete one first")


def check_states(namespace: Namespace, state_bytes: int) -> None:
    """Before a namespace's state becomes one of `state_bytes`. What is too large already may be made smaller. Raises
    `PreconditionFailed`."""
    if state_bytes <= namespace.state_bytes:
        return
    others = Namespace.unscoped.filter(tenant=namespace.tenant_id).exclude(name=namespace.name)
    total = state_bytes + (others.aggregate(total=Sum("state_bytes"))["total"] or 0)
    if total > STATES_BYTES_MAX:
        raise PreconditionFailed(
            f"the namespaces of tenant {namespace.tenant_id!r} would have {total} bytes of policies, grants and roles together; "
            f"at most {STATES_BYTES_MAX} are allowed: remove some"
        )


def key_to_forget(tenant: str) -> Key | None:
    """The oldest revoked key where a tenant has as many as it may: it goes for another one. None where there is room. Raises
    `PreconditionFailed` where all are in use."""
    most: int = django_settings.MAGNETAR.keys_per_tenant_max
    held = Key.unscoped.filter(tenant=tenant)
    if held.count() < most:
        return None
    oldest = held.filter(revoked_at__isnull=False).order_by("revoked_at").first()
    if oldest is None:
        raise PreconditionFailed(f"tenant {tenant!r} has reached keys_per_tenant_max = {most} keys: revoke one first")
    return oldest
