"""The producer of a topic: the stages of the pipeline in their order, one `PartitionProducer` for each partition."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, Unpack

from messaging.client.errors import Closed, InvalidOperation, QueueFull
from messaging.client.forks import FORKED
from messaging.client.message import MessageId, OutgoingMessage
from messaging.client.producing.admission import ANYWHERE, MemoryLimit, Room, WaitingLine
from messaging.client.producing.arguments import MessageBuilder, SendArguments, check
from messaging.client.producing.batches import Outgoing
from messaging.client.producing.flushing import Flusher
from messaging.client.producing.interceptors import after_receipt, before_send
from messaging.client.producing.options import ProducerOptions
from messaging.client.producing.partition import PartitionProducer
from messaging.client.producing.routing import Route, Router
from messaging.client.schemas import Schema
from messaging.client.timing import Timing
from messaging.client.wire.connections import Connections
from messaging.errors import MagnetarError, MessageTooLarge
from messaging.protocol.names import TopicName

logger = logging.getLogger("messaging.client")


@dataclass(frozen=True, slots=True)
class ProducerServices:
    """What all producers of a client share."""

    connections: Connections
    memory: MemoryLimit
    flusher: Flusher
    timing: Timing
    new_id: Callable[[], int]
    open_timeout_s: float


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """`waiting`: messages that were not admitted yet."""

    sent: int
    sent_bytes: int
    stored: int
    failed: int
    pending: int
    waiting: int
    partitions: int
    partitions_connected: int


@dataclass(slots=True, eq=False)
class _Waiting:
    message: OutgoingMessage
    size_bytes: int
    admitted: asyncio.Future[Outgoing]


class Producer:
    """Sends messages to one topic. Made by `Client.producer`; belongs to one event loop.

    A message whose id came back is stored. Messages of one key, and all messages to a topic without partitions, are stored in the
    order of the calls. When a connection breaks, messages without a receipt are sent again, in order: with deduplication on the
    namespace they are stored once, without it at least once.
    """

    def __init__(self, topic: TopicName, options: ProducerOptions, schema: Schema[Any], services: ProducerServices) -> None:
        self.topic = str(topic)
        self._topic = topic
        self._options = options
        self._schema = schema
        self._messages = MessageBuilder(options, schema, services.timing.wall_ms)
        self._limits_size = not options.chunking and options.compression == "none"
        self._healthy: set[int] = set()  # partitions that were looked at in this turn of the loop
        self._services = services
        self._memory = services.memory
        self._loop = asyncio.get_running_loop()
        self._partitions: list[PartitionProducer] = []
        self._router = Router(0, options.routing, options.hashing, 0, per_message=options.batch is None)
        self._room = Room(options.pending_max, options.pending_across_partitions_max)
        self._line: WaitingLine[_Waiting] = WaitingLine()
        self._unsettled = 0
        self._idle: asyncio.Future[None] | None = None
        self._ended: MagnetarError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._updates: asyncio.Task[None] | None = None
        self._sent = self._sent_bytes = self._stored = self._failed = 0

    # --- for users

    @property
    def name(self) -> str:
        return self._partitions[0].name

    @property
    def last_sequence_id(self) -> int:
        """The highest that was given to a message; -1 for none. Of a topic without partitions."""
        return self._partitions[0].last_sequence_id

    @property
    def partitions(self) -> int:
        """0 for a topic that has none."""
        return self._router.partitions

    @property
    def closed(self) -> bool:
        return self._ended is not None

    @property
    def statistics(self) -> ProducerStatistics:
        connected = sum(partition.connected for partition in self._partitions)
        return ProducerStatistics(
            self._sent,
            self._sent_bytes,
            self._stored,
            self._failed,
            self._unsettled,
            len(self._line),
            len(self._partitions),
            connected,
        )

    async def send(self, value: Any, **arguments: Unpack[SendArguments]) -> MessageId:
        """Sends one message and returns its id once it is stored. Waits while there is no room. Messages that are sent at the same
        time share a batch, which does not wait for more. Arguments: see `SendArguments`.

        Raises `SendFailed`, `SendTimedOut`, `MessageTooLarge`, `QueueFull`, `Closed`. Cancelled before the message left, it is not
        sent.
        """
        message = self._message(value, arguments)
        outgoing = self._enter(message, urgent=True)
        if outgoing is None:
            if not self._options.block_if_full:
                raise self._full()
            outgoing = await self._wait_for_room(message)
        receipt = outgoing.receipt
        assert isinstance(receipt, asyncio.Future)
        try:
            return await asyncio.shield(receipt)
        except asyncio.CancelledError:
            self._withdraw(outgoing)
            raise

    def send_nowait(self, value: Any, **arguments: Unpack[SendArguments]) -> asyncio.Future[MessageId]:
        """Sends one message, in a batch that waits for company, and returns the future of its id. Raises `QueueFull` instead of
        waiting; else as `send`."""
        message = self._message(value, arguments)
        outgoing = self._enter(message, urgent=False)
        if outgoing is None:
            raise self._full()
        assert isinstance(outgoing.receipt, asyncio.Future)
        return outgoing.receipt

    async def flush(self) -> None:
        """Ends the open batches and waits until everything sent so far has its receipt or its error."""
        while self._unsettled or self._line:
            for partition in self._partitions:
                partition.flush()
            if not self._unsettled:
                break
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    async def close(self) -> None:
        """Waits for what is on its way, then closes. Called again while it waits, it closes at once."""
        if isinstance(self._ended, InvalidOperation):
            return  # in a new process
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
        if isinstance(self._ended, InvalidOperation):
            return  # in a new process
        self._end(self._ended or Closed("the producer is closed"))
        if self._updates is not None:
            self._updates.cancel()
            await asyncio.gather(self._updates, return_exceptions=True)
        await asyncio.gather(*(partition.close() for partition in self._partitions), return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):  # the second where there is no loop to cancel
            await self.abort()
        else:
            await self.close()

    # --- for the client

    async def open(self) -> None:
        """Opens every partition. Raises why one cannot be opened; none is then open."""
        try:
            await self._grow(await self._services.connections.partitions(self.topic))
        except BaseException:
            await self.abort()
            raise
        if self._router.partitions:
            self._updates = asyncio.create_task(self._follow_partitions(), name=f"magnetar partitions of {self.topic}")

    async def _grow(self, count: int) -> None:
        services, options = self._services, self._options
        topics = [str(self._topic.of_partition(index)) for index in range(count)] if count else [self.topic]
        added = [
            PartitionProducer(
                topic,
                index if count else -1,
                options,
                self._schema.description,
                services.new_id(),
                self,
                services.connections,
                services.flusher,
                services.timing,
                services.open_timeout_s,
            )
            for index, topic in enumerate(topics)
            if index >= len(self._partitions)
        ]
        before, self._partitions = self._partitions, [*self._partitions, *added]
        try:
            await _all(partition.open() for partition in added)
        except BaseException:
            self._partitions = before or self._partitions  # the first ones are closed by `abort`
            if before:
                await asyncio.gather(*(partition.close() for partition in added), return_exceptions=True)
            raise
        self._room.grow(len(self._partitions))
        begin = int(services.timing.random() * (1 << 31))
        self._router = Router(count, options.routing, options.hashing, begin, per_message=options.batch is None)

    async def _follow_partitions(self) -> None:
        """A topic may get more partitions; it never has fewer."""
        while True:
            await self._services.timing.sleep(self._options.partitions_update_s)
            try:
                count = await self._services.connections.partitions(self.topic)
                if count > self._router.partitions:
                    await self._grow(count)
                    self._let_in()
            except MagnetarError as error:
                logger.info("%s: its partitions could not be read: %s", self.topic, error.message)

    # --- the stages up to the partition

    def _message(self, value: Any, arguments: SendArguments) -> OutgoingMessage:
        if self._ended is not None:
            raise self._ended
        message = self._messages.build(value, **arguments)
        if self._options.interceptors:
            message = before_send(self._options.interceptors, message)
        check(message)
        if self._limits_size and message.size_bytes > (limit := self._partitions[0].message_bytes_max):
            raise MessageTooLarge(
                f"the message has {message.size_bytes} bytes; at most {limit} are allowed: split it, or use chunking"
            )
        return message

    def _enter(self, message: OutgoingMessage, *, urgent: bool) -> Outgoing | None:
        """None: there is no room, or others wait before it."""
        route = self._router.choose(message, self._available)
        if self._line and self._line.waits(ANYWHERE if route.movable else route.partition):
            return None
        if self._keeps_waiting(route):
            return None
        return self._admit(message, message.size_bytes, route, urgent=urgent)

    def _keeps_waiting(self, route: Route) -> bool:
        """A message that may go anywhere does not go to a partition that is slow while another is only full."""
        index = route.partition
        return route.movable and index not in self._healthy and not self._available(index) and self._any_healthy()

    def _admit(self, message: OutgoingMessage, size_bytes: int, route: Route, *, urgent: bool) -> Outgoing | None:
        index = route.partition
        if not self._room.has(index) or not self._memory.reserve(size_bytes):
            return None
        self._room.take(index)
        outgoing = Outgoing(message, index, size_bytes, self._loop.create_future())
        self._unsettled += 1
        self._sent += 1
        self._sent_bytes += size_bytes
        self._partitions[index].add(outgoing, urgent=urgent)
        if self._timer is None and self._options.send_timeout_s:
            self._timer = self._loop.call_later(self._options.send_timeout_s, self._expire)
        return outgoing

    def _available(self, index: int) -> bool:
        """For messages that may go anywhere."""
        return self._room.has(index) and (index in self._healthy or self._look_at(index))

    def _look_at(self, index: int) -> bool:
        """Whether the partition is not slow. Once in a turn of the loop: in between nothing arrives."""
        if self._partitions[index].slow(self._services.timing.now_s() - self._options.slow_after_s):
            return False
        if not self._healthy:
            self._loop.call_soon(self._healthy.clear)
        self._healthy.add(index)
        return True

    def _any_healthy(self) -> bool:
        """It is worth waiting for one that is only full."""
        slow_s = self._services.timing.now_s() - self._options.slow_after_s
        return not all(partition.slow(slow_s) for partition in self._partitions)

    async def _wait_for_room(self, message: OutgoingMessage) -> Outgoing:
        route = self._router.choose(message, self._available)
        queue = ANYWHERE if route.movable else route.partition
        entry = _Waiting(message, message.size_bytes, self._loop.create_future())
        self._line.add(queue, entry)
        self._memory.wait(self._let_in)
        try:
            return await entry.admitted
        except asyncio.CancelledError:
            if not self._line.remove(queue, entry) and not entry.admitted.cancelled() and entry.admitted.exception() is None:
                self._withdraw(entry.admitted.result())
            self._let_in()  # the next may be smaller
            raise

    def _let_in(self) -> None:
        for queue in self._line.partitions:
            self._line.let_in(queue, self._enter_waiting)
        if self._line:
            self._memory.wait(self._let_in)

    def _enter_waiting(self, entry: _Waiting) -> bool:
        if entry.admitted.done():
            return True
        try:
            route = self._router.choose(entry.message, self._available)
            if self._keeps_waiting(route):
                return False
            outgoing = self._admit(entry.message, entry.size_bytes, route, urgent=True)
        except MagnetarError as error:
            entry.admitted.set_exception(error)
            return True
        if outgoing is None:
            return False
        entry.admitted.set_result(outgoing)
        return True

    def _withdraw(self, outgoing: Outgoing) -> None:
        if self._partitions[outgoing.partition].withdraw(outgoing):
            assert isinstance(outgoing.receipt, asyncio.Future)
            outgoing.receipt.cancel()
            self._release(outgoing.partition, (outgoing,))

    def _full(self) -> QueueFull:
        used = self._memory.used_bytes
        return QueueFull(
            f"{self._unsettled} messages of this producer and {used} bytes of all are pending: await some of them first"
        )

    # --- for the partitions

    def settled(self, partition: int, messages: Sequence[Outgoing], error: MagnetarError | None) -> None:
        if error is None:
            self._stored += len(messages)
        else:
            self._failed += len(messages)
        if error is not None or self._options.interceptors:
            for outgoing in messages:
                receipt = outgoing.receipt
                assert isinstance(receipt, asyncio.Future)
                if not receipt.cancelled():
                    receipt.exception()  # a caller that was cancelled does not look
                    message_id = receipt.result() if error is None else None
                    after_receipt(self._options.interceptors, outgoing.message, message_id, error)
        self._release(max(0, partition), messages)

    def _release(self, partition: int, messages: Sequence[Outgoing]) -> None:
        self._room.give_back(partition, len(messages))
        self._unsettled -= len(messages)
        self._memory.release(sum([outgoing.size_bytes for outgoing in messages]))
        if self._line:
            self._let_in()
        if not self._unsettled and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.set_result(None)

    def batch_ended(self, partition: int) -> None:
        self._router.batch_ended(partition)

    def gave_up(self, error: MagnetarError) -> None:
        closed = Closed(f"the producer gave up: {error.message}")
        closed.__cause__ = error
        self._end(closed, error)

    # --- its end

    def forked(self) -> None:
        """In a new process, which has no event loop: nothing is sent from here."""
        self._ended = InvalidOperation(FORKED)

    def _expire(self) -> None:
        limit_s, now_s = self._options.send_timeout_s, self._services.timing.now_s()
        for partition in self._partitions:
            partition.expire(now_s - limit_s)
        oldest_s = min((since for partition in self._partitions if (since := partition.oldest_since_s) is not None), default=None)
        self._timer = None
        if oldest_s is not None or self._unsettled:
            wait_s = limit_s if oldest_s is None else max(0.0, oldest_s + limit_s - now_s) + 0.001
            self._timer = self._loop.call_later(wait_s, self._expire)

    def _end(self, error: MagnetarError, cause: MagnetarError | None = None) -> None:
        self._ended = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._memory.forget(self._let_in)
        for entry in self._line.take_all():
            if not entry.admitted.done():
                entry.admitted.set_exception(error)
        for partition in self._partitions:
            partition.end(cause)


async def _all(openings: Iterable[Coroutine[Any, Any, None]]) -> None:
    """As `gather`, but when it fails or is cancelled nothing goes on."""
    tasks = [asyncio.create_task(opening) for opening in openings]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
