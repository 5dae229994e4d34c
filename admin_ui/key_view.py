"""Keys in the form that the console shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from tenants.models import Grant, Key

SOON = timedelta(days=7)


@dataclass(frozen=True)
class KeyView:
    """`state`: active, expiring (within a week), expired or revoked. `grants`: what its role may do, "orders: produce, consume"."""

    id: str
    name: str
    role: str
    state: str
    grants: Sequence[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None


def key_view(key: Key, grants: Mapping[str, Sequence[str]]) -> KeyView:
    """`grants`: role -> texts, from `grants_by_role`."""
    return KeyView(
        key.id,
        key.name,
        key.role,
        _state(key),
        grants.get(key.role, ()),
        key.created_at,
        key.created_by,
        key.expires_at,
    )


def _state(key: Key) -> str:
    now = timezone.now()
    if key.revoked_at:
        return "revoked"
    if key.expires_at and key.expires_at <= now:
        return "expired"
    return "expiring" if key.expires_at and key.expires_at - now < SOON else "active"


def grants_by_role(admin_roles: Sequence[str]) -> dict[str, list[str]]:
    """The permissions of each role in the tenant of the scope, as short texts."""
    found: dict[str, list[str]] = {role: ["administer the tenant"] for role in admin_roles}
    for grant in Grant.objects.select_related("namespace"):
        where = grant.topic.rpartition("/")[2] if grant.topic else grant.namespace.local
        found.setdefault(grant.role, []).append(f"{where}: {', '.join(grant.actions)}")
    return found
