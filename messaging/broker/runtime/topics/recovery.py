"""Recovers topics of which the log took nothing, or not everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from messaging.background import BackgroundLoops
from messaging.broker.runtime.topics.loaded_topic import LoadedTopic
from messaging.errors import MagnetarError
from messaging.protocol.names import TopicName

log = structlog.get_logger("broker.topics")


class TopicRecovery:
    """`unload` unloads a topic that cannot be recovered: its next use loads it again."""

    def __init__(self, background: BackgroundLoops, unload: Callable[[TopicName, MagnetarError], Awaitable[None]]) -> None:
        self._background = background
        self._unload = unload
        self._recovering: set[LoadedTopic] = set()

    def failed(self, topic: LoadedTopic, why: MagnetarError) -> None:
        """Producers connect again, and it continues in a new ledger."""
        if topic.closed is None and topic not in self._recovering:
            log.error("topic.failed", topic=topic.text, why=why.message)
            self._recovering.add(topic)
            self._background.spawn(self._recover(topic, why), f"recover {topic.text}")

    async def _recover(self, topic: LoadedTopic, why: MagnetarError) -> None:
        try:
            if not await topic.recover():
                await self._unload(topic.name, why)
        finally:
            self._recovering.discard(topic)
