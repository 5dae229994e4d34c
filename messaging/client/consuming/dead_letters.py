"""What is sent elsewhere instead of coming again, as Pulsar's clients do it: to a retry topic, or to a dead letter topic.

Both keep payload, key, properties and event time. Added properties: REAL_TOPIC and ORIGIN_MESSAGE_ID, of where it came from first;
RECONSUMETIMES and DELAY_TIME (ms) on a retry topic.

A message that was not decrypted stays where it is: its keys are not among what is kept, and nobody could read it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from messaging.client.consuming.options import DeadLetterPolicy
from messaging.client.errors import InvalidOperation
from messaging.client.message import Key, Message, MessageId

REAL_TOPIC, ORIGIN_MESSAGE_ID, RECONSUME_TIMES, DELAY_TIME = "REAL_TOPIC", "ORIGIN_MESSAGE_ID", "RECONSUMETIMES", "DELAY_TIME"


class Sender(Protocol):
    """A producer of plain bytes."""

    async def send(
        self,
        value: bytes | None,
        *,
        key: Key = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int | None = None,
        deliver_after_s: float | None = None,
        ordering_key: bytes | None = None,
    ) -> MessageId: ...

    async def close(self) -> None: ...


# (topic, initial subscription) -> an open producer
OpenSender = Callable[[str, str | None], Awaitable[Sender]]


class DeadLetters:
    """Its producers are opened when they are needed first."""

    def __init__(self, policy: DeadLetterPolicy, base_topic: str, subscription: str, open_sender: OpenSender) -> None:
        self._policy = policy
        self.dead_letter_topic = policy.dead_letter_topic or f"{base_topic}-{subscription}-DLQ"
        self.retry_topic = policy.retry_topic or f"{base_topic}-{subscription}-RETRY"
        self._open_sender = open_sender
        self._senders: dict[str, Sender] = {}
        self._opening = asyncio.Lock()

    async def send(self, message: Message) -> None:
        """Raises what a producer raises, or `InvalidOperation`; the message is then still to be acknowledged."""
        await self._send(self.dead_letter_topic, message, _origin(message), None)

    async def retry(self, message: Message, delay_s: float, properties: Mapping[str, str]) -> None:
        times = _number(message.properties.get(RECONSUME_TIMES)) + 1
        added = {**properties, **_origin(message), RECONSUME_TIMES: str(times), DELAY_TIME: str(round(delay_s * 1000))}
        if times > self._policy.max_redeliveries:
            await self._send(self.dead_letter_topic, message, added, None)
        else:
            await self._send(self.retry_topic, message, added, delay_s)

    async def close(self) -> None:
        await asyncio.gather(*(sender.close() for sender in self._senders.values()), return_exceptions=True)

    async def _send(self, topic: str, message: Message, added: Mapping[str, str], delay_s: float | None) -> None:
        if message.encryption is not None:
            raise InvalidOperation(
                f"message {message.id} was not decrypted, and its keys would be lost on {topic}: acknowledge it, or nack it"
            )
        async with self._opening:
            sender = self._senders.get(topic)
            if sender is None:
                initial = self._policy.initial_subscription if topic == self.dead_letter_topic else None
                sender = self._senders[topic] = await self._open_sender(topic, initial)
        await sender.send(
            None if message.null_value else message.payload,
            key=message.key,
            properties={**message.properties, **added},
            event_time_ms=message.event_time_ms,
            deliver_after_s=delay_s,
            ordering_key=message.ordering_key,
        )


def _origin(message: Message) -> dict[str, str]:
    return {
        REAL_TOPIC: message.properties.get(REAL_TOPIC, message.topic),
        ORIGIN_MESSAGE_ID: message.properties.get(
            ORIGIN_MESSAGE_ID, f"{message.id.ledger_id}:{message.id.entry_id}:{message.id.partition}"
        ),
    }


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
