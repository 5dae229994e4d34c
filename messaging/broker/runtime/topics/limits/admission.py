"""Checks whether the policies of a namespace allow another producer, consumer or subscription on a topic. 0 means no limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from messaging.broker.core.limits.subscribe_rates import ConsumerIdentity, SubscribeRates
from messaging.broker.core.producers.producer import Producer
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import TYPE_NAMES, SubscriptionType
from messaging.broker.runtime.topics.loaded_topic import LoadedTopic
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import (
    ConsumerBusy,
    EncryptionRequired,
    NotAllowed,
    PreconditionFailed,
    ProducerBusy,
    QuotaExceeded,
    SubscriptionNotFound,
)
from messaging.policies.texts import counted
from messaging.protocol.names import TopicName

Policy = Callable[[str, TopicName], Any]  # the effective value of a policy for a topic


class _Limit(NamedTuple):
    """`text`: for messages."""

    most: int
    text: str


def _limit(topic: TopicContext, policy: str) -> _Limit:
    value, level = topic.services.policies.resolved(policy, topic.name)
    return _Limit(value, f"{policy} = {value}, set on the {level}")


def check_producer(topic: TopicContext, name: str) -> None:
    """Raises `ProducerBusy`. A producer that replaces another of the same name does not count twice."""
    limit = _limit(topic, "max_producers_per_topic")
    if limit.most and (count := len(topic.producers)) >= limit.most and topic.producers.table.get(name) is None:
        raise ProducerBusy(
            f"topic {topic.text} has {counted(count, 'producer')}, which is {limit.text}: close one, or raise it there"
        )


def check_spend_cap(topic: TopicContext) -> None:
    """For a client that is to publish; what the broker itself moves, such as dead letters, goes on, so that consumers can drain.
    Raises `QuotaExceeded`."""
    if why := topic.services.policies.publishing_stopped(topic.name):
        raise QuotaExceeded(why)


def check_encryption(policy: Policy, topic: LoadedTopic, producer: Producer) -> None:
    """Raises `EncryptionRequired`. The messages of a producer that says it encrypts are checked one by one."""
    if not producer.encrypted and policy("encryption_required", topic.name):
        raise EncryptionRequired(
            f"encryption_required is set for topic {topic.text}, and producer {producer.name!r} does not encrypt its messages: "
            f"open it with encryption keys"
        )


def check_consumer(topic: TopicContext, subscription: Subscription, kind: SubscriptionType) -> None:
    """Raises `NotAllowed`, `ConsumerBusy`."""
    types, level = topic.services.policies.resolved("subscription_types", topic.name)
    if types and TYPE_NAMES[kind] not in types:
        raise NotAllowed(
            f"subscription_types, set on the {level}, allow only {', '.join(types)}, not {TYPE_NAMES[kind]}: use one of those"
        )
    limit = _limit(topic, "max_consumers_per_subscription")
    if limit.most and (count := len(subscription.consumers)) >= limit.most:
        consumers = counted(count, "consumer")
        raise ConsumerBusy(
            f"subscription {subscription.name!r} has {consumers}, which is {limit.text}: close one, or raise it there"
        )
    limit = _limit(topic, "max_consumers_per_topic")
    if (
        limit.most
        and (count := sum(len(subscription.consumers) for subscription in topic.subscriptions.table.values())) >= limit.most
    ):
        raise ConsumerBusy(
            f"topic {topic.text} has {counted(count, 'consumer')}, which is {limit.text}: close one, or raise it there"
        )


def check_subscribe_rate(
    policy: Policy, topic: LoadedTopic, rates: SubscribeRates, consumer: ConsumerIdentity, now_ms: int
) -> None:
    """Counts that a client subscribes. Raises `NotAllowed` if it does so too often."""
    limit = policy("subscribe_rate_per_consumer", topic.name)
    if limit <= 0:
        return
    period_s = policy("subscribe_rate_period_s", topic.name)
    wait_ms = rates.take(topic.text, consumer, limit, period_s, now_ms)
    if wait_ms:
        raise NotAllowed(
            f"consumer {consumer.name!r} subscribed to {topic.text} more often than subscribe_rate_per_consumer = {limit} in "
            f"{period_s} s: try again in {wait_ms} ms"
        )


def check_durable_subscription(topic: TopicContext, being_created: int) -> None:
    """Raises `PreconditionFailed`."""
    limit, subscriptions = _limit(topic, "max_subscriptions_per_topic"), topic.subscriptions.table.values()
    if limit.most and (count := sum(subscription.durable for subscription in subscriptions) + being_created) >= limit.most:
        there = counted(count, "subscription")
        raise PreconditionFailed(f"topic {topic.text} has {there}, which is {limit.text}: delete an unused one, or raise it there")


def check_subscription_count(topic: TopicContext) -> None:
    """For a topic without durable subscriptions: all of them count. Raises `PreconditionFailed`."""
    limit = _limit(topic, "max_subscriptions_per_topic")
    if limit.most and (count := len(topic.subscriptions.table)) >= limit.most:
        raise PreconditionFailed(
            f"topic {topic.text} has {counted(count, 'subscription')}, which is {limit.text}: close one, or raise it there"
        )


def check_creation_by_use(policy: Policy, topic: LoadedTopic, name: str) -> None:
    """Checks whether using a durable subscription that does not exist may create it. Raises `SubscriptionNotFound`."""
    if not policy("auto_subscription_creation", topic.name):
        raise SubscriptionNotFound(
            f"topic {topic.text} has no subscription {name!r}, and auto_subscription_creation is off: create it first"
        )
