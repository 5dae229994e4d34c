"""Messages that were delivered for the last time: refused once more, they become dead letters."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container
from typing import Protocol

from messaging.client.consuming.dead_letters import DeadLetters
from messaging.client.consuming.redelivery import Entry
from messaging.client.message import Message, MessageId
from messaging.errors import MagnetarError

logger = logging.getLogger("messaging.client")


class Source(Protocol):
    """The consumer of the topic of a message."""

    topic: str

    def ack(self, message_id: MessageId, *, cumulative: bool) -> object: ...

    def nack(self, message_id: MessageId) -> None: ...


class LastDeliveries:
    """Of one consumer, over all its topics."""

    def __init__(self, max_redeliveries: int, dead_letters: DeadLetters) -> None:
        self._max_redeliveries = max_redeliveries
        self._dead_letters = dead_letters
        self._messages: dict[tuple[str, Entry], list[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def delivered(self, topic: str, message: Message) -> None:
        if message.redelivery_count >= self._max_redeliveries:
            self._messages.setdefault((topic, Entry(*message.id[:2])), []).append(message)

    def acknowledged(self, topic: str, message_id: MessageId) -> None:
        """The others of its batch may be refused yet."""
        key = topic, Entry(*message_id[:2])
        messages = self._messages.pop(key, [])
        left = [message for message in messages if message_id.batch_index not in (-1, message.id.batch_index)]
        if left:
            self._messages[key] = left

    def dropped(self, topic: str, entries: Container[Entry] | None) -> None:
        """These come again, or everything of the topic if None."""
        for key in [key for key in self._messages if key[0] == topic and (entries is None or key[1] in entries)]:
            del self._messages[key]

    def refused(self, source: Source, entry: Entry) -> bool:
        """Whether its messages go to the dead letter topic instead of coming again."""
        messages = self._messages.pop((source.topic, entry), None)
        if messages is None or any(message.encryption is not None for message in messages):
            return False
        task = asyncio.get_running_loop().create_task(self._send(source, messages))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def wait(self, timeout_s: float) -> None:
        """Until what was refused is stored, or for this time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    async def _send(self, source: Source, messages: list[Message]) -> None:
        for message in messages:
            try:
                await self._dead_letters.send(message)
            except MagnetarError as error:
                logger.warning("%s: message %s could not be dead-lettered: %s", source.topic, message.id, error.message)
                source.nack(message.id)
                continue
            source.ack(message.id, cumulative=False)
