"""How many messages a consumer has acknowledged, told from what it was sent: acknowledging itself counts nothing. Pure."""

from __future__ import annotations

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription import Subscription, SubscriptionType


def messages_acknowledged(subscription: Subscription, consumer: Consumer) -> int:
    """Messages sent to `consumer` that are neither open nor were asked for again. Exact for Shared; elsewhere an estimate where
    entries hold different numbers of messages."""
    if subscription.kind is SubscriptionType.SHARED:
        return consumer.messages_out - consumer.unacked_messages - consumer.messages_redelivered
    if consumer is not subscription.active:
        return 0
    return consumer.messages_of(consumer.entries_out - consumer.entries_redelivered - subscription.unacked_of(consumer))
