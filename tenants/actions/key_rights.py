"""Whoever has the token of a key can do what the key can, so nobody makes one that can do more than they can."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Q

from messaging.errors import NotAuthorized
from messaging.permissions.model import Action, Resource
from messaging.permissions.roles import OF_TENANT, complete
from messaging.policies.model import ROLE_PREFIX
from tenants.access import Actor
from tenants.models import Grant, Key, Namespace, SubscriptionGrant, Tenant

_GIVEN_BY = {"produce": Action.PRODUCE, "consume": Action.CONSUME}  # the other grants of Pulsar open nothing here


def require_rights_of_key(actor: Actor, key: Key) -> None:
    """Raises `NotAuthorized` where the key could do something that the actor cannot: by its scope, or without one by its role. A
    role to which nobody gave anything is a new one, and open to whoever makes keys."""
    tenant = key.tenant_id or ""
    needed = _of_role(actor, tenant, key.role) if key.scope is None else _of_scope(tenant, key)
    for action, resource in needed:
        if not actor.may(action, resource):
            # Names nothing of other tenants: `_of_role` asks for rights in this one alone.
            where = resource.subscription or resource.topic or resource.namespace or resource.tenant or "the platform"
            raise NotAuthorized(
                f"a key of {key.role!r} can do more than you can ({action.value} on {where}): choose a name that has no rights "
                "yet, or ask somebody who can, such as an owner"
            )


def gives_rights(key: Key) -> bool:
    """Whether it could give rights to others, which are there when it has ended."""
    if key.scope is not None:
        return False
    return any(key.role in roles for roles in Tenant.unscoped.values_list("admin_roles", flat=True).iterator())


def _of_scope(tenant: str, key: Key) -> Iterator[tuple[Action, Resource]]:
    for use in key.scope or ():
        for action in use["actions"]:
            yield Action(action), Resource(tenant, use["namespace"])
        if "consume" in use["actions"]:
            yield from _subscriptions(tenant, use["namespace"], key.role)


def _of_role(actor: Actor, tenant: str, role: str) -> Iterator[tuple[Action, Resource]]:
    """What `role` can do, each as the right that somebody needs to give it to another."""
    if actor.grants.is_superuser(role):
        yield Action.SUPERUSER, Resource()
    if role in actor.grants.tenant_admins(tenant):
        yield from ((action, Resource(tenant)) for action in OF_TENANT)
    for binding in actor.grants.bindings(tenant, role):
        yield from ((action, Resource(tenant, binding.scope.namespace)) for action in complete(binding.actions))
    consumes: set[str] = set()
    elsewhere = False
    rows = Grant.unscoped.filter(role=role).values_list("namespace", "namespace__tenant", "topic", "actions")
    for namespace, owner, topic, actions in rows.iterator():
        if owner != tenant:
            elsewhere = True
            continue
        yield from ((_GIVEN_BY[action], Resource(tenant, namespace, topic)) for action in actions if action in _GIVEN_BY)
        if "consume" in actions:
            consumes.add(namespace)
    for namespace in sorted(consumes):
        yield from _subscriptions(tenant, namespace, role)
    if elsewhere or _administers_another(tenant, role):
        # Other tenants trust this one with it: whoever administers this tenant says who has the role.
        yield Action.TENANT_ADMIN, Resource(tenant)


def _administers_another(tenant: str, role: str) -> bool:
    return any(role in roles for roles in Tenant.unscoped.exclude(name=tenant).values_list("admin_roles", flat=True).iterator())


def _subscriptions(tenant: str, namespace: str, role: str) -> Iterator[tuple[Action, Resource]]:
    """Those that are kept for `role` in a namespace, or in all of the tenant: by name, or by the prefix that is its own."""
    where = Q(name=namespace) if namespace else Q(tenant=tenant)
    kept = SubscriptionGrant.unscoped.filter(role=role, namespace__in=Namespace.unscoped.filter(where))
    for name, subscription in kept.values_list("namespace", "subscription").iterator():
        yield Action.CONSUME, Resource(tenant, name, "", subscription)
    prefixed = Namespace.unscoped.filter(where, policies__subscription_auth_mode=ROLE_PREFIX).values_list("name", flat=True)
    for name in prefixed.iterator():
        yield Action.CONSUME, Resource(tenant, name, "", role)
