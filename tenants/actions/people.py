from __future__ import annotations

from messaging.errors import Conflict, InvalidValue, NotFound
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.models import Membership, Tenant, User

# People are no affair of the brokers: these actions tell the feed nothing.


def set_member(actor: Actor, tenant: str, username: str, level: str) -> Membership:
    """`level` is "owner" or "member". Raises `NotFound` for the tenant or the person."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    if level not in Membership.Level.values:
        raise InvalidValue(f"{level!r} is no level of membership: use owner or member")
    with change(actor) as changing:
        if not Tenant.unscoped.filter(name=tenant).exists():
            raise NotFound(f"tenant {tenant!r} does not exist")
        user = User.objects.filter(username=username, is_active=True).first()
        if user is None:
            raise NotFound(f"there is nobody called {username!r}")
        before = Membership.unscoped.filter(tenant=tenant, user=user).first()
        if before is not None and level != Membership.Level.OWNER:
            _keep_an_owner(tenant, before)
        membership, _ = Membership.unscoped.update_or_create(tenant_id=tenant, user=user, defaults={"level": level})
        changing.audit("member.set", tenant, f"{tenant}/{username}", {"level": before.level} if before else None, {"level": level})
    return membership


def remove_member(actor: Actor, tenant: str, username: str) -> None:
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        membership = Membership.unscoped.filter(tenant=tenant, user__username=username).first()
        if membership is None:
            raise NotFound(f"{username!r} is not a member of {tenant!r}")
        _keep_an_owner(tenant, membership)
        membership.delete()
        changing.audit("member.remove", tenant, f"{tenant}/{username}", {"level": membership.level})


def _keep_an_owner(tenant: str, leaving: Membership) -> None:
    owners = Membership.unscoped.filter(tenant=tenant, level=Membership.Level.OWNER)
    if leaving.level == Membership.Level.OWNER and not owners.exclude(id=leaving.id).exists():
        raise Conflict(f"this is the last owner of {tenant!r}: make somebody else an owner first")
