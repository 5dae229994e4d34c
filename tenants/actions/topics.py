"""Topics. The broker stores them; these actions check permissions, call the broker and write the audit log."""

from __future__ import annotations

from messaging.adminrpc.schema import TopicCreate, TopicDelete, TopicRef
from messaging.errors import InvalidName
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName
from tenants import broker
from tenants.access import Actor, platform_actor, require
from tenants.actions.change import change, record
from tenants.actions.namespaces import existing
from tenants.models import TopicPolicies


def topic_resource(topic: TopicName, subscription: str = "") -> Resource:
    return Resource(topic.tenant, str(topic.namespace), str(topic), subscription)


def create_topic(actor: Actor, topic: TopicName, partitions: int | None = None, properties: dict[str, str] | None = None) -> None:
    """`partitions` None: a plain topic. Raises `NotFound` for the namespace, `Conflict`, `InvalidName`, `NotReady`."""
    require(actor, Action.TENANT_ADMIN, topic_resource(topic))
    existing(str(topic.namespace))
    if partitions is not None and topic.partition >= 0:
        raise InvalidName(f"topic {topic} has the name of a partition: choose a name that does not end with -partition-<number>")
    broker.rpc().call("topics.create", TopicCreate(topic=str(topic), partitions=partitions, properties=properties or {}))
    record(actor, "topic.create", topic.tenant, str(topic), after={"partitions": partitions})


def delete_topic(actor: Actor, topic: TopicName, *, force: bool = False, partitioned: bool = False) -> None:
    """Raises `TopicNotFound`, `PreconditionFailed` while clients are connected (without `force`), `NotReady`."""
    require(actor, Action.TENANT_ADMIN, topic_resource(topic))
    broker.rpc().call("topics.delete", TopicDelete(topic=str(topic), force=force, partitioned=partitioned))
    forget_topic_policies(topic)
    record(actor, "topic.delete", topic.tenant, str(topic), {"partitioned": partitioned}, {"force": force})


def forget_topic_policies(topic: TopicName) -> None:
    """The topic is gone. The broker need not confirm it: nothing is left that would follow."""
    if topic.partition >= 0 or not TopicPolicies.unscoped.filter(topic=str(topic)).exists():
        return
    with change(platform_actor(), must_confirm=False) as changing:
        if TopicPolicies.unscoped.filter(topic=str(topic)).delete()[0]:
            changing.publish_change("topic", str(topic), None)


def truncate_topic(actor: Actor, topic: TopicName) -> None:
    """Drops every message, acknowledged or not, of all partitions; clients stay connected. Raises `TopicNotFound`, `NotReady`."""
    require(actor, Action.TENANT_ADMIN, topic_resource(topic))
    broker.rpc().call("topics.truncate", TopicRef(topic=str(topic)))
    record(actor, "topic.truncate", topic.tenant, str(topic))
