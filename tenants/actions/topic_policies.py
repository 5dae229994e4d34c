"""Policies of a topic and of its subscriptions. A partitioned topic has them for all its partitions; they end with the topic."""

from __future__ import annotations

from django.conf import settings as django_settings

from messaging.adminrpc.methods import TOPICS_TIMES
from messaging.adminrpc.topics import TopicsAsked
from messaging.errors import NotAllowed, PreconditionFailed, TopicNotFound
from messaging.permissions.model import Action
from messaging.policies.model import Level
from messaging.policies.validation import JsonPolicies, changed
from messaging.protocol.names import TopicName
from messaging.protocol.system_topics import is_change_events
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import change
from tenants.actions.namespaces import existing, retention_ceilings
from tenants.actions.topics import topic_resource
from tenants.models import Namespace, TopicPolicies

AUDITED_SET = "topic.set_policies"


def topic_policies(topic: TopicName) -> TopicPolicies:
    """What is set on an existing topic; a row that is not stored where nothing is. Callers check permissions. Raises `NotFound`
    for the namespace, `PreconditionFailed` for a partition, `TopicNotFound`, `NotReady`."""
    _check_enabled()
    namespace = existing(str(topic.namespace))
    return _row(topic, namespace, _created_ms(topic))


def set_topic_policies(actor: Actor, topic: TopicName, changes: JsonPolicies, subscription: str = "") -> TopicPolicies:
    """Sets the policies named in `changes` on the topic, or on a subscription of it; a value of None unsets one. Returns when
    loaded topics follow them. Raises what `topic_policies` and `validation.changed` raise."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    _check_enabled()
    _check_ours_to_set(topic)
    existing(str(topic.namespace))
    created = _created_ms(topic)
    with change(actor) as changing:
        namespace = existing(str(topic.namespace))
        row = _row(topic, namespace, created)
        held = row.subscriptions.get(subscription, {}) if subscription else row.policies
        level = Level.SUBSCRIPTION if subscription else Level.TOPIC
        after = changed(held, changes, level, compared(namespace))
        _check_message_size(after)
        if not subscription:
            row.policies = after
        else:
            row.subscriptions = {name: one for name, one in {**row.subscriptions, subscription: after}.items() if one}
        if after != held:
            resource = f"{topic}/{subscription}" if subscription else str(topic)
            changing.audit(AUDITED_SET, topic.tenant, resource, {"policies": held}, {"policies": after})
        # Told again even if nothing changed: a repeated call heals a broker that missed the first.
        changing.publish_topic(row, changed=after != held)
    return row


def remove_topic_policies(actor: Actor, topic: TopicName) -> None:
    """Unsets everything on the topic and its subscriptions. Idempotent: a topic that does not exist has no policies, either.
    Raises `NotFound` for the namespace, and `PreconditionFailed` for a partition."""
    require(actor, Action.TOPIC_ADMIN, topic_resource(topic))
    _check_enabled()
    _check_whole(topic)
    existing(str(topic.namespace))
    with change(actor) as changing:
        row = TopicPolicies.unscoped.filter(topic=str(topic)).first()
        if row is None:
            return
        held: dict[str, object] = {"policies": row.policies, "subscriptions": row.subscriptions}
        row.policies, row.subscriptions = {}, {}
        changing.audit(AUDITED_SET, topic.tenant, str(topic), held, {"policies": {}, "subscriptions": {}})
        changing.publish_topic(row)


def compared(namespace: Namespace) -> JsonPolicies:
    """What is set on the namespace and that values of its topics must not contradict, as with Pulsar; and ceilings."""
    own = {name: namespace.policies[name] for name in ("retention_time_min", "retention_size_mb") if name in namespace.policies}
    return {**own, **retention_ceilings(namespace.tenant)}


def _check_enabled() -> None:
    if not django_settings.MAGNETAR.topic_level_policies_enabled:
        raise NotAllowed("policies of topics are disabled: turn on topic_level_policies_enabled, or set them on the namespace")


def _check_ours_to_set(topic: TopicName) -> None:
    if is_change_events(str(topic)):
        raise NotAllowed(f"topic {topic} belongs to the platform: its policies are fixed, so that no event is lost")


def _check_message_size(policies: JsonPolicies) -> None:
    size, most = policies.get("max_message_size_bytes", 0), django_settings.MAGNETAR.message_bytes_max
    if size > most:
        raise PreconditionFailed(f"policy max_message_size_bytes cannot be {size}: the broker's message_bytes_max is {most}")


def _check_whole(topic: TopicName) -> None:
    if topic.partition >= 0:
        raise PreconditionFailed(f"topic {topic} is a partition: policies are set on the partitioned topic, {topic.base}")


def _created_ms(topic: TopicName) -> int:
    _check_whole(topic)
    found = broker.rpc().call(TOPICS_TIMES, TopicsAsked(topics=[str(topic)])).created_ms.get(str(topic))
    if found is None:
        raise TopicNotFound(f"topic {topic} does not exist")
    return found


def _row(topic: TopicName, namespace: Namespace, created: int) -> TopicPolicies:
    row = TopicPolicies.unscoped.filter(topic=str(topic)).first()
    if row is None or row.created_ms != created:  # of a former topic of this name
        before_bytes = row.state_bytes if row is not None else 0
        return TopicPolicies(topic=str(topic), namespace=namespace, created_ms=created, state_bytes=before_bytes)
    return row
