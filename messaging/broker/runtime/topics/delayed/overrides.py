"""Stores what was decided of single delayed messages of a topic: one value of the metadata store, written as a whole."""

from __future__ import annotations

import asyncio

import structlog

from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.delayed.topic_delays import TopicDelays
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.managed.ledger import ManagedLedger, Storage

log = structlog.get_logger("broker.delayed")


def key_of(topic: str) -> str:
    return f"delayed/{topic}"


async def stored(storage: Storage, ledger: ManagedLedger) -> Overrides | None:
    """Called while a topic is loaded. Raises `StoreError`."""
    if not ledger.ledger_list.ids and ledger.ledger_list.compacted is None:
        return None
    topic = ledger.record.name
    data = await storage.meta.get_value(key_of(topic))
    if not data:
        return None
    try:
        return await asyncio.to_thread(Overrides.decode, data)
    except ValueError as error:
        storage.damage["delayed"] += 1
        log.critical("delayed.overrides_damaged", topic=topic, error=str(error))
        return None


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
            await storage.meta.put_value(storage.fence_of(topic.text), key_of(topic.text), data)
        else:
            await storage.meta.delete_value(storage.fence_of(topic.text), key_of(topic.text))
        self._stored = changes
