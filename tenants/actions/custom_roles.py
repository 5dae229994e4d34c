"""Roles that a tenant defines for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from messaging.errors import Conflict, InvalidValue, NotAuthorized, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.permissions.roles import BUILT_IN, CUSTOM_ACTIONS, FORMER_NAMES, complete
from messaging.policies.texts import counted
from messaging.protocol.names import entity_name
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.lasting import require_as_long
from tenants.models import CustomRole, Membership, TeamRole, Tenant

CUSTOM_ROLES_MAX = 100  # of one tenant: all of them are read for a check


def set_custom_role(actor: Actor, tenant: str, name: str, actions: Sequence[str], description: str = "") -> CustomRole:
    """Creates the role, or changes it for everybody who has it. Raises `InvalidValue`, `NotAuthorized` for actions, former or new,
    that the actor does not have, or has for a time, `NotFound` for the tenant, `PreconditionFailed` for one too many."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    entity_name("role", name)
    if name in BUILT_IN or name in FORMER_NAMES:
        raise InvalidValue(f"role {name!r} is built in: choose another name")
    wanted = _checked(actions)
    require_as_long(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        if not Tenant.unscoped.filter(name=tenant).exists():
            raise NotFound(f"tenant {tenant!r} does not exist")
        rows = CustomRole.unscoped.filter(tenant=tenant)
        before = rows.filter(name=name).first()
        if before is None and rows.count() >= CUSTOM_ROLES_MAX:
            raise PreconditionFailed(
                f"tenant {tenant!r} has {CUSTOM_ROLES_MAX} roles of its own, and may have no more: delete one first"
            )
        _require_all(actor, tenant, complete(wanted) | (actor.grants.role_actions(tenant, name) if before else frozenset()))
        given = {"actions": [str(action) for action in wanted], "description": description}
        row, _ = rows.update_or_create(tenant_id=tenant, name=name, defaults=given)
        changing.audit("role.set", tenant, f"{tenant}/{name}", role_state(before) if before else None, role_state(row))
    return row


def delete_custom_role(actor: Actor, tenant: str, name: str) -> None:
    """Raises `NotFound`, `Conflict` while somebody has it."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        row = CustomRole.unscoped.filter(tenant=tenant, name=name).first()
        if row is None:
            built_in = " It is built in." if name in BUILT_IN else ""
            raise NotFound(f"tenant {tenant!r} has no role {name[:80]!r} of its own.{built_in}")
        count = Membership.unscoped.filter(tenant=tenant, role=name).count()
        if count:
            raise Conflict(f"role {name!r} is still given to {counted(count, 'member')}: give them another one first")
        team = TeamRole.unscoped.filter(team__tenant=tenant, role=name).values_list("team__name", flat=True).first()
        if team is not None:
            raise Conflict(f"team {team!r} has the role {name!r}: give it another one first")
        row.delete()
        changing.audit("role.delete", tenant, f"{tenant}/{name}", role_state(row))


def role_state(row: CustomRole) -> dict[str, Any]:
    return {"actions": row.actions, "description": row.description}


def _checked(actions: Sequence[str]) -> list[Action]:
    names = [str(action) for action in CUSTOM_ACTIONS]
    unknown = sorted(set(actions) - set(names))
    if unknown:
        raise InvalidValue(f"{', '.join(unknown)[:200]} cannot be an action of a role: use any of {', '.join(names)}")
    if not actions:
        raise InvalidValue("no actions were given: name at least one")
    return [action for action in CUSTOM_ACTIONS if action in actions]


def _require_all(actor: Actor, tenant: str, actions: frozenset[Action]) -> None:
    lacking = sorted(action for action in actions if not actor.may(action, Resource(tenant)))
    if lacking:
        raise NotAuthorized(f"you lack {', '.join(lacking)} in tenant {tenant!r}, so a role with it is not yours to define")
