"""Stats of non-persistent topics: the messages that were dropped. The counters (not the rates) are ours."""

from __future__ import annotations

from typing import Any

from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.member_rates import MemberRates
from messaging.broker.runtime.topics.non_persistent import NonPersistentTopic
from messaging.broker.runtime.topics.topic import Topic

Figures = dict[str, Any]


def drops_of_topic(topic: Topic, drop_rate: float) -> Figures:
    """`drop_rate`: of the subscriptions that it has now. Empty for a topic that keeps its messages, like the others."""
    if not isinstance(topic, NonPersistentTopic):
        return {}
    return {"msgDropRate": drop_rate, "msgDropCounter": topic.messages_dropped}


def drops_of_producer(topic: Topic) -> Figures:
    """0: a message is dropped by subscriptions only, not when it comes from its producer."""
    return {} if topic.keeps_messages else {"msgDropRate": 0.0}


def drops_of_subscription(topic: Topic, subscription: Subscription, members: MemberRates) -> Figures:
    if topic.keeps_messages:
        return {}
    return {
        "msgDropRate": members.of_subscription(subscription).messages_dropped,
        "msgDropCounter": subscription.messages_dropped,
    }
