"""Chunks of messages that nobody completes: what a producer left behind that ended in the middle of a message."""

from __future__ import annotations

from messaging.broker.core.subscription import Subscription
from messaging.broker.core.trace import DeliveryEvent
from messaging.broker.runtime.topics.subscriptions.effects import SubscriptionEffects


async def expire_chunks(topic: SubscriptionEffects, subscription: Subscription, silent_ms: int) -> int:
    """Acknowledges chunks of messages that nobody completed for `silent_ms`. Returns how many. Raises `StorageFailed`."""
    found = subscription.state.unfinished_chunks(topic.services.stores.storage.safe_expiry_ms(), silent_ms)
    if found:
        subscription.entries_expired += len(found)
        await topic.acknowledge_entries(subscription, found, DeliveryEvent.EXPIRED)
    return len(found)
