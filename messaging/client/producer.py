"""The producer: `ProducerPipeline` with futures, a clock and a connection."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self

from messaging.client.backoff import TOO_LARGE
from messaging.client.codec import decode_receipt, encode_send
from messaging.client.connection import ConnectionLoop, Timing
from messaging.client.errors import Closed, MessageTooLarge, QueueFull, SendTimedOut
from messaging.client.failures import ChannelClosed
from messaging.client.message import MessageId, OutgoingMessage
from messaging.client.pipeline import MemoryBudget, Operation, ProducerPipeline
from messaging.client.transport import Channel
from messaging.errors import MagnetarError


class _Admitted(NamedTuple):
    operation: Operation
    receipt: asyncio.Future[MessageId]


class _Entry(NamedTuple):
    """A message that waits for room."""

    message: OutgoingMessage
    admitted: asyncio.Future[_Admitted]


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """`name`: None for a unique one; then repetitions carry sequence ids, by which deduplication knows them. A given name may have
    been used before: its sequence ids continue at `first_sequence_id`, and are left out where that is None.

    `pending_max` messages may be without a receipt; each gets `send_timeout_s` for it.
    """

    name: str | None = None
    first_sequence_id: int | None = None
    pending_max: int = 1000
    send_timeout_s: float = 30.0


class Producer:
    """Sends messages to one topic, in order. Made by `Client.producer`; belongs to one event loop.

    A message whose id came back is stored. When the connection breaks, messages without a receipt are sent again, in order: with
    deduplication on the namespace they are stored once, without it at least once.
    """

    def __init__(self, topic: str, options: ProducerOptions, memory: MemoryBudget, message_bytes_max: int, timing: Timing) -> None:
        self.topic = topic
        self.name = options.name or f"sdk-{uuid.uuid4().hex}"
        self._first_sequence_id = 0 if options.name is None else options.first_sequence_id
        self._message_bytes_max = message_bytes_max
        self._timing = timing
        self._memory = memory
        self._pipeline = ProducerPipeline(options.pending_max, memory, options.send_timeout_s)
        self._futures: dict[int, asyncio.Future[MessageId]] = {}
        self._entering: deque[_Entry] = deque()
        self._to_write = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: MagnetarError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connection: ConnectionLoop | None = None
        memory.on_release(self._let_in)

    # For users

    async def send(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int | None = None,
        deliver_at_ms: int | None = None,
    ) -> MessageId:
        """Sends one message and returns its id once it is stored. Waits while too much is on its way.

        Raises `SendFailed`, `SendTimedOut`, `MessageTooLarge`, `Closed`. Cancelled before a byte was written, it is not sent.
        """
        message = OutgoingMessage(payload, key, dict(properties or {}), event_time_ms, deliver_at_ms)
        operation, future = await self._enter(message)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._withdraw(operation)
            raise

    def send_nowait(
        self,
        payload: bytes,
        *,
        key: str | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int | None = None,
        deliver_at_ms: int | None = None,
    ) -> asyncio.Future[MessageId]:
        """Sends one message and returns the future of its id. Raises `QueueFull` instead of waiting; else as `send`."""
        message = OutgoingMessage(payload, key, dict(properties or {}), event_time_ms, deliver_at_ms)
        self._check(message)
        admitted = None if self._entering else self._admit(message)
        if admitted is None:
            used_bytes = self._memory.used_bytes
            raise QueueFull(f"{len(self._pipeline)} messages and {used_bytes} bytes are pending: await some of them first")
        return admitted.receipt

    @property
    def closed(self) -> bool:
        return self._ended is not None

    async def flush(self) -> None:
        """Waits until everything sent so far has its receipt or its error."""
        if self._entering:
            await asyncio.wait([future for _, future in self._entering])
        if self._futures:
            await asyncio.wait(list(self._futures.values()))

    async def close(self) -> None:
        """Waits for what is on its way, then closes. Called again while it waits, it closes at once."""
        if self._ended is None:
            self._ended = Closed("the producer is closed")
            try:
                await self.flush()
            finally:
                await self.abort()
        else:
            await self.abort()

    async def abort(self) -> None:
        """Closes at once; what is on its way fails with `Closed`, and may be stored or not."""
        self._end(self._ended or Closed("the producer is closed"))
        if self._connection is not None:
            await self._connection.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, asyncio.CancelledError):
            await self.abort()
        else:
            await self.close()

    # For the client

    async def open(self, connection: ConnectionLoop) -> None:
        self._connection = connection
        connection.start()
        try:
            await asyncio.shield(self._opened)
        except BaseException:
            await self.abort()
            raise

    # For the connection

    def connected(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)
        self._to_write.set()

    async def write_all(self, channel: Channel) -> None:
        while True:
            operation = self._pipeline.next_to_write()
            if operation is None:
                self._to_write.clear()
                await self._to_write.wait()
                continue
            first = self._first_sequence_id
            await channel.send(
                encode_send(operation.number, operation.message, None if first is None else first + operation.number)
            )

    async def ready_to_receive(self) -> None:
        pass

    def received(self, text: str) -> None:
        receipt = decode_receipt(text)
        operation = self._pipeline.complete(receipt.number)
        if operation is not None:
            self._resolve(operation, receipt.error or receipt.message_id)

    def disconnected(self, failure: Exception) -> None:
        if isinstance(failure, ChannelClosed) and failure.code == TOO_LARGE:
            operation = self._pipeline.take_largest_written()
            if operation is not None:
                self._resolve(operation, MessageTooLarge(f"the broker refuses a message of {operation.size_bytes} bytes"))
        self._pipeline.connection_lost()

    def gave_up(self, error: MagnetarError) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
        closed = Closed(f"the producer gave up: {error.message}")
        closed.__cause__ = error
        self._end(closed)

    # Inside

    def _check(self, message: OutgoingMessage) -> None:
        if self._ended is not None:
            raise self._ended
        if message.size_bytes > self._message_bytes_max:
            raise MessageTooLarge(
                f"the message has {message.size_bytes} bytes; at most {self._message_bytes_max} are allowed: split it"
            )

    async def _enter(self, message: OutgoingMessage) -> _Admitted:
        """In the order of the calls."""
        self._check(message)
        admitted = None if self._entering else self._admit(message)
        if admitted is not None:
            return admitted
        entry = _Entry(message, asyncio.get_running_loop().create_future())
        self._entering.append(entry)
        try:
            return await entry.admitted
        except asyncio.CancelledError:
            if entry in self._entering:
                self._entering.remove(entry)
                self._let_in()  # the next may be smaller
            elif not entry.admitted.cancelled() and entry.admitted.exception() is None:
                self._withdraw(entry.admitted.result().operation)
            raise

    def _admit(self, message: OutgoingMessage) -> _Admitted | None:
        now_s = self._timing.now_s()
        operation = self._pipeline.admit(message, now_s)
        if operation is None:
            return None
        future = self._futures[operation.number] = asyncio.get_running_loop().create_future()
        self._to_write.set()
        if self._timer is None:
            self._watch_deadline(now_s)
        return _Admitted(operation, future)

    def _let_in(self) -> None:
        while self._entering:
            message, future = self._entering[0]
            if not future.done():
                admitted = self._admit(message)
                if admitted is None:
                    return
                future.set_result(admitted)
            self._entering.popleft()

    def _withdraw(self, operation: Operation) -> None:
        if self._pipeline.withdraw(operation):
            self._futures.pop(operation.number).cancel()

    def _resolve(self, operation: Operation, outcome: MessageId | MagnetarError) -> None:
        future = self._futures.pop(operation.number)
        if future.done():  # its owner cancelled it
            return
        if isinstance(outcome, MessageId):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)

    def _watch_deadline(self, now_s: float) -> None:
        deadline_s = self._pipeline.next_deadline_s
        self._timer = None
        if deadline_s is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, deadline_s - now_s), self._expire)

    def _expire(self) -> None:
        now_s = self._timing.now_s()
        for operation in self._pipeline.take_expired(now_s):
            outcome = "it may be stored or not" if operation.written_ever else "it was never sent, for want of a connection"
            self._resolve(operation, SendTimedOut(f"no receipt for a message to {self.topic} in time: {outcome}; send it again"))
        self._watch_deadline(now_s)

    def _end(self, error: MagnetarError) -> None:
        self._ended = error
        entering, self._entering = self._entering, deque()
        for _, future in entering:
            if not future.done():
                future.set_exception(error)
        for operation in self._pipeline.take_all():
            self._resolve(operation, error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._memory.forget(self._let_in)
