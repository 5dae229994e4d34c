"""Grants: which roles may use a namespace, a topic or a subscription."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from django.utils import timezone

from messaging.errors import InvalidValue
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName, parse_namespace, parse_topic, subscription_name
from tenants.access import Actor, require
from tenants.actions.change import PendingChange, change
from tenants.actions.lasting import require_as_long
from tenants.actions.namespaces import existing
from tenants.models import Grant, Namespace, SubscriptionGrant

GRANTABLE = ("produce", "consume", "functions", "sources", "sinks", "packages")
_ROLE_LENGTH_MAX = 511


class TopicRoles(NamedTuple):
    """What `role` may do on a topic; no actions: nothing more."""

    topic: TopicName
    role: str
    actions: Sequence[str] = ()


class NamespacePermissions(NamedTuple):
    """What a namespace is created with: role -> actions on it, the same of topics, and subscription -> roles."""

    namespace: Mapping[str, Sequence[str]]
    topics: Mapping[str, Mapping[str, Sequence[str]]]
    subscriptions: Mapping[str, Sequence[str]]


def granting(actor: Actor, namespace: str, given: NamespacePermissions) -> Callable[[PendingChange, Namespace], None]:
    """The part of creating the namespace that grants them. Raises `InvalidValue`, `NotAuthorized` for somebody who could not grant
    them afterwards, before anything is created."""
    tenant, _ = parse_namespace(namespace)
    if any(given):
        require(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
        require_as_long(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    grants = [("", role, actions) for role, actions in given.namespace.items()]
    for topic, roles in given.topics.items():
        grants += [(_topic_of(namespace, topic), role, actions) for role, actions in roles.items()]
    for _, role, actions in grants:
        _check_grant(role, actions)
    for subscription, roles_of in given.subscriptions.items():
        _check_restriction(subscription, roles_of)

    def grant(changing: PendingChange, row: Namespace) -> None:
        for topic, role, actions in grants:
            _grant(changing, row, topic, role, actions)
        for subscription, roles_of in given.subscriptions.items():
            _restrict(changing, row, subscription, roles_of)

    return grant


def grant_permission(
    actor: Actor, namespace: str, role: str, actions: Sequence[str], topic: str = "", expires_at: datetime | None = None
) -> None:
    """`role` may do `actions` from now on, and of those alone, on the namespace, or on one topic of it (its full name).
    `expires_at`: until when; None: it does not end by itself. Raises `InvalidValue` for a time that is over."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    _check_grant(role, actions)
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidValue(f"{expires_at.isoformat()} is over: give a later time, or revoke the permission")
    require_as_long(actor, Action.GRANT_ADMIN, Resource(tenant, namespace), expires_at)
    name = _topic_of(namespace, topic)
    with change(actor) as changing:
        row = existing(namespace)
        _grant(changing, row, name, role, actions, expires_at)
        changing.publish_namespace(row)


def grant_on_topics(actor: Actor, namespace: str, grants: Sequence[TopicRoles]) -> None:
    """All of them, or none. Raises `InvalidValue` for a topic that is not in the namespace."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    for one in grants:
        _check_grant(one.role, one.actions)
    require_as_long(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    names = [_topic_of(namespace, str(one.topic)) for one in grants]
    with change(actor) as changing:
        row = existing(namespace)
        for name, one in zip(names, grants, strict=True):
            _grant(changing, row, name, one.role, one.actions)
        changing.publish_namespace(row)


def revoke_permission(actor: Actor, namespace: str, role: str, topic: str = "") -> None:
    """Idempotent."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    name = _topic_of(namespace, topic)
    with change(actor) as changing:
        row = existing(namespace)
        _revoke(changing, row, name, role)
        changing.publish_namespace(row)


def revoke_on_topics(actor: Actor, namespace: str, revoked: Sequence[TopicRoles]) -> None:
    """All of them, or none. Idempotent."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    names = [_topic_of(namespace, str(one.topic)) for one in revoked]
    with change(actor) as changing:
        row = existing(namespace)
        found = [_revoke(changing, row, name, one.role) for name, one in zip(names, revoked, strict=True)]
        if not any(found):
            changing.audit("permission.revoke", tenant, namespace)
        changing.publish_namespace(row)


def _check_grant(role: str, actions: Sequence[str]) -> None:
    _check_role(role)
    unknown = sorted(set(actions) - set(GRANTABLE))
    if unknown:
        raise InvalidValue(f"actions {', '.join(unknown)} cannot be granted: use any of {', '.join(GRANTABLE)}")
    if not actions:
        raise InvalidValue("no actions were given: name at least one, or revoke the permission")


def end_grants(actor: Actor, now: datetime, most: int = 500) -> int:
    """Removes grants whose time is over. Nobody could use them since; this is for the audit log, and for what brokers are told.
    Returns how many they were, at most `most`."""
    ended = list(Grant.ever.filter(expires_at__lte=now)[:most])
    for grant in ended:
        with change(actor) as changing:
            found = Grant.ever.filter(pk=grant.pk, expires_at__lte=now).select_related("namespace__tenant").first()
            if found is None:  # somebody renewed it, or revoked it
                continue
            namespace = found.namespace
            found.delete()
            changing.audit("permission.expire", namespace.tenant_id, grant.topic or namespace.name, _state(grant))
            changing.publish_namespace(namespace)
    return len(ended)


def _grant(
    changing: PendingChange, row: Namespace, topic: str, role: str, actions: Sequence[str], expires_at: datetime | None = None
) -> None:
    wanted = [action for action in GRANTABLE if action in actions]
    before = Grant.unscoped.filter(namespace=row, topic=topic, role=role).first()
    given = {"actions": wanted, "expires_at": expires_at}
    grant, _ = Grant.ever.update_or_create(namespace=row, topic=topic, role=role, defaults=given)
    was = None if before is None else _state(before)
    changing.audit("permission.grant", row.tenant_id, topic or row.name, was, _state(grant))


def _revoke(changing: PendingChange, row: Namespace, topic: str, role: str) -> bool:
    """Whether there was anything to revoke."""
    grant = Grant.unscoped.filter(namespace=row, topic=topic, role=role).first()
    if grant is not None:
        grant.delete()
        changing.audit("permission.revoke", row.tenant_id, topic or row.name, _state(grant))
    return grant is not None


def restrict_subscription(actor: Actor, namespace: str, subscription: str, roles: Sequence[str]) -> None:
    """Only `roles` (and those named before) may use subscriptions of this name in the namespace."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    _check_restriction(subscription, roles)
    require_as_long(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    with change(actor) as changing:
        row = existing(namespace)
        _restrict(changing, row, subscription, roles)
        changing.publish_namespace(row)


def _check_restriction(subscription: str, roles: Sequence[str]) -> None:
    subscription_name(subscription)
    if not roles:
        raise InvalidValue("no roles were given: name at least one")
    for role in roles:
        _check_role(role)


def _restrict(changing: PendingChange, row: Namespace, subscription: str, roles: Sequence[str]) -> None:
    for role in roles:
        SubscriptionGrant.unscoped.get_or_create(namespace=row, subscription=subscription, role=role)
    changing.audit("subscription.restrict", row.tenant_id, f"{row.name}/{subscription}", after={"roles": sorted(roles)})


def unrestrict_subscription(actor: Actor, namespace: str, subscription: str, role: str) -> None:
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
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


def _state(grant: Grant) -> dict[str, object]:
    until = {} if grant.expires_at is None else {"expires_at": grant.expires_at.isoformat()}
    return {"role": grant.role, "actions": list(grant.actions), **until}
