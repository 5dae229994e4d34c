"""Messages that come to a WebSocket consumer more often than it asked for go to another topic instead, as by Pulsar's clients.

A message is published there under the consumer's own rights and acknowledged once it is stored. If it cannot be, it stays
unacknowledged and comes again: it is stored there at least once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from messaging.broker.runtime.local.messages import (
    DeliveredMessage,
    MessagePosition,
    OutgoingMessage,
    ProducerHandle,
    ProducerListener,
)
from messaging.errors import MagnetarError

logger = logging.getLogger(__name__)

REAL_TOPIC, ORIGIN_MESSAGE_ID = "REAL_TOPIC", "ORIGIN_MESSAGE_ID"
MOVING_MAX = 1000  # messages on their way: until then no others are asked for

OpenDeadLetters = Callable[[ProducerListener], Awaitable[ProducerHandle]]


class Owner(Protocol):
    def moved(self, messages: Sequence[DeliveredMessage]) -> None:
        """They are stored in the dead letter topic."""

    def not_moved(self, messages: Sequence[DeliveredMessage], error: MagnetarError) -> None:
        """They stay unacknowledged."""


class WebSocketDeadLetters:
    """A `ProducerListener` of the dead letter topic, whose producer is opened when the first message is to go there.

    `redeliveries_max`: how often a message may come again. `topic`: where they come from, unless a message says so."""

    def __init__(self, redeliveries_max: int, topic: str, open_producer: OpenDeadLetters) -> None:
        self._redeliveries_max = redeliveries_max
        self._topic = topic
        self._open = open_producer
        self._handle: ProducerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._waiting: list[DeliveredMessage] = []
        self._closed = False
        self.moving = 0
        self.owner: Owner | None = None

    def split(self, messages: Sequence[DeliveredMessage]) -> tuple[list[DeliveredMessage], list[DeliveredMessage]]:
        """Those for the client, and those that are dead. An encrypted batch, which nobody can open here, is left to the client."""
        alive: list[DeliveredMessage] = []
        dead: list[DeliveredMessage] = []
        for message in messages:
            closed_batch = message.encryption is not None and message.encryption.batch_size is not None
            (dead if message.redelivery_count > self._redeliveries_max and not closed_batch else alive).append(message)
        return alive, dead

    def move(self, messages: Sequence[DeliveredMessage]) -> None:
        self.moving += len(messages)
        self._waiting += messages
        if self._handle is not None:
            self._publish()
        elif self._opening is None and not self._closed:
            self._opening = asyncio.ensure_future(self._open_and_publish())

    def closed(self, error: MagnetarError | None) -> None:
        """From the broker: the next message opens it again."""
        self._handle = None

    def close(self) -> None:
        """What has no receipt comes again."""
        self._closed = True
        self._waiting.clear()
        if self._opening is not None:
            self._opening.cancel()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    async def _open_and_publish(self) -> None:
        try:
            handle = await self._open(self)
        except MagnetarError as error:
            waiting, self._waiting = self._waiting, []
            self._settle(waiting, error)
        except Exception:
            logger.exception("the producer of a dead letter topic could not be opened", extra={"topic": self._topic})
            waiting, self._waiting = self._waiting, []
            self._settle(waiting, MagnetarError("the broker failed; its log says why"))
        else:
            if self._closed:
                handle.close()
                return
            self._handle = handle
            self._publish()
        finally:
            self._opening = None

    def _publish(self) -> None:
        messages, self._waiting = self._waiting, []
        if not messages or self._handle is None:
            return

        def on_receipt(positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
            refused = error if error is not None or positions is not None else MagnetarError("the broker did not confirm it")
            self._settle(messages, refused)

        try:
            self._handle.publish([self._letter(message) for message in messages], on_receipt)
        except MagnetarError as error:
            self._settle(messages, error)

    def _settle(self, messages: Sequence[DeliveredMessage], error: MagnetarError | None) -> None:
        self.moving -= len(messages)
        if self.owner is None or self._closed:
            return
        if error is None:
            self.owner.moved(messages)
        else:
            self.owner.not_moved(messages, error)

    def _letter(self, message: DeliveredMessage) -> OutgoingMessage:
        at = message.position
        whole = message.topic or self._topic
        topic = whole if at.partition < 0 or "-partition-" in whole else f"{whole}-partition-{at.partition}"
        origin = {REAL_TOPIC: topic, ORIGIN_MESSAGE_ID: f"{at.ledger_id}:{at.entry_id}:{at.partition}"}
        return OutgoingMessage(
            payload=message.payload,
            properties={**message.properties, **{key: message.properties.get(key, value) for key, value in origin.items()}},
            key=message.key,
            event_time_ms=message.event_time_ms,
            null_value=message.null_value,
            encryption=message.encryption,
        )
