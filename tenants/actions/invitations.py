"""Inviting people to a tenant. An invitation is bound to an address and a role, works once, and ends by itself.

Its link holds a secret of 256 bits, of which only the hash is stored. It is worth no more than whoever made it: when they no longer
administer the tenant, it cannot be accepted."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils import timezone

from messaging.errors import Conflict, InvalidValue, NotAuthorized, NotFound, PreconditionFailed
from messaging.permissions.model import SERVICE_ROLE_PREFIX, Action, Principal, Resource
from messaging.permissions.roles import FORMER_NAMES, OWNER
from tenants.access import Actor, actor_of_user, require
from tenants.actions.change import change
from tenants.actions.lasting import require_as_long
from tenants.actions.members import check_role, leave_teams, require_no_less
from tenants.actions.people import check_password
from tenants.models import Invitation, Membership, Tenant, User

OPEN_MAX = 500  # of one tenant
KEPT_MAX = 2_000  # of one tenant, closed ones included: the oldest closed one is forgotten for a new one
EMAIL_LENGTH_MAX = 254
MEMBER_DAYS_MAX = 3_650  # that an invitation may say how long its member is one
UNUSABLE = "this invitation does not work: it was used, taken back or replaced, or it is too old; ask for a new one"


class Invited(NamedTuple):
    invitation: Invitation
    secret: str  # shown once


def invite(actor: Actor, tenant: str, email: str, role: str, *, mailed: bool = False, member_days: int = 0) -> Invited:
    """`member_days`: how long they are a member from then on; 0: it does not end by itself.

    Raises `NotFound` for the tenant, `InvalidValue`, `Conflict` for an address that is invited already,
    `NotAuthorized` for a role that can do more than the actor, `PreconditionFailed`."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    role = FORMER_NAMES.get(role, role)
    email = _address(email)
    secret = secrets.token_urlsafe(32)
    now = timezone.now()
    with change(actor) as changing:
        if not Tenant.unscoped.filter(name=tenant).exists():
            raise NotFound(f"tenant {tenant!r} does not exist")
        check_role(tenant, role)
        require_no_less(actor, tenant, role)
        lifetime_h = settings.MAGNETAR.invitation_lifetime_h
        if member_days and role == OWNER:
            raise InvalidValue("an owner does not end by itself: leave out the days, or choose admin")
        # Who accepts it at the last moment is a member for as long from then on
        until = now + timedelta(hours=lifetime_h, days=member_days) if member_days else None
        require_as_long(actor, Action.TENANT_ADMIN, Resource(tenant), until)
        waiting = Invitation.unscoped.filter(tenant=tenant, accepted_at=None, revoked_at=None, expires_at__gt=now)
        if waiting.filter(email=email).exists():
            raise Conflict(f"{email!r} is invited to {tenant!r} already: revoke that invitation first")
        if waiting.count() >= OPEN_MAX:
            raise PreconditionFailed(f"{tenant!r} has {OPEN_MAX} open invitations: revoke some first")
        rows = Invitation.unscoped.filter(tenant=tenant)
        if rows.count() >= KEPT_MAX:
            rows.exclude(pk__in=waiting.values("pk")).order_by("created_at").first().delete()  # type: ignore[union-attr]
        invitation = Invitation.unscoped.create(
            tenant_id=tenant,
            email=email,
            role=role,
            secret_hash=_hash(secret),
            mailed=mailed,
            created_by=actor.principal.role,
            member_days=member_days,
            expires_at=now + timedelta(hours=lifetime_h),
        )
        after = {"email": email, "role": role, "expires_at": invitation.expires_at.isoformat(), "member_days": member_days}
        changing.audit("invitation.create", tenant, f"{tenant}/{invitation.id}", None, after)
    return Invited(invitation, secret)


