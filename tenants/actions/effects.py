"""What destructive changes would do: they only read, and raise what the change itself would raise."""

from __future__ import annotations

import time
from typing import Any

from messaging.adminrpc.methods import RECYCLE_BIN_LIST, TOPICS_LIST, TOPICS_PARTITIONED_STATS, TOPICS_STATS
from messaging.adminrpc.recycle_bin import RecycleBinList
from messaging.adminrpc.recycle_bin import Recycled as RecycledTopic
from messaging.adminrpc.topics import StatsAsked, TopicsList
from messaging.errors import Conflict, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName, parse_namespace
from messaging.protocol.system_topics import without_system_topics
from tenants import broker
from tenants.access import Actor, require
from tenants.actions import protection
from tenants.actions.namespaces import existing
from tenants.actions.recycling import hours_of_namespace, hours_of_tenant
from tenants.actions.topics import topic_resource
from tenants.models import Grant, Key, Namespace, Recycled, Tenant
from tenants.scoping import tenant_scope

Counts = dict[str, int]
PAGE_TOPICS = 1_000


def topic_counts(topic: TopicName, partitions: int) -> Counts:
    """What a topic has. Raises `TopicNotFound`, `NotReady`."""
    asked = StatsAsked(topic=str(topic))
    method = TOPICS_PARTITIONED_STATS if partitions else TOPICS_STATS
    stats = broker.rpc().call(method, asked).stats
    subscriptions: dict[str, Any] = stats.get("subscriptions") or {}
    return {
        "partitions": partitions,
        "producers": len(stats.get("publishers") or ()),
        "subscriptions": len(subscriptions),
        "consumers": sum(len(each.get("consumers") or ()) for each in subscriptions.values()),
        "backlog_entries": sum(each.get("msgBacklog") or 0 for each in subscriptions.values()),
        "storage_bytes": stats.get("storageSize") or 0,
    }


def deleted_topic(actor: Actor, topic: TopicName, partitions: int, *, force: bool) -> Counts:
    """Raises `PreconditionFailed` while clients are connected, without `force`."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    protection.check_topic(topic)
    counts = topic_counts(topic, partitions)
    if not force and counts["producers"] + counts["consumers"]:
        raise PreconditionFailed(f"topic {topic} has connected producers or consumers: close them, or delete with force")
    return counts


def deleted_namespace(actor: Actor, name: str, *, force: bool) -> Counts:
    tenant, _ = parse_namespace(name)
    require(actor, Action.NAMESPACE_ADMIN, Resource(tenant, name))
    namespace = existing(name)
    protection.check_namespace(namespace)
    names = broker.rpc().call(TOPICS_LIST, TopicsList(namespace=name))
    if not force and without_system_topics([*names.topics, *names.partitioned]):
        raise Conflict(f"namespace {name!r} still has topics: delete them first, or use force")
    with tenant_scope(tenant):
        grants = Grant.objects.filter(namespace=namespace).count()
    counts = {"topics": len(names.topics), "partitioned_topics": len(names.partitioned), "grants": grants}
    return {**counts, "recycled_topics": len(_recycled_topics(name)), **_kept(hours_of_namespace(namespace))}


def _recycled_topics(namespace: str) -> list[RecycledTopic]:
    """What lies in its recycle bin goes with it."""
    listed: list[RecycledTopic] = []
    after = ""
    while True:
        page = broker.rpc().call(RECYCLE_BIN_LIST, RecycleBinList(namespace=namespace, after_id=after, limit=PAGE_TOPICS))
        listed += page.items
        after = page.next_after
        if not after:
            return listed


def _kept(hours: int) -> Counts:
    """For how long it can be restored, and until when, in milliseconds since 1970, if it is deleted now; 0: not at all."""
    until_ms = int(time.time() * 1000) + hours * 3_600_000 if hours else 0
    return {"recycle_bin_retention_hours": hours, "restorable_until_ms": until_ms}


def deleted_tenant(actor: Actor, name: str, *, force: bool) -> Counts:
    require(actor, Action.SUPERUSER)
    with tenant_scope(name):
        if not Tenant.objects.exists():
            raise NotFound(f"tenant {name!r} does not exist")
        protection.check_tenant(Tenant.objects.get())
        namespaces = list(Namespace.objects.values_list("name", flat=True))
        keys = Key.objects.filter(revoked_at=None).count()
        hours = hours_of_tenant(Tenant.objects.get())
        in_bin = Recycled.objects.filter(kind="namespace", purging=False).count()
    if namespaces and not force:
        raise Conflict(f"tenant {name!r} still has namespaces: delete them first, or use force")
    topics = sum(len(broker.rpc().call(TOPICS_LIST, TopicsList(namespace=each)).topics) for each in namespaces)
    counts = {"namespaces": len(namespaces), "topics": topics, "keys": keys, "recycled_namespaces": in_bin}
    return {**counts, "recycled_topics": sum(len(_recycled_topics(each)) for each in namespaces), **_kept(hours)}


def revoked_key(actor: Actor, tenant: str, key_id: str) -> Key:
    """The key as it is: it is not revoked."""
    require(actor, Action.KEY_ADMIN, Resource(tenant))
    with tenant_scope(tenant):
        key = Key.objects.filter(id=key_id).first()
    if key is None:
        raise NotFound(f"key {key_id[:64]!r} does not exist")
    return key


def revoked_permission(actor: Actor, namespace: str, role: str, topic: str = "") -> Counts:
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.GRANT_ADMIN, Resource(tenant, namespace))
    row = existing(namespace)
    with tenant_scope(tenant):
        return {"grants": Grant.objects.filter(namespace=row, role=role, topic=topic).count()}
