"""Grants: which roles may use a namespace, a topic or a subscription."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.errors import InvalidValue
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName, parse_namespace, parse_topic, subscription_name
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.namespaces import existing
from tenants.models import Grant, SubscriptionGrant

GRANTABLE = ("produce", "consume", "functions", "sources", "sinks", "packages")
_ROLE_LENGTH_MAX = 511


def grant_permission(actor: Actor, namespace: str, role: str, actions: Sequence[str], topic: str = "") -> None:
    """`role` may do `actions` from now on, and of those alone, on the namespace, or on one topic of it (its full name)."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    _check_role(role)
    unknown = sorted(set(actions) - set(GRANTABLE))
    if unknown:
        raise InvalidValue(f"actions {', '.join(unknown)} cannot be granted: use any of {', '.join(GRANTABLE)}")
    if not actions:
        raise InvalidValue("no actions were given: name at least one, or revoke the permission")
    name = _topic_of(namespace, topic)
    with change(actor) as changing:
        row = existing(namespace)
        wanted = [action for action in GRANTABLE if action in actions]
        before = Grant.unscoped.filter(namespace=row, topic=name, role=role).values_list("actions", flat=True).first()
        Grant.unscoped.update_or_create(namespace=row, topic=name, role=role, defaults={"actions": wanted})
        changing.audit("permission.grant", tenant, name or namespace, _state(role, before), _state(role, wanted))
        changing.publish_namespace(row)


def revoke_permission(actor: Actor, namespace: str, role: str, topic: str = "") -> None:
    """Idempotent."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    name = _topic_of(namespace, topic)
    with change(actor) as changing:
        row = existing(namespace)
        grant = Grant.unscoped.filter(namespace=row, topic=name, role=role).first()
        if grant is not None:
            grant.delete()
            changing.audit("permission.revoke", tenant, name or namespace, _state(role, grant.actions))
        changing.publish_namespace(row)


def restrict_subscription(actor: Actor, namespace: str, subscription: str, roles: Sequence[str]) -> None:
    """Only `roles` (and those named before) may use subscriptions of this name in the namespace."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    subscription_name(subscription)
    if not roles:
        raise InvalidValue("no roles were given: name at least one")
    for role in roles:
        _check_role(role)
    with change(actor) as changing:
        row = existing(namespace)
        for role in roles:
            SubscriptionGrant.unscoped.get_or_create(namespace=row, subscription=subscription, role=role)
        changing.audit("subscription.restrict", tenant, f"{namespace}/{subscription}", after={"roles": sorted(roles)})
        changing.publish_namespace(row)


def unrestrict_subscription(actor: Actor, namespace: str, subscription: str, role: str) -> None:
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with change(actor) as changing:
        row = existing(namespace)
        removed, _ = SubscriptionGrant.unscoped.filter(namespace=row, subscription=subscription, role=role).delete()
        if removed:
            changing.audit("subscription.unrestrict", tenant, f"{namespace}/{subscription}", {"roles": [role]})
        changing.publish_namespace(row)


def _topic_of(namespace: str, topic: str) -> str:
    if not topic:
        return ""
    name: TopicName = parse_topic(topic)
    if str(name.namespace) != namespace:
        raise InvalidValue(f"topic {topic!r} is not in namespace {namespace!r}")
    return str(name)


def _check_role(role: str) -> None:
    if not role or len(role) > _ROLE_LENGTH_MAX or not role.isprintable():
        raise InvalidValue(f"role {role[:80]!r} is not valid: use 1 to {_ROLE_LENGTH_MAX} printable characters")


def _state(role: str, actions: Sequence[str] | None) -> dict[str, object] | None:
    return None if actions is None else {"role": role, "actions": list(actions)}
