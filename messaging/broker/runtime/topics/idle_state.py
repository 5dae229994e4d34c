"""Stores since when nobody used a topic that is unloaded, and its subscriptions."""

from __future__ import annotations

from dataclasses import replace

import structlog

from messaging.broker.core.inactivity import inactivity_policies
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import StoreError

log = structlog.get_logger("broker.topics")


async def store(topic: TopicContext) -> None:
    """Only where policies delete inactive topics or subscriptions. If storing fails, the time counts from the broker's start."""
    if topic.ledger.closed or not inactivity_policies(lambda name: topic.services.policies.value(name, topic.name)).in_force:
        return
    times = topic.idle.to_store(one.name for one in topic.subscriptions.values() if one.durable)
    try:
        await topic.ledger.update(lambda record: replace(record, idle_since=times))
    except StoreError as error:
        log.warning("topic.idle_times_not_stored", topic=topic.text, error=str(error))
