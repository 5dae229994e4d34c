"""Teams: groups of a tenant's people who have roles together. Nobody gives by a team what they could not give to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource, Scope
from messaging.permissions.roles import FORMER_NAMES, OWNER
from messaging.protocol.names import entity_name
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.lasting import require_as_long
from tenants.actions.members import check_pattern, check_role, require_no_less, scope_of
from tenants.models import Membership, Team, TeamMember, TeamRole, Tenant

TEAMS_MAX = 200  # of one tenant: the roles of all teams of a person are read for a check
ROLES_MAX = 20  # of one team
MEMBERS_MAX = 1_000


class RoleOfTeam(NamedTuple):
    """`namespace` is a local name, `topics` a pattern: where the role holds."""

    role: str
    namespace: str = ""
    topics: str = ""


def set_team(actor: Actor, tenant: str, name: str, roles: Sequence[RoleOfTeam], description: str = "") -> Team:
    """Creates the team, or changes what all its members may do. Raises `InvalidValue` for a role that does not exist or is twice
    there, `NotFound` for the tenant or a namespace, `NotAuthorized` for a role, former or new, that can do more than the actor,
    `PreconditionFailed` for one too many."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    entity_name("team", name)
    require_as_long(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        if not Tenant.unscoped.filter(name=tenant).exists():
            raise NotFound(f"tenant {tenant!r} does not exist")
        wanted = _checked(actor, tenant, roles)
        teams = Team.unscoped.filter(tenant=tenant)
        row = teams.filter(name=name).first()
        before = team_state(row) if row else None
        if row is None:
            if teams.count() >= TEAMS_MAX:
                raise PreconditionFailed(f"tenant {tenant!r} has {TEAMS_MAX} teams, and may have no more: delete one first")
            row = Team(tenant_id=tenant, name=name)
        else:
            _require_no_less(actor, row)
        row.description = description
        row.save()
        row.roles.all().delete()
        TeamRole.unscoped.bulk_create(
            TeamRole(team=row, role=role, namespace_id=scope.namespace or None, topics=scope.topics) for role, scope in wanted
        )
        changing.audit("team.set", tenant, f"{tenant}/{name}", before, team_state(row))
    return row


def delete_team(actor: Actor, tenant: str, name: str) -> None:
    """Its members lose what they had through it. Raises `NotFound`, `NotAuthorized`."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        row = _existing(tenant, name)
        _require_no_less(actor, row)
        before = {**team_state(row), "members": list(row.members.values_list("user__username", flat=True)[:MEMBERS_MAX])}
        row.delete()
        changing.audit("team.delete", tenant, f"{tenant}/{name}", before)


def add_team_member(actor: Actor, tenant: str, name: str, username: str) -> None:
    """Idempotent. Raises `NotFound` for the team, or for somebody who is not a member of the tenant."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        row = _existing(tenant, name)
        _require_no_less(actor, row)
        membership = Membership.unscoped.filter(tenant=tenant, user__username=username, user__is_active=True).first()
        if membership is None:
            raise NotFound(f"{username!r} is not a member of {tenant!r}: make them one first")
        if row.members.filter(user=membership.user_id).exists():
            return
        require_as_long(actor, Action.TENANT_ADMIN, Resource(tenant), membership.expires_at)  # they leave it with the tenant
        if row.members.count() >= MEMBERS_MAX:
            raise PreconditionFailed(f"team {name!r} has {MEMBERS_MAX} members, and may have no more: use another team")
        TeamMember.unscoped.create(team=row, user_id=membership.user_id)
        changing.audit("team.add_member", tenant, f"{tenant}/{name}", after={"member": username})


def remove_team_member(actor: Actor, tenant: str, name: str, username: str) -> None:
    """Raises `NotFound`, `NotAuthorized`."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        row = _existing(tenant, name)
        _require_no_less(actor, row)
        removed, _ = row.members.filter(user__username=username).delete()
        if not removed:
            raise NotFound(f"{username!r} is not in team {name!r}")
        changing.audit("team.remove_member", tenant, f"{tenant}/{name}", {"member": username})


def team_state(row: Team) -> dict[str, Any]:
    roles = [{"role": role.role, "namespace": role.namespace_id or "", "topics": role.topics} for role in row.roles.all()]
    return {"description": row.description, "roles": roles}


def _checked(actor: Actor, tenant: str, roles: Sequence[RoleOfTeam]) -> list[tuple[str, Scope]]:
    if len(roles) > ROLES_MAX:
        raise InvalidValue(f"the team would have {len(roles)} roles; at most {ROLES_MAX} are allowed")
    wanted: dict[tuple[str, Scope], None] = {}
    for given in roles:
        name = FORMER_NAMES.get(given.role, given.role)
        check_pattern(given.topics)
        check_role(tenant, name)
        if name == OWNER:
            raise InvalidValue("a team cannot own the tenant: make each owner a member with that role")
        require_no_less(actor, tenant, name)
        role = (name, scope_of(tenant, given.namespace, given.topics))
        if role in wanted:
            raise InvalidValue(f"role {name!r} is there twice for {role[1]}: leave one out")
        wanted[role] = None
    return list(wanted)


def _existing(tenant: str, name: str) -> Team:
    row = Team.unscoped.filter(tenant=tenant, name=name).first()
    if row is None:
        raise NotFound(f"team {name[:80]!r} does not exist in tenant {tenant!r}")
    return row


def _require_no_less(actor: Actor, row: Team) -> None:
    for role in set(row.roles.values_list("role", flat=True)):
        require_no_less(actor, row.tenant_id, role)
