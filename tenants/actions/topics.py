"""Topics. The broker stores them; these actions check permissions, call the broker and write the audit log."""

from __future__ import annotations

from collections.abc import Callable

from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.methods import TOPICS_CREATE, TOPICS_DELETE, TOPICS_TIMES
from messaging.adminrpc.topics import TopicCreate, TopicDelete, TopicsAsked
from messaging.errors import InvalidName, NotAllowed
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import PERSISTENT, TopicName, parse_topic
from messaging.protocol.system_topics import is_change_events
from tenants import broker
from tenants.access import Actor, platform_actor, require
from tenants.actions.change import change, record
from tenants.actions.namespaces import existing
from tenants.actions.protection import check_topic
from tenants.models import TopicPolicies

TOPICS_AT_ONCE = 500  # of a question to the broker


def topic_resource(topic: TopicName, subscription: str = "") -> Resource:
    return Resource(topic.tenant, str(topic.namespace), str(topic), subscription)


def create_topic(actor: Actor, topic: TopicName, partitions: int | None = None, properties: dict[str, str] | None = None) -> None:
    """`partitions` None: a plain topic. Raises `NotFound` for the namespace, `Conflict`, `InvalidName`, `NotReady`."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    existing(str(topic.namespace))
    if partitions is not None and topic.partition >= 0:
        raise InvalidName(f"topic {topic} has the name of a partition: choose a name that does not end with -partition-<number>")
    if partitions is not None and is_change_events(str(topic)):
        raise NotAllowed(f"topic {topic} belongs to the platform, which makes it without partitions when the first policy changes")
    broker.rpc().call(TOPICS_CREATE, TopicCreate(topic=str(topic), partitions=partitions, properties=properties or {}))
    record(actor, "topic.create", topic.tenant, str(topic), after={"partitions": partitions})


def delete_topic(actor: Actor, topic: TopicName, *, force: bool = False, partitioned: bool = False) -> None:
    """It goes to the recycle bin, where a policy says so. Raises `TopicNotFound`, `DeletionProtected`, `NotReady`,
    `PreconditionFailed` where the bin is full and, without `force`, while clients are connected."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    check_topic(topic)
    own = TopicPolicies.unscoped.filter(topic=str(topic)).first()
    deletion = TopicDelete(
        topic=str(topic),
        force=force,
        partitioned=partitioned,
        recycle=True,
        deleted_by=actor.principal.role,
        policies={} if own is None else own.policies,
        subscription_policies={} if own is None else own.subscriptions,
    )
    recycle_id = broker.rpc().call(TOPICS_DELETE, deletion).recycle_id
    forget_topic_policies(topic)
    after = {"force": force, "recycle_id": recycle_id} if recycle_id else {"force": force}
    record(actor, "topic.delete", topic.tenant, str(topic), {"partitioned": partitioned}, after)


def forget_topic_policies(topic: TopicName, created_ms: int | None = None) -> bool:
    """The topic is gone: the one that was created then, if given. The broker need not confirm it: nothing is left that would
    follow. Returns whether it had any."""
    rows = TopicPolicies.unscoped.filter(topic=str(topic))
    if created_ms is not None:
        rows = rows.filter(created_ms=created_ms)
    if topic.partition >= 0 or not rows.exists():
        return False
    with change(platform_actor(), must_confirm=False) as changing:
        namespace = rows.values_list("namespace_id", flat=True).first()
        if namespace is None:
            return False
        rows.delete()
        changing.owe_event(namespace, str(topic), None)
        changing.publish_change("topic", str(topic), None)
    return True


def forget_policies_of_gone_topics(rpc: TypedCalls, renew: Callable[[], None]) -> int:
    """Removes the policies of topics that the broker deleted by itself, and of former topics of a name. Returns of how many. Raises
    `NotReady`. A topic that keeps nothing exists only while it is used, so its policies stay."""
    gone, after = 0, ""
    persistent = TopicPolicies.unscoped.filter(topic__startswith=f"{PERSISTENT}://").order_by("topic")
    while rows := dict(persistent.filter(topic__gt=after).values_list("topic", "created_ms")[:TOPICS_AT_ONCE]):
        renew()
        after = max(rows)
        times = rpc.call(TOPICS_TIMES, TopicsAsked(topics=list(rows))).created_ms
        for topic, created_ms in rows.items():
            if times.get(topic) != created_ms:
                gone += forget_topic_policies(parse_topic(topic), created_ms)
    return gone
