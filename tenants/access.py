"""Who acts, and whether they may. Every action begins with `require`: `messaging.permissions` over the database's grants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from messaging.errors import NotAuthorized
from messaging.permissions import decision
from messaging.permissions.model import NOTHING, Action, Principal, Resource
from tenants.grants import DatabaseGrants
from tenants.models import User


class SecondFactorMissing(NotAuthorized):
    """The tenant requires a second factor of people, and this one has none."""

    code = "second_factor_required"


class NotVisible(NotAuthorized):
    """The caller may not even know whether it exists. Our API answers 404, Pulsar's 403; both alike for what does not exist."""

    code = "not_visible"


@dataclass
class Trail:
    """What one request left in the audit log, and what its view has to say for the record that is written after it."""

    records: int = 0
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


@dataclass(frozen=True)
class Actor:
    """Who asked for something: in every action the first argument. Made once a request; its grants are read once."""

    principal: Principal
    request_id: str = ""
    grants: DatabaseGrants = field(default_factory=DatabaseGrants, compare=False)
    address: str = ""  # from where; "": a process of ours
    second_factor: bool = True  # False: somebody who signs in with a password alone
    trail: Trail = field(default_factory=Trail, compare=False)
    # What must still hold when the first change is made; each raises where it does not. Checked under the lock of the change.
    conditions: list[Callable[[], None]] = field(default_factory=list, compare=False)

    def may(self, action: Action, resource: Resource = NOTHING) -> bool:
        if not decision.allowed(self.grants, self.principal, action, resource):
            return False
        return action is Action.TENANT_SEE or not self.lacks_second_factor(resource.tenant)

    def lacks_second_factor(self, tenant: str) -> bool:
        return not self.second_factor and bool(tenant) and self.grants.requires_second_factor(tenant)

    def check_conditions(self) -> None:
        """Once: what follows the first change of a request belongs to it."""
        conditions, self.conditions[:] = [*self.conditions], []
        for condition in conditions:
            condition()


def actor_of_user(user: User, request_id: str = "", address: str = "") -> Actor:
    """The actor that somebody signed in at the console is."""
    return Actor(Principal(user.role), request_id, address=address, second_factor=user.shows_second_factor)


def platform_actor(role: str = "service:web") -> Actor:
    """A process of ours acting by itself: bootstrap, maintenance."""
    return Actor(Principal(role, service=True))


def require(actor: Actor, action: Action, resource: Resource = NOTHING) -> None:
    """Raises `NotAuthorized`, or `NotVisible` for somebody to whom the tenant is none of their business."""
    try:
        decision.require(actor.grants, actor.principal, action, resource)
    except NotAuthorized as error:
        if resource.tenant and not sees(actor, resource):
            raise NotVisible(error.message) from None
        raise
    if actor.lacks_second_factor(resource.tenant):
        raise SecondFactorMissing(
            f"tenant {resource.tenant!r} requires a second factor: sign in at the console and set up a passkey or an app first"
        )


def sees(actor: Actor, resource: Resource) -> bool:
    """Whether the actor may know that the tenant exists: as admin, by a role, or by a grant on what is asked for."""
    tenant = Resource(resource.tenant)
    if actor.may(Action.TENANT_SEE, tenant):
        return True
    return bool(resource.namespace) and actor.may(Action.LOOKUP, resource)
