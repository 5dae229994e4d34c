"""Stores the dead-letter policies of a topic."""

from __future__ import annotations

import msgspec
import structlog

from messaging.broker.core.dead_letters.dead_entries import (
    DeadLetters,
    decode,
    encode,
    key_of,
)
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import Position

log = structlog.get_logger("broker.dead_letters")


async def restore(topic: TopicContext) -> None:
    """Called while a topic is loaded. Raises `StoreError`."""
    if not any(subscription.durable for subscription in topic.subscriptions.table.values()):
        return
    stored = await topic.services.stores.storage.meta.get_value(key_of(topic.text))
    if not stored:
        return
    try:
        records = decode(stored)
    except ValueError as error:
        log.critical("dead_letters.damaged", topic=topic.text, error=str(error))
        return
    for name, record in records.items():
        subscription = topic.subscriptions.table.get(name)
        if subscription is None or subscription.subscription_id != record.subscription_id:
            continue  # it was deleted, and perhaps created again
        if record.move is not None and all(subscription.cursor.acknowledged(Position(*entry)) for entry in record.move.entries):
            record = msgspec.structs.replace(record, move=None)
        subscription.follow_dead_letters(DeadLetters(record))
        subscription.recovering = record.move is not None


async def save(topic: TopicContext) -> None:
    """Raises `StoreError`. The store executes calls in order, so that the last one counts."""
    storage = topic.services.stores.storage
    records = {
        subscription.name: subscription.dead_letters.record
        for subscription in topic.subscriptions.table.values()
        if subscription.dead_letters is not None
    }
    if records:
        await storage.meta.put_value(storage.fence_of(topic.text), key_of(topic.text), encode(records))
    else:
        await storage.meta.delete_value(storage.fence_of(topic.text), key_of(topic.text))
