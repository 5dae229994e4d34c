"""Producers to consumers without storage in between: the dispatcher of a non-persistent topic."""

from __future__ import annotations

from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.dispatcher import Dispatcher


class DirectDispatcher(Dispatcher):
    """Dispatch rates do not apply, as in Pulsar: nothing could wait until they allow more."""

    __slots__ = ()

    def send_now(self, subscription: Subscription, block: EntryBlock) -> None:
        """Sends a block as far as consumers can take it; the rest is dropped. Never raises."""
        with self.topic.services.dispatching.guard(topic=self.topic.text, subscription=subscription.name):
            self._send(subscription, subscription.state.reading, block, block.first, block.last_entry)
