"""Admin RPC: the dead-letter policy of a subscription. On a partitioned topic each call acts on every partition."""

from __future__ import annotations

from messaging.adminrpc.base import Empty
from messaging.adminrpc.methods import (
    SUBSCRIPTIONS_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY,
    SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY,
)
from messaging.adminrpc.subscriptions import DeadLetterPolicyAnswer, DeadLetterPolicySet, SubscriptionRef
from messaging.broker.core.dead_letters.dead_entries import default_target
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import parts_of, topic_name
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.errors import InvalidValue, NotAllowed, SubscriptionNotFound
from messaging.protocol.names import TopicName, parse_topic, subscription_name


class DeadLetterHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(SUBSCRIPTIONS_DEAD_LETTER_POLICY)
    async def get(self, request: SubscriptionRef) -> DeadLetterPolicyAnswer:
        _, topics = await self._topics(request.topic, request.subscription)
        return _answer(topics, request.subscription)

    @answers(SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY)
    async def set(self, request: DeadLetterPolicySet) -> DeadLetterPolicyAnswer:
        name, topics = await self._topics(request.topic, request.subscription)
        base = name.base if name.partition >= 0 else name
        target = parse_topic(request.target or default_target(str(base), request.subscription))
        if target.partition >= 0 or not target.persistent:
            raise InvalidValue(f"{target} cannot be the target of dead letters: use a persistent topic, not one of its partitions")
        if str(target) == str(base):
            raise InvalidValue(f"{target} cannot be the target of its own dead letters: use another topic")
        if request.initial_subscription:
            subscription_name(request.initial_subscription)
        for topic in topics:
            await self._broker.dead_letters.set_policy(
                topic,
                topic.subscriptions.named(request.subscription),
                max_redeliver_count=request.max_redeliver_count,
                target=str(target),
                initial=request.initial_subscription,
                owner=request.owner,
            )
        return _answer(topics, request.subscription)

    @answers(SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY)
    async def remove(self, request: SubscriptionRef) -> Empty:
        _, topics = await self._topics(request.topic, request.subscription)
        for topic in topics:
            await self._broker.dead_letters.remove_policy(topic, topic.subscriptions.named(request.subscription))
        return Empty()

    async def _topics(self, text: str, subscription: str) -> tuple[TopicName, list[PersistentTopic]]:
        """Those that have the subscription. Raises `SubscriptionNotFound`, `NotAllowed` for one that is not durable."""
        name = await topic_name(self._broker, text)
        parts = await parts_of(self._broker, name)
        topics = [await self._broker.topics.get_persistent(part, create=parts.partitioned) for part in parts.names]
        having = [topic for topic in topics if topic.subscriptions.find(subscription) is not None]
        if not having:
            raise SubscriptionNotFound(f"topic {name} has no subscription {subscription!r}")
        if not all(topic.subscriptions.named(subscription).durable for topic in having):
            raise NotAllowed(f"subscription {subscription!r} is not durable: it ends with its consumers, and keeps no policy")
        return name, having


def _answer(topics: list[PersistentTopic], subscription: str) -> DeadLetterPolicyAnswer:
    subscriptions = [topic.subscriptions.named(subscription) for topic in topics]
    letters = [each.dead_letters for each in subscriptions if each.dead_letters is not None]
    if not letters:
        return DeadLetterPolicyAnswer()
    policy = letters[0].policy
    return DeadLetterPolicyAnswer(
        max_redeliver_count=policy.max_redeliver_count,
        target=policy.target,
        initial_subscription=policy.initial_subscription,
        owner=policy.owner,
        waiting_entries=sum(each.state.redeliveries.dead_entries for each in subscriptions),
        moved_messages=sum(letter.moved_messages for letter in letters),
        last_error=next((letter.last_error for letter in letters if letter.last_error), ""),
    )
