"""The consumer: `Inbox` with waiting and a connection."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from messaging.client.codec import decode_message, encode_ack, encode_nack
from messaging.client.connection import ConnectionLoop
from messaging.client.errors import Closed, ReceiveTimedOut
from messaging.client.inbox import Inbox
from messaging.client.message import Message, MessageId
from messaging.client.transport import Channel
from messaging.errors import MagnetarError

logger = logging.getLogger("messaging.client")

CLOSE_TIMEOUT_S = 5.0  # for acknowledgements that are still to be written

Kind = Literal["exclusive", "shared", "failover"]
Initial = Literal["latest", "earliest"]


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """`initial` is where a new subscription begins. Up to `unacknowledged_max` messages (1000 at most) are given out at once.
    A negatively acknowledged message comes again after `nack_delay_s`."""

    kind: Kind = "exclusive"
    initial: Initial = "latest"
    name: str | None = None
    unacknowledged_max: int = 1000
    nack_delay_s: float = 60.0


class Consumer:
    """Receives messages of one subscription. Made by `Client.consumer`; belongs to one event loop.

    ::

        async for message in consumer:
            handle(message)
            await consumer.ack(message)

    Each message comes at least once: what was not acknowledged when the connection broke comes again.
    """

    def __init__(self, topic: str, subscription: str) -> None:
        self.topic = topic
        self.subscription = subscription
        self._inbox = Inbox()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._to_write = asyncio.Event()
        self._written = asyncio.Event()
        self._live = False
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: MagnetarError | None = None
        self._gave_up = False
        self._connection: ConnectionLoop | None = None

    # For users

    async def receive(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `ReceiveTimedOut` after `timeout_s`, `Closed`. Cancelling it loses no message."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    message = self._inbox.take()
                    if message is not None:
                        self._room.set()
                        return message
                    if self._ended is not None:
                        raise self._ended
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise ReceiveTimedOut(f"no message of {self.subscription!r} on {self.topic} within {timeout_s:g} s") from None

    async def ack(self, message: Message | MessageId) -> None:
        """Tells the broker that the message is done with. Returns when that is on its way: this protocol has no answer to it."""
        self._answer(encode_ack(message.id if isinstance(message, Message) else message))

    async def nack(self, message: Message | MessageId) -> None:
        """Asks for the message again, after the consumer's `nack_delay_s`."""
        self._answer(encode_nack(message.id if isinstance(message, Message) else message))

    @property
    def queued_messages(self) -> int:
        """Messages that have arrived and were not received yet."""
        return len(self._inbox)

    @property
    def closed(self) -> bool:
        return self._ended is not None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Ends after `close`; raises `Closed` if the consumer gave up."""
        try:
            return await self.receive()
        except Closed:
            if self._gave_up:
                raise
            raise StopAsyncIteration from None

    async def close(self) -> None:
        """Writes the acknowledgements that are due and closes. What was received and not acknowledged comes again. Idempotent."""
        self._end(Closed("the consumer is closed"))
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                while self._live and self._inbox.answers:
                    self._written.clear()
                    await self._written.wait()
        except TimeoutError:
            logger.warning("%s: closed with %d acknowledgements not sent", self.topic, self._inbox.answers)
        finally:
            if self._connection is not None:
                await self._connection.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # For the client

    async def open(self, connection: ConnectionLoop) -> None:
        self._connection = connection
        connection.start()
        try:
            await asyncio.shield(self._opened)
        except BaseException:
            await self.close()
            raise

    # For the connection

    def connected(self) -> None:
        self._live = True
        if not self._opened.done():
            self._opened.set_result(None)
        self._to_write.set()

    async def write_all(self, channel: Channel) -> None:
        while True:
            frame = self._inbox.next_answer()
            if frame is None:
                self._to_write.clear()
                await self._to_write.wait()
                continue
            try:
                await channel.send(frame)
            except BaseException:
                self._inbox.give_back(frame)
                raise
            self._written.set()

    async def ready_to_receive(self) -> None:
        while self._inbox.full:
            self._room.clear()
            await self._room.wait()

    def received(self, text: str) -> None:
        self._inbox.arrived(decode_message(text))
        self._arrived.set()

    def disconnected(self, failure: Exception) -> None:
        self._live = False
        self._inbox.connection_lost()
        self._room.set()
        self._written.set()

    def gave_up(self, error: MagnetarError) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
        closed = Closed(f"the consumer gave up: {error.message}")
        closed.__cause__ = error
        self._gave_up = True
        self._end(closed)

    # Inside

    def _answer(self, frame: str) -> None:
        if self._ended is not None:
            raise self._ended
        self._inbox.answer(frame)
        self._to_write.set()

    def _end(self, error: MagnetarError) -> None:
        if self._ended is None:
            self._ended = error
        self._arrived.set()
