"""Indexes open producers and consumers by their permission, and finds those that a change of permissions affects. Pure.

A permission can end while it is used: a grant is revoked, an admin role withdrawn, a subscription restricted to other roles, a
namespace deleted. `touched` finds the sessions that a change may have ended, by tenant, namespace and role, so sessions of roles
that lost nothing are not checked. Whether a session may continue is decided elsewhere.

The index holds sessions weakly: nobody has to report the end of a session, and the index cannot keep one alive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol
from weakref import WeakSet

from messaging.errors import MagnetarError
from messaging.permissions.model import Action, Principal, Resource
from messaging.policies.model import ROLE_PREFIX

EVERYBODY = None
State = Mapping[str, Any]
_NOTHING: Mapping[str, Any] = {}


class OpenSession(Protocol):
    """A producer or consumer that was authorised when it was opened."""

    @property
    def principal(self) -> Principal:
        """Who opened it."""

    @property
    def action(self) -> Action:
        """PRODUCE or CONSUME."""

    @property
    def resource(self) -> Resource: ...

    def end(self, error: MagnetarError) -> None:
        """Closes the session from the broker's side; its client is notified and may retry. Idempotent; never raises."""


class _Namespace:
    __slots__ = ("roles", "state")

    def __init__(self, state: State | None) -> None:
        self.state = state  # what the sessions were opened, or last checked, under
        self.roles: dict[str, WeakSet[OpenSession]] = {}


class _Tenant:
    __slots__ = ("namespaces", "state")

    def __init__(self, state: State | None) -> None:
        self.state = state
        self.namespaces: dict[str, _Namespace] = {}


class ControlState(Protocol):
    """What the broker knows of the control plane. A state is replaced as a whole, never changed in place."""

    @property
    def tenants(self) -> Mapping[str, State]: ...

    @property
    def namespaces(self) -> Mapping[str, State]: ...


class OpenSessions:
    def __init__(self, view: Callable[[], ControlState]) -> None:
        self._view = view
        self.counted_tenants: dict[str, _Tenant] = {}

    def add(self, session: OpenSession) -> None:
        """`session` was allowed by the current state. Call it in the same turn of the loop as that check."""
        resource = session.resource
        tenant = self.counted_tenants.get(resource.tenant)
        if tenant is None:
            tenant = self.counted_tenants[resource.tenant] = _Tenant(self._view().tenants.get(resource.tenant))
        namespace = tenant.namespaces.get(resource.namespace)
        if namespace is None:
            namespace = tenant.namespaces[resource.namespace] = _Namespace(self._view().namespaces.get(resource.namespace))
        role = session.principal.role
        if role not in namespace.roles:
            namespace.roles[role] = WeakSet()
        namespace.roles[role].add(session)

    def touched(self, changed: Iterable[tuple[str, str]]) -> list[OpenSession]:
        """Open sessions whose permission may have ended with these changes (kind, key) of the view."""
        sessions: dict[int, OpenSession] = {}
        for kind, key in changed:
            for session in self._of_tenant(key) if kind == "tenant" else self._of_namespace(key) if kind == "namespace" else ():
                sessions[id(session)] = session
        return list(sessions.values())

    def under(self, change: tuple[str, str]) -> list[OpenSession]:
        """Every open session that a change of this entity could affect."""
        kind, key = change
        tenant = self.counted_tenants.get(key.partition("/")[0]) if kind in ("tenant", "namespace") else None
        namespaces = tenant.namespaces if tenant is not None else {}
        affected = [name for name in namespaces if kind == "tenant" or name == key]
        return [session for name in affected for session in _sessions(namespaces[name], EVERYBODY)]

    def _of_tenant(self, name: str) -> list[OpenSession]:
        tenant = self.counted_tenants.get(name)
        if tenant is None:
            return []
        after = self._view().tenants.get(name)
        roles = admins_lost(tenant.state, after)
        tenant.state = after
        affected = [session for namespace in tenant.namespaces.values() for session in _sessions(namespace, roles)]
        for namespace in list(tenant.namespaces):
            self._prune(name, namespace)
        return affected

    def _of_namespace(self, name: str) -> list[OpenSession]:
        tenant_name = name.partition("/")[0]
        tenant = self.counted_tenants.get(tenant_name)
        namespace = tenant.namespaces.get(name) if tenant is not None else None
        if namespace is None:
            return []
        after = self._view().namespaces.get(name)
        affected = _sessions(namespace, grants_lost(namespace.state, after))
        namespace.state = after
        self._prune(tenant_name, name)
        return affected

    def _prune(self, tenant_name: str, name: str) -> None:
        """Drops what holds no session any more."""
        tenant = self.counted_tenants[tenant_name]
        roles = tenant.namespaces[name].roles
        for role in [role for role, sessions in roles.items() if not sessions]:
            del roles[role]
        if not roles:
            del tenant.namespaces[name]
        if not tenant.namespaces:
            del self.counted_tenants[tenant_name]


def _sessions(namespace: _Namespace, roles: Collection[str] | None) -> list[OpenSession]:
    """Of these roles, or of everybody. A copy: sessions end while they are looked at."""
    chosen = namespace.roles.keys() if roles is EVERYBODY else namespace.roles.keys() & roles
    return [session for role in chosen for session in namespace.roles[role]]


def admins_lost(before: State | None, after: State | None) -> Collection[str] | None:
    """Roles that administered the tenant and do so no more; `EVERYBODY` where the tenant is gone, or is another of its name."""
    if after is None or (before is not None and before.get("uid") != after.get("uid")):
        return EVERYBODY
    return set((before or _NOTHING).get("admin_roles", ())) - set(after.get("admin_roles", ()))


def grants_lost(before: State | None, after: State | None) -> Collection[str] | None:
    """Roles that may do less in the namespace than before; `EVERYBODY` where that cannot be told by role."""
    if after is None or (before is not None and before.get("tenant_uid") != after.get("tenant_uid")):
        return EVERYBODY
    if before is None:
        return ()
    if _prefixed(after) and not _prefixed(before):
        return EVERYBODY  # names of subscriptions begin with the role from now on
    lost = _lost(before.get("grants", _NOTHING), after.get("grants", _NOTHING))
    topics = after.get("topic_grants", _NOTHING)
    for topic, roles in before.get("topic_grants", _NOTHING).items():
        lost |= _lost(roles, topics.get(topic, _NOTHING))
    former = before.get("subscription_roles", _NOTHING)
    for subscription, roles in after.get("subscription_roles", _NOTHING).items():
        if roles and not former.get(subscription):
            return EVERYBODY  # it was open to all who may consume
        lost |= set(former.get(subscription, ())) - set(roles)
    return lost


def _prefixed(state: State) -> bool:
    return (state.get("policies") or _NOTHING).get("subscription_auth_mode") == ROLE_PREFIX


def _lost(before: Mapping[str, Collection[str]], after: Mapping[str, Collection[str]]) -> set[str]:
    return {role for role, actions in before.items() if not set(actions) <= set(after.get(role, ()))}
