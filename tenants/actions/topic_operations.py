"""What is done to a whole topic. The broker does it; these actions check permissions and write the audit log."""

from __future__ import annotations

from messaging.adminrpc.methods import (
    TOPICS_COMPACT,
    TOPICS_PARTITIONS,
    TOPICS_TERMINATE,
    TOPICS_TERMINATE_PARTITIONS,
    TOPICS_TRIM,
    TOPICS_TRUNCATE,
    TOPICS_UNLOAD,
    TOPICS_UPDATE_PARTITIONS,
)
from messaging.adminrpc.topics import PartitionsGet, PartitionsUpdate, TopicRef
from messaging.errors import InvalidValue
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants import broker, maintenance_requests
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.actions.topics import topic_resource


def unload_topic(actor: Actor, topic: TopicName) -> None:
    """Its clients connect again, and it is loaded anew. Raises `TopicNotFound`, `NotReady`."""
    require(actor, Action.OPERATE, topic_resource(topic))
    broker.rpc().call(TOPICS_UNLOAD, TopicRef(topic=str(topic)))
    record(actor, "topic.unload", topic.tenant, str(topic))


def terminate_topic(actor: Actor, topic: TopicName) -> None:
    """Of a partitioned topic, every partition: nothing can be published any more, ever. Raises `TopicNotFound`, `NotAcceptable`,
    `NotReady`."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    asked = TopicRef(topic=str(topic))
    if partition_count(topic):
        last = broker.rpc().call(TOPICS_TERMINATE_PARTITIONS, asked).last
    else:
        last = [broker.rpc().call(TOPICS_TERMINATE, asked)]
    after = {"last_message_ids": [f"{each.ledger_id}:{each.entry_id}" for each in last]}
    record(actor, "topic.terminate", topic.tenant, str(topic), after=after)


def grow_topic(actor: Actor, topic: TopicName, partitions: int) -> None:
    """Gives a partitioned topic more partitions; none is taken away, ever. Raises `InvalidValue`, `TopicNotFound`, `NotReady`."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    before = partition_count(topic)
    if not before:
        raise InvalidValue(f"topic {topic} is not partitioned: create another one with partitions")
    broker.rpc().call(TOPICS_UPDATE_PARTITIONS, PartitionsUpdate(topic=str(topic), partitions=partitions))
    record(actor, "topic.grow", topic.tenant, str(topic), {"partitions": before}, {"partitions": partitions})


def truncate_topic(actor: Actor, topic: TopicName) -> None:
    """Drops every message, acknowledged or not, of all partitions; clients stay connected. Raises `TopicNotFound`, `NotReady`."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    broker.rpc().call(TOPICS_TRUNCATE, TopicRef(topic=str(topic)))
    record(actor, "topic.truncate", topic.tenant, str(topic))


def trim_topic(actor: Actor, topic: TopicName) -> None:
    """Deletes what retention does not hold, of all partitions. Raises `TopicNotFound`, `NotAllowed`, `NotReady`."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    broker.rpc().call(TOPICS_TRIM, TopicRef(topic=str(topic)))
    record(actor, "topic.trim", topic.tenant, str(topic))


def compact_topic(actor: Actor, topic: TopicName) -> None:
    """Asks workers to compact it, of a partitioned topic each partition. Raises `TopicNotFound`, `Conflict`, `NotReady`."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    broker.rpc().call(TOPICS_COMPACT, TopicRef(topic=str(topic)))
    record(actor, "topic.compact", topic.tenant, str(topic))
    maintenance_requests.requested(maintenance_requests.COMPACTION)


def partition_count(topic: TopicName) -> int:
    """0: it is not partitioned. Raises `TopicNotFound`, `NotReady`."""
    return broker.rpc().call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic))).partitions