def revoke_invitation(actor: Actor, tenant: str, invitation_id: str) -> Invitation:
    """Does nothing to one that is closed. Raises `NotFound`."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        invitation = Invitation.unscoped.filter(tenant=tenant, id=invitation_id).first()
        if invitation is None:
            raise NotFound(f"invitation {invitation_id[:40]!r} does not exist")
        if invitation.state(timezone.now()) == "open":
            invitation.revoked_at = timezone.now()
            invitation.save(update_fields=["revoked_at"])
            changing.audit("invitation.revoke", tenant, f"{tenant}/{invitation.id}", {"email": invitation.email})
    return invitation


def open_invitation(secret: str) -> Invitation | None:
    """The invitation of a link, while it can be accepted."""
    invitation = Invitation.unscoped.filter(secret_hash=_hash(secret)).first() if 0 < len(secret) <= 100 else None
    if invitation is None or invitation.state(timezone.now()) != "open":
        return None
    return invitation if Inviters().may(invitation) else None


class Inviters:
    """Whether those who made invitations may still give what these say. Each is asked once: make one for each request."""

    def __init__(self) -> None:
        self._may: dict[tuple[str, str, str], bool] = {}

    def may(self, invitation: Invitation) -> bool:
        asked = invitation.tenant_id, invitation.created_by, invitation.role
        if asked not in self._may:
            self._may[asked] = _may_invite(*asked)
        return self._may[asked]


def _may_invite(tenant: str, made_by: str, role: str) -> bool:
    inviter = Actor(Principal(made_by, service=made_by.startswith(SERVICE_ROLE_PREFIX)))
    try:
        require(inviter, Action.TENANT_ADMIN, Resource(tenant))
        check_role(tenant, role)
        require_no_less(inviter, tenant, role)
    except (NotAuthorized, InvalidValue):
        return False
    return True


def accept_invitation(actor: Actor, secret: str, user: User, addresses: Collection[str]) -> Membership:
    """`addresses`: those that were shown to be the person's. Raises `PreconditionFailed` for an invitation that does not work, or
    is somebody else's; `Conflict` for who is a member."""
    with change(actor) as changing:
        invitation = _usable(secret)
        if invitation.email not in {address.lower() for address in addresses}:
            raise PreconditionFailed(
                f"the invitation is for {invitation.email}, which is not a confirmed address of {user.username}: sign in with the "
                "account that has it, or add and confirm the address"
            )
        membership = _join(invitation, user)
        changing.audit(
            "invitation.accept", invitation.tenant_id, f"{invitation.tenant_id}/{user.username}", None, _after(invitation)
        )
    return membership


def join_by_invitation(secret: str, password: str, request_id: str = "", address: str = "") -> User:
    """A new account for whoever has the link, named after the address. Raises `PreconditionFailed`, `InvalidValue`."""
    invitation = _usable(secret)
    user = User(username=_free_name(invitation.email), email=invitation.email)
    check_password(user, password)
    user.set_password(password)
    with change(actor_of_user(user, request_id, address)) as changing:
        invitation = _usable(secret)
        user.save()
        changing.audit("person.create", "", user.username, None, {"by": f"invitation {invitation.id}"})
        _join(invitation, user)
        changing.audit(
            "invitation.accept", invitation.tenant_id, f"{invitation.tenant_id}/{user.username}", None, _after(invitation)
        )
    return user


def _usable(secret: str) -> Invitation:
    invitation = open_invitation(secret)
    if invitation is None:
        raise PreconditionFailed(UNUSABLE)
    return invitation


def _join(invitation: Invitation, user: User) -> Membership:
    if Membership.unscoped.filter(tenant=invitation.tenant_id, user=user).exists():
        raise Conflict(f"{user.username!r} is a member of {invitation.tenant_id!r} already")
    leave_teams(invitation.tenant_id, user)
    invitation.accepted_at, invitation.accepted_by = timezone.now(), user.username
    invitation.save(update_fields=["accepted_at", "accepted_by"])
    until = invitation.accepted_at + timedelta(days=invitation.member_days) if invitation.member_days else None
    given = {"role": invitation.role, "namespace_id": None, "topics": "", "expires_at": until}
    return Membership.ever.update_or_create(tenant_id=invitation.tenant_id, user=user, defaults=given)[0]


def _after(invitation: Invitation) -> dict[str, str]:
    return {"role": invitation.role, "email": invitation.email, "invited_by": invitation.created_by}


def _free_name(email: str) -> str:
    base = re.sub(r"[^\w.@+-]", "-", email, flags=re.ASCII)[:140]
    taken = {name.lower() for name in User.objects.filter(username__istartswith=base).values_list("username", flat=True)[:10_000]}
    return next(name for name in (base, *(f"{base}-{number}" for number in range(2, 10_003))) if name.lower() not in taken)


def _address(email: str) -> str:
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError:
        raise InvalidValue(f"{email[:80]!r} is not a mail address") from None
    if len(email) > EMAIL_LENGTH_MAX:
        raise InvalidValue(f"the mail address is longer than {EMAIL_LENGTH_MAX} characters")
    return email


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
