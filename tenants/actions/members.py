"""Members: the people of a tenant and their roles. Nobody gives, changes or takes away a role that can do more than they can."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from messaging.errors import Conflict, InvalidValue, NotAuthorized, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource, Scope
from messaging.permissions.roles import BUILT_IN, FORMER_NAMES, OWNER
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.lasting import require_as_long
from tenants.models import CustomRole, Membership, Namespace, TeamMember, TeamRole, Tenant, User
from tenants.names import namespace_of

_STARS_MAX = 8  # in a pattern: each is a walk through the name


def set_member(
    actor: Actor,
    tenant: str,
    username: str,
    role: str,
    namespace: str = "",
    topics: str = "",
    expires_at: datetime | None = None,
) -> Membership:
    """Makes somebody a member, or changes what they are. `namespace` is a local name, `topics` a pattern: where the role holds.
    `expires_at`: until when they are one; None: it does not end by itself.

    Raises `NotFound` for the tenant, the person or the namespace, `InvalidValue` for a role that does not exist, `NotAuthorized`
    for one that can do more than the actor, `Conflict` where no owner would be left."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    role = FORMER_NAMES.get(role, role)
    check_pattern(topics)
    with change(actor) as changing:
        if not Tenant.unscoped.filter(name=tenant).exists():
            raise NotFound(f"tenant {tenant!r} does not exist")
        check_role(tenant, role)
        if role == OWNER and (namespace or topics):
            raise InvalidValue("an owner is one of the whole tenant: leave out namespace and topics, or choose another role")
        if role == OWNER and expires_at is not None:
            raise InvalidValue(
                "an owner does not end by itself, or a tenant would be without one: leave out the time, or choose admin"
            )
        if expires_at is not None and expires_at <= timezone.now():
            raise InvalidValue(f"{expires_at.isoformat()} is over: give a later time, or remove the member")
        scope = scope_of(tenant, namespace, topics)
        require_no_less(actor, tenant, role)
        require_as_long(actor, Action.TENANT_ADMIN, Resource(tenant), expires_at)
        user = User.objects.filter(username=username, is_active=True).first()
        if user is None:
            raise NotFound(f"user {username!r} does not exist")
        before = Membership.unscoped.filter(tenant=tenant, user=user).first()
        if before is not None:
            require_no_less(actor, tenant, before.role)
            if role != OWNER:
                _keep_an_owner(tenant, before)
        else:
            leave_teams(tenant, user)
        given = {
            "role": role,
            "namespace_id": scope.namespace or None,
            "topics": scope.topics,
            "expires_at": expires_at,
        }
        membership, _ = Membership.ever.update_or_create(tenant_id=tenant, user=user, defaults=given)
        was = member_state(before) if before else None
        changing.audit("member.set", tenant, f"{tenant}/{username}", was, member_state(membership))
    return membership


