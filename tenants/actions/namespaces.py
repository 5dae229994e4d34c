"""Namespaces: creating and deleting them, and their policies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from messaging.adminrpc.methods import NAMESPACES_PURGE, TOPICS_DELETE, TOPICS_LIST
from messaging.adminrpc.topics import TopicDelete, TopicNames, TopicsList
from messaging.errors import Conflict, MagnetarError, NotFound, NotReady, PreconditionFailed, TopicNotFound
from messaging.permissions.model import Action, Resource
from messaging.policies.validation import RETENTION_CEILINGS, JsonPolicies, changed
from messaging.protocol.names import parse_namespace, parse_topic
from messaging.protocol.system_topics import without_system_topics
from tenants import broker, feed
from tenants.access import Actor, require
from tenants.actions import labels
from tenants.actions.change import PendingChange, change
from tenants.actions.protection import check_namespace
from tenants.actions.quotas import check_another_namespace
from tenants.actions.recycling import NAMESPACE, check_not_recycled, hours_of_namespace, new_entry, take
from tenants.models import Namespace, Tenant

MASKED = "masked_fields"


def create_namespace(
    actor: Actor,
    name: str,
    policies: JsonPolicies | None = None,
    grant: Callable[[PendingChange, Namespace], None] | None = None,
) -> Namespace:
    """`name` is tenant/local; `grant` is called within the change. Raises `NotFound` for the tenant, `Conflict`, and what
    `validation.changed` raises."""
    tenant, _ = parse_namespace(name)
    require(actor, Action.NAMESPACE_ADMIN, Resource(tenant))
    valid = changed({}, policies or {})
    if MASKED in valid:  # it would hold in place of what is masked in the whole tenant
        require(actor, Action.CONSUME, Resource(tenant, name))
    if not Tenant.unscoped.filter(name=tenant).exists():  # it may be in the recycle bin, with a namespace of this name
        raise NotFound(f"tenant {tenant!r} does not exist")
    check_not_recycled(name)
    if not Namespace.unscoped.filter(name=name).exists():
        _purge(name)
    with change(actor) as changing:
        owner = Tenant.unscoped.filter(name=tenant).first()
        if owner is None:
            raise NotFound(f"tenant {tenant!r} does not exist")
        changed({}, valid, inherited=retention_ceilings(owner))
        if Namespace.unscoped.filter(name=name).exists():
            raise Conflict(f"namespace {name!r} already exists")
        check_not_recycled(name)
        check_another_namespace(tenant)
        namespace = Namespace.unscoped.create(name=name, tenant_id=tenant, policies=valid)
        _remember_labels(namespace)
        changing.audit("namespace.create", tenant, name, after={"policies": valid})
        if grant is not None:
            grant(changing, namespace)
        changing.publish_namespace(namespace)
    return namespace


def set_policies(actor: Actor, name: str, changes: JsonPolicies) -> Namespace:
    """Sets the policies named in `changes`; a value of None unsets one. What is masked is for whoever may consume to say. Returns
    when live topics follow them."""
    return _change_policies(actor, name, lambda _: changes)


def set_property(actor: Actor, name: str, key: str, value: str | None) -> str | None:
    """Sets one property of the namespace (None: removes it) and leaves the others. Returns the former value. Raises what
    `set_policies` raises."""
    former: str | None = None

    def changes(held: JsonPolicies) -> JsonPolicies:
        nonlocal former
        properties = dict(held.get("properties", {}))
        former = properties.pop(key, None)
        return {"properties": (properties if value is None else {**properties, key: value}) or None}

    _change_policies(actor, name, changes)
    return former


def _change_policies(actor: Actor, name: str, changes: Callable[[JsonPolicies], JsonPolicies]) -> Namespace:
    """`changes`: made of what is set."""
    tenant, _ = parse_namespace(name)
    require(actor, Action.NAMESPACE_ADMIN, Resource(tenant, name))
    with change(actor) as changing:
        namespace = existing(name)
        before = namespace.policies
        namespace.policies = changed(before, changes(before), inherited=retention_ceilings(namespace.tenant))
        if namespace.policies.get(MASKED) != before.get(MASKED):  # nobody lifts their own masks
            require(actor, Action.CONSUME, Resource(tenant, name))
        if namespace.policies != before:
            namespace.save()
            if namespace.policies.get("properties") != before.get("properties"):
                _remember_labels(namespace)
            changing.audit("namespace.set_policies", tenant, name, {"policies": before}, {"policies": namespace.policies})
        # Told again even if nothing changed: a repeated call heals a broker that missed the first.
        changing.publish_namespace(namespace)
    return namespace


def retention_ceilings(tenant: Tenant) -> JsonPolicies:
    """Those that are set."""
    return {name: tenant.policies[name] for name in RETENTION_CEILINGS if name in tenant.policies}


def delete_namespace(actor: Actor, name: str, force: bool = False, *, recycle: bool = True) -> None:
    """`Conflict` while the namespace has topics; with `force` they go with it, whoever is attached. It goes to the recycle bin,
    where a policy says so, unless `recycle` is False. Raises `DeletionProtected`."""
    tenant, _ = parse_namespace(name)
    require(actor, Action.NAMESPACE_ADMIN, Resource(tenant, name))
    check_namespace(existing(name))
    topics = broker.rpc().call(TOPICS_LIST, TopicsList(namespace=name))
    if not force and without_system_topics([*topics.topics, *topics.partitioned]):
        raise Conflict(f"namespace {name!r} still has topics: delete them first, or use force")
    if recycle and hours_of_namespace(existing(name)):
        _recycle(actor, name, topics)
        return
    if topics.topics or topics.partitioned:
        actor.check_conditions()  # before anything is gone
    for topic in topics.partitioned:
        _delete_topic(topic, partitioned=True)
    for topic in topics.topics:
        if str(parse_topic(topic).base) not in topics.partitioned:
            _delete_topic(topic, partitioned=False)
    with change(actor) as changing:
        namespace = existing(name)
        check_namespace(namespace)
        before = namespace.policies
        for topic in namespace.topic_policies.values_list("topic", flat=True):
            changing.publish_change("topic", topic, None)
        namespace.delete()
        changing.audit("namespace.delete", tenant, name, {"policies": before})
        changing.publish_change("namespace", name, None)
    with suppress(MagnetarError):  # else the next namespace of this name takes care of it
        broker.rpc().call(NAMESPACES_PURGE, TopicsList(namespace=name))


def _recycle(actor: Actor, name: str, topics: TopicNames) -> None:
    """In one transaction, whatever it holds: its topics stay where they are."""
    with change(actor) as changing:
        namespace = existing(name)
        check_namespace(namespace)
        before = namespace.policies
        counts = {"topics": len(topics.topics), "partitioned_topics": len(topics.partitioned)}
        entry = new_entry(actor, NAMESPACE, namespace, hours_of_namespace(namespace), counts)
        after = {"recycle_id": entry.id, "expires_at": entry.expires_at.isoformat()}
        changing.audit("namespace.delete", namespace.tenant_id, name, {"policies": before}, after)
        take(changing, entry, [namespace])


def _purge(name: str) -> None:
    """A namespace begins empty: a topic that a client made in a former one of its name, while that was deleted, goes now.

    Raises `NotReady`; nothing was changed then."""
    try:
        try:
            broker.rpc().call(NAMESPACES_PURGE, TopicsList(namespace=name))
        except PreconditionFailed:  # the broker missed that the former one was deleted
            feed.confirm(feed.newest_version())
            broker.rpc().call(NAMESPACES_PURGE, TopicsList(namespace=name))
    except NotReady:
        raise NotReady(f"namespace {name!r} was not created because its broker is not responding: try again in a moment") from None


def _remember_labels(namespace: Namespace) -> None:
    labels.remember(namespace.tenant.uid, namespace.name, namespace.policies.get("properties", {}))


def existing(name: str) -> Namespace:
    namespace = Namespace.unscoped.filter(name=name).first()
    if namespace is None:
        raise NotFound(f"namespace {name!r} does not exist")
    return namespace


def _delete_topic(topic: str, *, partitioned: bool) -> None:
    try:
        broker.rpc().call(TOPICS_DELETE, TopicDelete(topic=topic, force=True, partitioned=partitioned))
    except TopicNotFound:
        pass  # gone since it was listed
