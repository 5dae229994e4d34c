"""Producers to consumers without storage in between: the dispatcher of a non-persistent topic."""

from __future__ import annotations

from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.non_persistent import NonPersistentSubscription
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher
from messaging.broker.runtime.topics.limits.dispatch_limits import DispatchLimits
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import Position


class DirectDispatcher(Dispatcher):
    """Nothing is kept that could wait: what exceeds a dispatch rate is dropped."""

    __slots__ = ("messages_dropped",)

    def __init__(self, topic: TopicContext) -> None:
        super().__init__(topic)
        self.messages_dropped = 0  # by all subscriptions, also those that ended

    def send_now(self, subscription: Subscription, block: EntryBlock) -> None:
        """Sends a block as far as limits allow it and consumers can take it; the rest is dropped. Never raises."""
        before = subscription.messages_dropped
        try:
            if self.limits is None:
                self._send(subscription, subscription.state.reading, block, block.first, block.last_entry)
            else:
                self._send_allowed(subscription, block, self.limits)
        except Exception as error:  # the failure must not affect other subscriptions or the producer
            self.recover(subscription, error)
        self.messages_dropped += subscription.messages_dropped - before

    def _send_allowed(self, subscription: Subscription, block: EntryBlock, limits: DispatchLimits) -> None:
        assert isinstance(subscription, NonPersistentSubscription)
        at = block.first
        while at.entry_id <= block.last_entry:
            if not limits.allows_new(subscription):
                subscription.drop(block, at)
                return
            last = limits.last_within(block, at, block.last_entry)
            self._send(subscription, subscription.state.reading, block, at, last)
            at = Position(at.ledger_id, last + 1)
