"""Nobody gives for longer what they have for a time: a member until next week, an administrator of the platform for a day."""

from __future__ import annotations

from datetime import datetime

from messaging.errors import NotAuthorized
from messaging.permissions.decision import decide
from messaging.permissions.model import NOTHING, USER_ROLE_PREFIX, Action, Resource
from tenants.access import Actor
from tenants.models import Membership, User


def end_of_right(actor: Actor, action: Action, resource: Resource = NOTHING) -> datetime | None:
    """Until when the actor may do what they may do now; None: it does not end by itself. What they have in several ways lasts as
    long as the last of them. Keys and processes have nothing for a time: a person for a time makes no key that gives rights."""
    if not actor.principal.role.startswith(USER_ROLE_PREFIX):
        return None
    username = actor.principal.role.removeprefix(USER_ROLE_PREFIX)
    ends: list[datetime | None] = []
    for reason in decide(actor.grants, actor.principal, action, resource).reasons:
        if reason.rule == "superuser":
            ends += User.objects.filter(username=username).values_list("superuser_until", flat=True)
        elif reason.rule == "role":
            own = Membership.unscoped.filter(tenant=resource.tenant, user__username=username)
            ends += own.values_list("expires_at", flat=True)
        else:
            return None
    return max((end for end in ends if end is not None), default=None) if None not in ends else None


def require_as_long(actor: Actor, action: Action, resource: Resource = NOTHING, until: datetime | None = None) -> None:
    """Before the actor gives something by their right to do `action`. Raises `NotAuthorized` where it lasts longer than that right:
    after it, or, `until` None, for good."""
    end = end_of_right(actor, action, resource)
    if end is not None and (until is None or until > end):
        raise NotAuthorized(
            f"you may do this until {end.isoformat()}, and nobody gives for longer what they have for a time: give an earlier end "
            "where there is one, or ask somebody who has it for good"
        )
