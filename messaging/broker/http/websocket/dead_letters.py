"""Messages that come to a WebSocket consumer more often than it asked for go to another topic instead, as by Pulsar's clients.

A message is published there under the consumer's own rights and acknowledged once it is stored. If it cannot be, it stays
unacknowledged and comes again: it is stored there at least once. Each is published by itself, so that one that cannot be stored is
in nobody's way, and counts as what producers send does until it is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from messaging.broker.http.websocket.memory import SessionThrottle
from messaging.broker.runtime.local.messages import (
    DeliveredMessage,
    MessagePosition,
    OutgoingMessage,
    ProducerHandle,
    ProducerListener,
)
from messaging.errors import MagnetarError, ProducerBusy, ProducerFenced

logger = logging.getLogger(__name__)

REAL_TOPIC, ORIGIN_MESSAGE_ID = "REAL_TOPIC", "ORIGIN_MESSAGE_ID"
MOVING_MAX = 1000  # messages on their way: until then no others are asked for

LETTERS_A_TURN = 64  # published before others have the loop
LETTER_BYTES = 512  # what one that is on its way costs beside its payload
PROPERTY_BYTES = 128
LASTING = (401, 403, 404, 409, 412)  # statuses of refusals that do not pass

# Whether every letter of the producer is an encrypted message.
OpenDeadLetters = Callable[[ProducerListener, bool], Awaitable[ProducerHandle]]


def is_lasting(error: MagnetarError) -> bool:
    return error.http_status in LASTING and not isinstance(error, ProducerBusy | ProducerFenced)


class Owner(Protocol):
    def moved(self, messages: Sequence[DeliveredMessage]) -> None:
        """They are stored in the dead letter topic."""

    def not_moved(self, messages: Sequence[DeliveredMessage], error: MagnetarError) -> None:
        """They stay unacknowledged."""


class WebSocketDeadLetters:
    """`redeliveries_max`: how often a message may come again. `topic`: where they come from, unless a message says so. `throttle`:
    made with what is called when publishing may go on."""

    def __init__(
        self,
        redeliveries_max: int,
        topic: str,
        open_producer: OpenDeadLetters,
        throttle: Callable[[Callable[[], None]], SessionThrottle],
    ) -> None:
        self._redeliveries_max = redeliveries_max
        self._topic = topic
        self.open_producer = open_producer
        self.throttle = throttle(self._go_on_soon)
        self._senders = {encrypts: _Sender(self, encrypts) for encrypts in (False, True)}
        self.is_closed = False
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

    def refused_times(self, message: DeliveredMessage) -> int:
        """How often it came again since it was dead."""
        return max(0, message.redelivery_count - self._redeliveries_max - 1)

    def move(self, messages: Sequence[DeliveredMessage]) -> None:
        self.moving += len(messages)
        for message in messages:
            self._senders[message.encryption is not None].waiting.append(message)
        self._go_on()

    def _go_on(self) -> None:
        for sender in self._senders.values():
            sender.go_on()

    def _go_on_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._go_on)

    def close(self) -> None:
        """What has no receipt comes again."""
        self.is_closed = True
        for sender in self._senders.values():
            sender.close()
        self.throttle.leave()

    def settle(self, messages: Sequence[DeliveredMessage], error: MagnetarError | None) -> None:
        self.moving -= len(messages)
        if self.owner is None or self.is_closed:
            return
        if error is None:
            self.owner.moved(messages)
        else:
            self.owner.not_moved(messages, error)

    def letter(self, message: DeliveredMessage) -> OutgoingMessage:
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


class _Sender:
    """A `ProducerListener` of the dead letter topic, whose producer is opened when the first message is to go there. `encrypts`:
    all that it publishes is encrypted, which a namespace may demand of a producer."""

    def __init__(self, letters: WebSocketDeadLetters, encrypts: bool) -> None:
        self._letters = letters
        self._encrypts = encrypts
        self.waiting: deque[DeliveredMessage] = deque()
        self._handle: ProducerHandle | None = None
        self._opening: asyncio.Task[None] | None = None
        self._next_turn: asyncio.Handle | None = None

    def closed(self, error: MagnetarError | None) -> None:
        """From the broker: the next message opens it again."""
        self._handle = None

    def close(self) -> None:
        self.waiting.clear()
        if self._next_turn is not None:
            self._next_turn.cancel()
        if self._opening is not None:
            self._opening.cancel()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def go_on(self) -> None:
        """Publishes as much as may be in one turn of the loop."""
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        for _ in range(LETTERS_A_TURN):
            if not self.waiting or self._letters.throttle.paused:
                return
            if self._handle is None:
                if self._opening is None and not self._letters.is_closed:
                    self._opening = asyncio.ensure_future(self._open())
                return
            self._publish(self._handle, self.waiting.popleft())
        if self.waiting:
            self._next_turn = asyncio.get_running_loop().call_soon(self.go_on)

    async def _open(self) -> None:
        try:
            handle = await self._letters.open_producer(self, self._encrypts)
        except MagnetarError as error:
            self._refuse(error)
        except Exception:
            logger.exception("the producer of a dead letter topic could not be opened")
            self._refuse(MagnetarError("the broker failed; its log says why"))
        else:
            if self._letters.is_closed:
                handle.close()
            else:
                self._handle = handle
        finally:
            self._opening = None
        self.go_on()

    def _refuse(self, error: MagnetarError) -> None:
        waiting = list(self.waiting)
        self.waiting.clear()
        self._letters.settle(waiting, error)

    def _publish(self, handle: ProducerHandle, message: DeliveredMessage) -> None:
        throttle, letter = self._letters.throttle, self._letters.letter(message)
        size = len(letter.payload) + LETTER_BYTES
        size += sum(len(key) + len(value) + PROPERTY_BYTES for key, value in letter.properties.items())

        def on_receipt(positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
            refused = error if error is not None or positions is not None else MagnetarError("the broker did not confirm it")
            self._letters.settle([message], refused)
            throttle.give(size)

        throttle.take(size)
        try:
            handle.publish([letter], on_receipt)
        except MagnetarError as error:
            on_receipt(None, error)
