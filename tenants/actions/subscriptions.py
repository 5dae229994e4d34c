"""Dead-letter policies of subscriptions. The broker stores them; these actions check permissions and write the audit log."""

from __future__ import annotations

from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
)
from messaging.adminrpc.subscriptions import DeadLetterPolicyAnswer, DeadLetterPolicySet, SubscriptionRef
from messaging.errors import InvalidValue, NotAllowed, NotFound
from messaging.permissions.model import USER_ROLE_PREFIX, Action, tenant_role
from messaging.protocol.names import TopicName, parse_topic
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.actions.namespaces import existing
from tenants.actions.topics import topic_resource

AUDITED_SET, AUDITED_REMOVED = "subscription.set_dead_letter_policy", "subscription.remove_dead_letter_policy"


def dead_letter_policy(actor: Actor, topic: TopicName, subscription: str) -> DeadLetterPolicyAnswer:
    """Raises `NotFound` if the subscription has none, `SubscriptionNotFound`, `NotReady`."""
    require(actor, Action.CONSUME, topic_resource(topic, subscription))
    found = broker.rpc().call(SUBSCRIPTIONS_DEAD_LETTER_POLICY, SubscriptionRef(topic=str(topic), subscription=subscription))
    if not found.target:
        raise NotFound(f"subscription {subscription!r} of {topic} has no dead-letter policy")
    return found


def set_dead_letter_policy(
    actor: Actor,
    topic: TopicName,
    subscription: str,
    *,
    max_redeliver_count: int,
    target: str = "",
    initial_subscription: str = "",
) -> DeadLetterPolicyAnswer:
    """`target` "": beside the topic, with Pulsar's name. The broker publishes to it on behalf of the actor: if the permission is
    missing now, this is refused; if it ends later, at either end, nothing is moved. Raises `NotAuthorized`, `NotAllowed` for
    a person and a target of another tenant, `InvalidValue`, `SubscriptionNotFound`, `NotReady`."""
    if target and "://" not in target:
        raise InvalidValue(f"target {target[:80]!r} is not the full name of a topic: use persistent://tenant/namespace/topic")
    require(actor, Action.CONSUME, topic_resource(topic, subscription))
    base = topic.base if topic.partition >= 0 else topic
    goal = parse_topic(target or f"{base}-{subscription}-DLQ")
    require(actor, Action.PRODUCE, topic_resource(goal))
    if initial_subscription:
        require(actor, Action.CONSUME, topic_resource(goal, initial_subscription))
    existing(str(goal.namespace))
    person = actor.principal.role.startswith(USER_ROLE_PREFIX)  # the broker knows no people, only what their tenants are
    if person and goal.tenant != topic.tenant:  # it would act as that tenant, which could not take the right back
        raise NotAllowed(f"{goal} is of another tenant: set this policy with a key that may produce there")
    answer = broker.rpc().call(
        SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
        DeadLetterPolicySet(
            topic=str(topic),
            subscription=subscription,
            max_redeliver_count=max_redeliver_count,
            target=str(goal),
            initial_subscription=initial_subscription,
            owner=tenant_role(goal.tenant) if person else actor.principal.role,
        ),
    )
    after = {"max_redeliver_count": max_redeliver_count, "target": str(goal), "initial_subscription": initial_subscription}
    record(actor, AUDITED_SET, topic.tenant, f"{topic}/{subscription}", after=after)
    return answer


def remove_dead_letter_policy(actor: Actor, topic: TopicName, subscription: str) -> None:
    """What waited to be moved is delivered again. Does nothing if there is none. Raises `SubscriptionNotFound`, `NotReady`."""
    require(actor, Action.CONSUME, topic_resource(topic, subscription))
    broker.rpc().call(SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY, SubscriptionRef(topic=str(topic), subscription=subscription))
    record(actor, AUDITED_REMOVED, topic.tenant, f"{topic}/{subscription}")
