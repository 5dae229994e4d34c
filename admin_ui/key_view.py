"""Keys in the form that the console shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from admin_ui.made_view import left
from admin_ui.translation.texts import gettext
from messaging.permissions.model import USER_ROLE_PREFIX
from tenants.models import Grant, Key

SOON = timedelta(days=7)


@dataclass(frozen=True)
class KeyView:
    """`state`: active, expiring (within a week), replaced (another takes its place), expired or revoked. `may`: what it may do, as
    "orders: produce, consume"; `scoped`: and nothing else. `maker_left`: who made it, where they are no member any more."""

    id: str
    name: str
    role: str
    state: str
    may: Sequence[str]
    scoped: bool
    networks: Sequence[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    replaced_by: str
    maker_left: str = ""

    @property
    def in_use(self) -> bool:
        """Whether its token is valid."""
        return self.state in ("active", "expiring", "replaced")


def key_view(
    key: Key, grants: Mapping[str, Sequence[str]], replaced_by: str = "", left_roles: Collection[str] = frozenset()
) -> KeyView:
    """`grants`: role -> texts, from `grants_of_roles`. `left_roles`: of people who are no members any more."""
    return KeyView(
        key.id,
        key.name,
        key.role,
        _state(key, replaced_by),
        grants.get(key.role, ()) if key.scope is None else [use_text(use) for use in key.scope],
        key.scope is not None,
        key.networks,
        key.created_at,
        key.created_by,
        key.expires_at,
        key.last_used_at,
        replaced_by,
        key.created_by.removeprefix(USER_ROLE_PREFIX) if key.created_by in left_roles else "",
    )


def use_text(use: Mapping[str, Any]) -> str:
    """An entry of a key's scope."""
    namespace = str(use["namespace"]).partition("/")[2] or gettext("all namespaces")
    where = (
        gettext("{namespace}, topics {topics}").format(namespace=namespace, topics=use["topics"]) if use["topics"] else namespace
    )
    return f"{where}: {', '.join(use['actions'])}"


def _state(key: Key, replaced_by: str) -> str:
    now = timezone.now()
    if key.revoked_at:
        return "revoked"
    if key.expires_at and key.expires_at <= now:
        return "expired"
    if replaced_by:
        return "replaced"
    return "expiring" if key.expires_at and key.expires_at - now < SOON else "active"


def views_of(keys: Sequence[Key], admin_roles: Sequence[str]) -> list[KeyView]:
    """Of keys of the tenant of the scope, in their order; four queries."""
    grants = grants_of_roles([key.role for key in keys], admin_roles)
    successors = Key.objects.filter(replaces__in=[key.id for key in keys], revoked_at=None).values_list("replaces_id", "id")
    replaced = {former: successor for former, successor in successors if former}
    left_roles = left(key.created_by for key in keys)
    return [key_view(key, grants, replaced.get(key.id, ""), left_roles) for key in keys]


def grants_of_roles(roles: Sequence[str], admin_roles: Sequence[str]) -> dict[str, list[str]]:
    """What these roles may do in the tenant of the scope, as short texts."""
    texts: dict[str, list[str]] = {role: [gettext("administer the tenant")] for role in admin_roles}
    for grant in Grant.objects.filter(role__in=set(roles)).select_related("namespace"):
        where = grant.topic.rpartition("/")[2] if grant.topic else grant.namespace.local
        texts.setdefault(grant.role, []).append(f"{where}: {', '.join(grant.actions)}")
    return texts
