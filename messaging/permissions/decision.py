"""Whether a principal may do something, and why: one pure function for broker and web.

The order is Pulsar's: superuser, administrator of the tenant, grant on the namespace, grant on the topic. Roles that were bound
within a scope come between the second and the third.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from messaging.errors import NotAuthorized
from messaging.permissions.model import (
    NOTHING,
    TENANT_ROLE_PREFIX,
    Action,
    Binding,
    Grants,
    Principal,
    Resource,
    tenant_role,
)
from messaging.protocol.system_topics import is_change_events

_OPEN = frozenset({Action.PUBLIC, Action.HANDSHAKE, Action.SESSION})
_OF_SUBSCRIPTIONS = frozenset({Action.CONSUME, Action.MESSAGE_READ, Action.CURSOR_ADMIN})
# What Pulsar's grants give. Other actions are never granted, they are bound with a role.
_GRANTED_BY: dict[Action, frozenset[str]] = {
    Action.PRODUCE: frozenset({"produce"}),
    Action.LOOKUP: frozenset({"produce", "consume"}),
    Action.NAMESPACE_READ: frozenset({"produce", "consume"}),
    **dict.fromkeys(_OF_SUBSCRIPTIONS, frozenset({"consume"})),
}


class Reason(NamedTuple):
    """`rule` is a stable code for programs, `text` a sentence for people."""

    rule: str
    text: str


class Decision(NamedTuple):
    """`reasons` of what is allowed: each is enough by itself. None for what is not."""

    reasons: tuple[Reason, ...]

    @property
    def allowed(self) -> bool:
        return bool(self.reasons)


def decide(grants: Grants, principal: Principal, action: Action, resource: Resource = NOTHING) -> Decision:
    """All reasons for which `principal` may do `action` on `resource`."""
    return Decision(tuple(_reasons(grants, principal, action, resource)))


def allowed(grants: Grants, principal: Principal, action: Action, resource: Resource = NOTHING) -> bool:
    """Whether there is a reason; looks for the first one only."""
    return next(_reasons(grants, principal, action, resource), None) is not None


def _reasons(grants: Grants, principal: Principal, action: Action, resource: Resource) -> Iterator[Reason]:
    if action in _OPEN:
        yield Reason("open", f"{action} requires no permission")
        return
    if principal.service:
        yield Reason("service", f"{principal.role} is a process of the platform")
    if action is Action.SERVICE:
        return
    role = principal.role
    of_key = grants.key_bindings(principal.key_id) if principal.key_id else None
    if of_key is not None:
        yield from _of_key(grants, principal, of_key, action, resource)
        return
    if grants.is_superuser(role):
        yield Reason("superuser", f"{role} administers the platform")
    if action is Action.AUTHENTICATED:
        yield Reason("authenticated", "everybody may who is known")
        return
    # Topics of change events say what the platform did: no tenant writes there.
    if action is Action.SUPERUSER or (action is Action.PRODUCE and is_change_events(resource.topic)):
        return
    if role in grants.tenant_admins(resource.tenant):
        yield Reason("tenant_admin", f"{role} is an admin role of tenant {resource.tenant}")
    if role.startswith(TENANT_ROLE_PREFIX) and role == tenant_role(resource.tenant):
        yield Reason("tenant", "a tenant may do within itself what its administrators may")
    for binding in grants.bindings(resource.tenant, role):
        if _gives(binding, action, resource) and (Action.OPERATE in binding.actions or _may_use(grants, role, action, resource)):
            yield Reason("role", text_of(role, binding))
    yield from _granted(grants, role, action, resource)


def _of_key(
    grants: Grants, principal: Principal, bindings: Sequence[Binding], action: Action, resource: Resource
) -> Iterator[Reason]:
    """A key with a scope does what its scope says, whatever its role was granted."""
    if action is Action.AUTHENTICATED:
        yield Reason("authenticated", "everybody may who is known")
        return
    if resource.tenant != principal.tenant or (action is Action.PRODUCE and is_change_events(resource.topic)):
        return
    for binding in bindings:
        if _gives(binding, action, resource) and _may_use(grants, principal.role, action, resource):
            yield Reason("key_scope", text_of_key(principal, binding))


def _gives(binding: Binding, action: Action, resource: Resource) -> bool:
    return action in binding.actions and (action is Action.TENANT_SEE or binding.scope.covers(resource))


def text_of(role: str, binding: Binding) -> str:
    if binding.via:
        return f"{role} has the role {binding.name} on {binding.scope}, through {binding.via}"
    return f"{role} has the role {binding.name} on {binding.scope}, itself"


def text_of_key(principal: Principal, binding: Binding) -> str:
    return f"key {principal.key_id} of {principal.role} was made for {binding.name} on {binding.scope}"


def _granted(grants: Grants, role: str, action: Action, resource: Resource) -> Iterator[Reason]:
    wanted = _GRANTED_BY.get(action)
    if wanted is None:
        return
    on_namespace = wanted.intersection(grants.namespace_grants(resource.namespace).get(role, ()))
    on_topic = wanted.intersection(grants.topic_grants(resource.topic).get(role, ())) if resource.topic else ()
    if (on_namespace or on_topic) and _may_use(grants, role, action, resource):
        if on_namespace:
            yield Reason("namespace_grant", f"{role} was granted {_words(on_namespace)} on namespace {resource.namespace}")
        if on_topic:
            yield Reason("topic_grant", f"{role} was granted {_words(on_topic)} on {resource.topic}")


def _words(actions: frozenset[str]) -> str:
    return " and ".join(sorted(actions))


def _may_use(grants: Grants, role: str, action: Action, resource: Resource) -> bool:
    """Whether a role that may consume may use this subscription."""
    if not resource.subscription or action not in _OF_SUBSCRIPTIONS:
        return True
    only = grants.subscription_roles(resource.namespace, resource.subscription)
    return (not only or role in only) and not _lacks_prefix(grants, role, resource)


def _lacks_prefix(grants: Grants, role: str, resource: Resource) -> bool:
    return not resource.subscription.startswith(role) and grants.prefixes_subscriptions(resource.namespace)


def require(grants: Grants, principal: Principal, action: Action, resource: Resource = NOTHING) -> None:
    """Raises `NotAuthorized`, saying which role lacks what, without saying whether the resource exists."""
    if not allowed(grants, principal, action, resource):
        raise NotAuthorized(refusal(grants, principal, action, resource))


def refusal(grants: Grants, principal: Principal, action: Action, resource: Resource) -> str:
    """Why it is not allowed, and what to do."""
    may_consume = action in _OF_SUBSCRIPTIONS and allowed(grants, principal, action, resource._replace(subscription=""))
    if may_consume and _lacks_prefix(grants, principal.role, resource):
        return (
            f"the name of a subscription in {resource.namespace} must begin with the role that uses it, {principal.role!r} "
            "(policy subscription_auth_mode): choose such a name"
        )
    if action is Action.PRODUCE and is_change_events(resource.topic):
        return (
            f"role {principal.role!r} may not publish to {resource.topic}: the platform writes there which policies of topics "
            "have changed; use another topic, or ask an administrator of the platform"
        )
    where = resource.topic or resource.namespace or resource.tenant or "the platform"
    return f"role {principal.role!r} lacks {action.value!r} on {where}: ask an administrator of the tenant to grant it"
