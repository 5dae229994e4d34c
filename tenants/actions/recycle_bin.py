"""Deleted topics in the recycle bin. The broker keeps them; these actions check permissions and bring their policies back."""

from __future__ import annotations

from messaging.adminrpc.methods import RECYCLE_BIN_GET, RECYCLE_BIN_LIST, RECYCLE_BIN_PURGE, RECYCLE_BIN_RESTORE, TOPICS_TIMES
from messaging.adminrpc.recycle_bin import RecycleBinList, Recycled, RecycledAnswer, RecycledPage, RecycledRef
from messaging.adminrpc.topics import TopicsAsked
from messaging.errors import Conflict, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.policies.resolution import resolve_policy
from messaging.protocol.names import TopicName, parse_namespace, parse_topic
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import change, record
from tenants.actions.namespaces import existing
from tenants.actions.policy_views import levels_of_namespace
from tenants.actions.topics import forget_topic_policies, topic_resource
from tenants.broker_settings import policy_defaults
from tenants.models import Namespace, TopicPolicies

POLICY = "recycle_bin_retention_hours"
ID_LENGTH_MAX = 64


def retention_hours(topic: TopicName) -> int:
    """How long the topic stays in the bin if it is deleted now; 0: it does not go there."""
    namespace = Namespace.unscoped.filter(name=str(topic.namespace)).select_related("tenant").first()
    if namespace is None or not topic.persistent:
        return 0
    return int(resolve_policy(POLICY, levels_of_namespace(namespace), policy_defaults()).value)


def recycled_topics(actor: Actor, namespace: str, *, after: str = "", limit: int = 100) -> RecycledPage:
    """Raises `NotFound` for the namespace, `NotReady`."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.NAMESPACE_READ, Resource(tenant, namespace))
    existing(namespace)
    return broker.rpc().call(RECYCLE_BIN_LIST, RecycleBinList(namespace=namespace, after_id=after, limit=limit))


def recycled_topic(actor: Actor, namespace: str, recycle_id: str) -> Recycled:
    """Raises `NotFound`, `NotReady`."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.NAMESPACE_READ, Resource(tenant, namespace))
    existing(namespace)
    return _get(namespace, recycle_id).recycled


def check_change(actor: Actor, namespace: str, recycle_id: str) -> RecycledAnswer:
    """What `actor` may restore or purge. Raises `NotAuthorized`, `NotFound`, `NotReady`."""
    tenant, _ = parse_namespace(namespace)
    require(actor, Action.TOPIC_ADMIN, Resource(tenant, namespace))
    existing(namespace)
    kept = _get(namespace, recycle_id)
    require(actor, Action.TOPIC_ADMIN, topic_resource(parse_topic(kept.recycled.topic)))
    return kept


def check_name_is_free(kept: RecycledAnswer) -> None:
    """Raises `Conflict` where another topic has the name. One that is coming back already is the same."""
    if _created_ms(kept.recycled.topic) not in (None, kept.created_ms):
        raise Conflict(f"topic {kept.recycled.topic} exists: delete it, then restore the one from the recycle bin")


def _created_ms(topic: str) -> int | None:
    return broker.rpc().call(TOPICS_TIMES, TopicsAsked(topics=[topic])).created_ms.get(topic)


def restore_topic(actor: Actor, namespace: str, recycle_id: str) -> Recycled:
    """The topic is there again, with its messages, subscriptions, schema, properties and policies. Calling again finishes what was
    cut off. Raises `NotFound`, `Conflict`, `PreconditionFailed` where there may be no more topics, `NotReady`."""
    kept = check_change(actor, namespace, recycle_id)
    topic = parse_topic(kept.recycled.topic)
    actor.check_conditions()
    check_name_is_free(kept)
    # Policies first: what is cut off leaves those of a topic that does not exist, which the workers forget, and they hold as soon
    # as the first client comes.
    _set_policies(actor, namespace, kept)
    try:
        broker.rpc().call(RECYCLE_BIN_RESTORE, RecycledRef(namespace=namespace, recycle_id=recycle_id))
    except (Conflict, NotFound, PreconditionFailed):
        _forget_policies(topic, kept)
        raise
    record(actor, "topic.restore", topic.tenant, str(topic), {"recycle_id": recycle_id}, {"partitions": kept.recycled.partitions})
    return kept.recycled


def purge_topic(actor: Actor, namespace: str, recycle_id: str) -> None:
    """Deletes it for good. Raises `NotFound`, `Conflict` while it is being restored, `NotReady`."""
    kept = check_change(actor, namespace, recycle_id)
    topic = parse_topic(kept.recycled.topic)
    actor.check_conditions()
    broker.rpc().call(RECYCLE_BIN_PURGE, RecycledRef(namespace=namespace, recycle_id=recycle_id))
    record(actor, "topic.purge", topic.tenant, str(topic), {"recycle_id": recycle_id})


def _get(namespace: str, recycle_id: str) -> RecycledAnswer:
    if not recycle_id.isascii() or len(recycle_id) > ID_LENGTH_MAX:
        raise NotFound(f"the recycle bin of namespace {namespace} has nothing with this id")
    return broker.rpc().call(RECYCLE_BIN_GET, RecycledRef(namespace=namespace, recycle_id=recycle_id))


def _set_policies(actor: Actor, namespace: str, kept: RecycledAnswer) -> None:
    if not kept.policies and not kept.subscription_policies:
        return
    with change(actor, must_confirm=False) as changing:
        row = TopicPolicies.unscoped.filter(topic=kept.recycled.topic).first() or TopicPolicies(topic=kept.recycled.topic)
        row.namespace, row.created_ms = existing(namespace), kept.created_ms
        row.policies, row.subscriptions = kept.policies, kept.subscription_policies
        changing.publish_topic(row)


def _forget_policies(topic: TopicName, kept: RecycledAnswer) -> None:
    """Unless the topic is there: somebody else restored it meanwhile. Those of another topic of its name stay in any case."""
    if _created_ms(str(topic)) != kept.created_ms:
        forget_topic_policies(topic, kept.created_ms)
