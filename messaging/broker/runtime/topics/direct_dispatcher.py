"""Producers to consumers without storage in between: the dispatcher of a non-persistent topic."""

from __future__ import annotations

from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.dispatcher import Dispatcher
from messaging.broker.runtime.topics.topic_context import TopicContext


class DirectDispatcher(Dispatcher):
    """Dispatch rates do not apply: nothing is kept that could wait for them."""

    __slots__ = ("messages_dropped",)

    def __init__(self, topic: TopicContext) -> None:
        super().__init__(topic)
        self.messages_dropped = 0  # by all subscriptions, also those that ended

    def send_now(self, subscription: Subscription, block: EntryBlock) -> None:
        """Sends a block as far as consumers can take it; the rest is dropped. Never raises."""
        before = subscription.messages_dropped
        try:
            self._send(subscription, subscription.state.reading, block, block.first, block.last_entry)
        except Exception as error:  # the failure must not affect other subscriptions or the producer
            self.topic.services.dispatching.failed(error, topic=self.topic.text, subscription=subscription.name)
        self.messages_dropped += subscription.messages_dropped - before