def remove_member(actor: Actor, tenant: str, username: str) -> None:
    """They leave the teams of the tenant, too."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        membership = Membership.unscoped.filter(tenant=tenant, user__username=username).first()
        if membership is None:
            raise NotFound(f"{username!r} is not a member of {tenant!r}")
        teams = TeamMember.unscoped.filter(team__tenant=tenant, user=membership.user_id)
        through = TeamRole.unscoped.filter(team__in=teams.values("team")).values_list("role", flat=True)
        for role in {membership.role, *through}:
            require_no_less(actor, tenant, role)
        _keep_an_owner(tenant, membership)
        left = sorted(teams.values_list("team__name", flat=True))
        teams.delete()
        membership.delete()
        before = member_state(membership) | ({"teams": left} if left else {})
        changing.audit("member.remove", tenant, f"{tenant}/{username}", before)


def end_memberships(actor: Actor, now: datetime, most: int = 500) -> int:
    """Removes members whose time is over. Nobody has counted them as members since; the record tells live pages to look again.
    Returns how many they were, at most `most`."""
    ended = list(Membership.ever.filter(expires_at__lte=now).select_related("user")[:most])
    for membership in ended:
        with change(actor) as changing:
            found = Membership.ever.filter(pk=membership.pk, expires_at__lte=now)  # somebody may have renewed it
            if found.select_for_update().first() is None:
                continue
            leave_teams(membership.tenant_id, membership.user)
            found.delete()
            name = f"{membership.tenant_id}/{membership.user.username}"
            changing.audit("member.expire", membership.tenant_id, name, member_state(membership))
    return len(ended)


def leave_teams(tenant: str, user: User) -> None:
    """Also of somebody who becomes a member anew before the task removed what ended: who adds them gives no role of a team."""
    TeamMember.unscoped.filter(team__tenant=tenant, user=user).delete()


def require_second_factor(actor: Actor, tenant: str, required: bool) -> Tenant:
    """Whether people need a second factor for anything in the tenant; keys are not asked. Raises `NotFound`; `PreconditionFailed`
    for somebody who would lock themselves out."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    if required and not actor.second_factor:
        raise PreconditionFailed("set up a second factor of your own first, or you could not go on here")
    with change(actor) as changing:
        row = Tenant.unscoped.filter(name=tenant).first()
        if row is None:
            raise NotFound(f"tenant {tenant!r} does not exist")
        before = {"second_factor_required": row.second_factor_required}
        if row.second_factor_required != required:
            row.second_factor_required = required
            row.save(update_fields=["second_factor_required"])
            changing.audit("tenant.require_second_factor", tenant, tenant, before, {"second_factor_required": required})
    return row


def member_state(membership: Membership) -> dict[str, Any]:
    until = {} if membership.expires_at is None else {"expires_at": membership.expires_at.isoformat()}
    return {"role": membership.role, "namespace": membership.namespace_id or "", "topics": membership.topics, **until}


def check_role(tenant: str, role: str) -> None:
    """Raises `InvalidValue` for one that is neither built in nor the tenant's own."""
    if role in BUILT_IN:
        return
    own = CustomRole.unscoped.filter(tenant=tenant)
    if not own.filter(name=role).exists():
        names = [*BUILT_IN, *own.values_list("name", flat=True)[:20]]
        raise InvalidValue(f"{role[:80]!r} is not a role of tenant {tenant!r}: use one of {', '.join(names)}")


def require_no_less(actor: Actor, tenant: str, role: str) -> None:
    """Raises `NotAuthorized` where `role` can do something in the tenant that the actor cannot do in all of it."""
    wanted = actor.grants.role_actions(tenant, role)
    lacking = sorted(action for action in wanted if not actor.may(action, Resource(tenant)))
    if lacking:
        raise NotAuthorized(
            f"role {role!r} can do more than you can in tenant {tenant!r} ({', '.join(lacking)}): ask somebody who can, such as an "
            "owner"
        )


def scope_of(tenant: str, namespace: str, topics: str) -> Scope:
    """Raises `NotFound` for a namespace that does not exist."""
    if not namespace:
        return Scope("", topics)
    name = str(namespace_of(tenant, namespace))
    if not Namespace.unscoped.filter(name=name).exists():
        raise NotFound(f"namespace {name!r} does not exist: create it first")
    return Scope(name, topics)


def check_pattern(topics: str) -> None:
    """Raises `InvalidValue`."""
    if len(topics) > NAME_LENGTH_MAX or not topics.isprintable() or "/" in topics:
        raise InvalidValue(
            f"topics {topics[:80]!r} is not a pattern: use the name of a topic without its namespace, at most {NAME_LENGTH_MAX} "
            "characters, in which * stands for any"
        )
    if topics.count("*") > _STARS_MAX:
        raise InvalidValue(f"topics has {topics.count('*')} times *: use at most {_STARS_MAX}")


def _keep_an_owner(tenant: str, leaving: Membership) -> None:
    owners = Membership.unscoped.filter(tenant=tenant, role=OWNER)
    if leaving.role == OWNER and not owners.exclude(id=leaving.id).exists():
        raise Conflict(f"{tenant!r} must keep an owner: make another member an owner first")
