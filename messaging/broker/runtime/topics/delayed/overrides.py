"""Stores what was decided of single delayed messages of a topic: one value of the metadata store, written as a whole."""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from messaging.broker.core.delayed.overrides import Overrides, acknowledge_cancelled
from messaging.broker.core.delayed.topic_delays import TopicDelays
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic_context import TopicContext

log = structlog.get_logger("broker.delayed")


class OverriddenTopic(TopicContext, Protocol):
    @property
    def overrides(self) -> Overrides | None: ...


def key_of(topic: str) -> str:
    return f"delayed/{topic}"


async def stored(topic: TopicContext) -> Overrides | None:
    """Called while a topic is loaded. Raises `StoreError`."""
    if not topic.ledger_list.ids and topic.ledger_list.compacted is None:
        return None
    data = await topic.services.stores.storage.meta.get_value(key_of(topic.text))
    if not data:
        return None
    try:
        return await asyncio.to_thread(Overrides.decode, data)
    except ValueError as error:
        topic.services.stores.storage.damage["delayed"] += 1
        log.critical("delayed.overrides_damaged", topic=topic.text, error=str(error))
        return None


def acknowledge_in(topic: OverriddenTopic, subscription: Subscription) -> list[bytes]:
    """What was cancelled is never sent to this subscription either, which is new, was moved or recovered. Returns the deltas, which
    need not be stored: a start does the same again."""
    overrides = topic.overrides
    return [] if overrides is None else acknowledge_cancelled(overrides, subscription.cursor, topic.ledger_list)


class OverrideStore:
    """Calls that come while something is written share the next write."""

    __slots__ = ("_changes", "_delays", "_lock", "_stored", "_topic")

    def __init__(self, topic: TopicContext, delays: TopicDelays) -> None:
        self._topic = topic
        self._delays = delays
        self._lock = asyncio.Lock()
        self._changes = self._stored = 0

    def changed(self) -> None:
        self._changes += 1

    async def save(self) -> None:
        """Returns when all that is decided now is durable. Raises `StoreError`: it holds still, but a restart may undo it."""
        wanted = self._changes
        async with self._lock:
            if self._stored < wanted:
                await self._write()

    async def _write(self) -> None:
        overrides, topic, changes = self._delays.overrides, self._topic, self._changes
        if overrides is None:
            return
        ledger_list, storage = topic.ledger_list, topic.services.stores.storage
        overrides.forget(ledger_list, storage.safe_expiry_ms(), self._delays.index.pending)
        if overrides:
            data = await asyncio.to_thread(overrides.copy().encode)
            await storage.meta.put_value(storage.fence, key_of(topic.text), data)
        else:
            await storage.meta.delete_value(storage.fence, key_of(topic.text))
        self._stored = changes
