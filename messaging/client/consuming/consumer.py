"""The consumer of a subscription: of one topic with all its partitions, of several topics, or of a pattern of names."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from messaging.client.consuming.dead_letters import DeadLetters
from messaging.client.consuming.interceptors import before_receive, on_ack, on_nack
from messaging.client.consuming.last_deliveries import LastDeliveries
from messaging.client.consuming.options import PREFETCH_ACROSS_MAX, ConsumerOptions
from messaging.client.consuming.partition import ConsumerServices, Sought, TopicConsumer
from messaging.client.consuming.redelivery import Entry
from messaging.client.consuming.writers import Writers
from messaging.client.errors import Closed, InvalidOperation, ReceiveTimedOut
from messaging.client.forks import FORKED
from messaging.client.message import Message, MessageId
from messaging.client.schemas import Schema
from messaging.errors import InvalidValue, MagnetarError, TopicNotFound
from messaging.protocol.names import TopicName, parse_topic

logger = logging.getLogger("messaging.client")

# Returns the topics that the consumer is to have now.
Topics = Callable[[], Awaitable[Sequence[TopicName]]]


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """`queued`: messages that arrived and were not received."""

    received: int
    acknowledged: int
    refused: int
    queued: int
    topics: int
    topics_connected: int


class Consumer:
    """Receives messages of one subscription. Made by `Client.consumer`; belongs to one event loop.

    ::

        async for message in consumer:
            handle(message)
            await consumer.ack(message)

    Each message comes at least once: what was not acknowledged when the connection broke comes again. Messages of one topic or
    partition come in its order (exclusive and failover), or in the order of each key (key_shared).
    """

    def __init__(
        self,
        topics: Topics,
        name: str,
        subscription: str,
        options: ConsumerOptions,
        schema: Schema[Any],
        services: ConsumerServices,
        dead_letters: DeadLetters | None,
        *,
        of_pattern: bool = False,
    ) -> None:
        """`of_pattern`: no persistent topic is made by it, and one that is deleted is left."""
        self._of_pattern = of_pattern
        self.topic = name
        self.subscription = subscription
        self._topics = topics
        self._options = options
        self._schema = schema
        self._services = services
        self._dead_letters = dead_letters
        self._writers = Writers(schema, services.timing)
        self._consumers: dict[str, TopicConsumer] = {}
        self._queue: deque[tuple[TopicConsumer, Message]] = deque()
        self._arrived = asyncio.Event()
        self._last_deliveries = _last_deliveries(options, dead_letters)
        self._updates: asyncio.Task[None] | None = None
        self._ended: MagnetarError | None = None
        self._failed = False
        self._topics_ended: set[str] = set()
        self._topics_left = False  # of those whose messages it received some are deleted
        self._received = self._acknowledged = self._refused = 0

    # --- receiving

    async def receive(self, timeout_s: float | None = None) -> Message:
        """The next message. Raises `ReceiveTimedOut` after `timeout_s`, `Closed`. Cancelling it loses no message."""
        if self._queue and not self._schema.resolves:
            message = self._take()
            assert message is not None
            return message
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if self._schema.resolves:
                        await self._load_writer()
                    message = self._take()
                    if message is not None:
                        return message
                    if self._ended is not None:
                        raise self._ended
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise ReceiveTimedOut(f"no message of {self.subscription!r} on {self.topic} within {timeout_s:g} s") from None

    async def receive_batch(self, messages_max: int = 100, bytes_max: int = 10 << 20, timeout_s: float = 0.1) -> list[Message]:
        """What arrives until one of the limits is reached; at least one message if there is any in time, else an empty list."""
        if messages_max < 1:
            raise InvalidValue(f"messages_max is {messages_max}: use 1 or more")
        messages: list[Message] = []
        size = 0
        try:
            async with asyncio.timeout(timeout_s):
                while len(messages) < messages_max and size < bytes_max:
                    if self._schema.resolves:
                        await self._load_writer()
                    message = self._take()
                    if message is None:
                        if self._ended is not None:
                            break
                        self._arrived.clear()
                        await self._arrived.wait()
                        continue
                    messages.append(message)
                    size += len(message.payload)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            for message in messages:  # they come again at once: nobody else has them
                if (source := self._consumers.get(message.topic)) is not None:
                    source.nack(message.id, 0.0)
            raise
        if not messages and self._ended is not None:
            raise self._ended
        return messages

    def _take(self) -> Message | None:
        if not self._queue:
            return None
        source, message = self._queue.popleft()
        self._received += 1
        source.consumed(1)
        if not self._options.durable:
            source.moved_to(message.id)
        return self._writers.resolved(message) if self._schema.resolves else message

    async def _load_writer(self) -> None:
        """The first message of the queue can be read when it returns, or there is none."""
        while self._queue and self._writers.missing(self._queue[0][1]):
            source, message = self._queue[0]
            await self._writers.load(message, source.schema_of)

    async def run(self, handle: Callable[[Message], Awaitable[None]], *, workers: int = 1) -> None:
        """Calls `handle` with each message until the consumer is closed, `workers` of them at once. What `handle` returns from is
        acknowledged; what it raises is logged, and the message comes again. So does one whose acknowledgement fails."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work(handle))

    async def _work(self, handle: Callable[[Message], Awaitable[None]]) -> None:
        async for message in self:
            try:
                await handle(message)
            except Exception:
                logger.exception("%s: message %s could not be handled", self.topic, message.id)
                answer: Callable[[Message], Awaitable[object]] = self.nack
            else:
                answer = self.ack
            if self._ended is not None:
                continue  # closed meanwhile: the message comes again
            try:
                await answer(message)
            except MagnetarError as error:
                logger.warning("%s: message %s may come again: %s", self.topic, message.id, error.message)

    @property
    def queued_messages(self) -> int:
        """Messages that have arrived and were not received yet."""
        return len(self._queue)

    @property
    def closed(self) -> bool:
        return self._ended is not None

    @property
    def of_parent(self) -> bool:
        """This process was forked after it was made."""
        return isinstance(self._ended, InvalidOperation)

    @property
    def next_message(self) -> Message | None:
        """What `receive` would return at once. Its value may not be known yet."""
        return self._queue[0][1] if self._queue else None

    @property
    def arrived_last(self) -> dict[str, Entry]:
        """By topic or partition: what came last from the broker on this connection, whether it could be read or not."""
        return {topic: entry for topic, consumer in self._consumers.items() if (entry := consumer.arrived_last) is not None}

    def sought(self, topic: str) -> Sought | None:
        """The last seek of a topic or partition that the broker was asked for and did not refuse."""
        consumer = self._consumers.get(topic)
        return None if consumer is None else consumer.sought

    @property
    def reached_end(self) -> bool:
        """All its topics were terminated, and everything was delivered."""
        return bool(self._consumers) and self._topics_ended >= self._consumers.keys() and not self._queue

    @property
    def topics(self) -> list[str]:
        """Each partition on its own."""
        return list(self._consumers)

    @property
    def statistics(self) -> ConsumerStatistics:
        connected = sum(consumer.connected for consumer in self._consumers.values())
        return ConsumerStatistics(
            self._received, self._acknowledged, self._refused, len(self._queue), len(self._consumers), connected
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """Ends after `close`; raises `Closed` if the consumer gave up."""
        try:
            return await self.receive()
        except Closed:
            if self._failed:
                raise
            raise StopAsyncIteration from None

    # --- answering

    async def ack(self, message: Message | MessageId) -> bool:
        """The message is done with. Returns when that is on its way; with `ack_receipts` when it is stored. If the connection
        breaks before, it is sent again on the next; `ConnectionLost` says that no receipt came within `request_timeout_s`.

        False, at once: the broker is not told of this message, which may come again. It is one of a batch, and the broker hears of
        batches only when all of their messages are acknowledged (`batch_index_ack=False`), or the batch is not known here any more:
        it was acknowledged before, the subscription was moved by `seek`, or the id is of another consumer. Or its topic was one of
        a pattern, and is deleted."""
        return await self._ack(message, cumulative=False)

    async def ack_cumulative(self, message: Message | MessageId) -> bool:
        """This message and all before it, of its topic or partition, are done with. Returns as `ack` does; False: the broker is
        told of the batches before that of this message."""
        if self._options.shared:
            raise InvalidOperation(f"a {self._options.kind} subscription acknowledges each message: others have those before it")
        return await self._ack(message, cumulative=True)

    async def nack(self, message: Message | MessageId, *, delay_s: float | None = None) -> None:
        """Asks for the message again, after the consumer's `nack_delay_s` or `delay_s`. On an exclusive or failover subscription
        everything that is not acknowledged comes again."""
        if self._of_gone_topic(message):
            return
        source, message_id = self._source(message)
        self._refused += 1
        if self._options.interceptors:
            on_nack(self._options.interceptors, message_id)
        source.nack(message_id, delay_s)

    async def reconsume_later(self, message: Message, delay_s: float, properties: dict[str, str] | None = None) -> None:
        """Sends the message to the retry topic, to come again after `delay_s`, and acknowledges it. What came too often goes to the
        dead letter topic. Needs `retry_enabled`, and a message that was decrypted."""
        if self._dead_letters is None or not self._options.retry_enabled:
            raise InvalidOperation("reconsume_later needs a consumer with retry_enabled=True")
        await self._dead_letters.retry(message, delay_s, properties or {})
        await self.ack(message)

    async def redeliver(self) -> None:
        """Everything that is not acknowledged comes again, at once."""
        self._check()
        for consumer in self._consumers.values():
            consumer.redeliver_all()

    async def _ack(self, message: Message | MessageId, *, cumulative: bool) -> bool:
        if self._of_gone_topic(message):
            return False
        source, message_id = self._source(message)
        self._acknowledged += 1
        if self._last_deliveries is not None:
            self._last_deliveries.acknowledged(source.topic, message_id)
        if self._options.interceptors:
            on_ack(self._options.interceptors, message_id, cumulative=cumulative)
        result = source.ack(message_id, cumulative=cumulative)
        if result.receipt is not None:
            try:
                await result.receipt
            except TopicNotFound:
                if not self._of_pattern:
                    raise
                return False  # it was deleted meanwhile
        return result.told

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _of_gone_topic(self, message: Message | MessageId) -> bool:
        return self._of_pattern and isinstance(message, Message) and message.topic not in self._consumers and not self.closed

    def _source(self, message: Message | MessageId) -> tuple[TopicConsumer, MessageId]:
        self._check()
        if isinstance(message, Message):
            source = self._consumers.get(message.topic)
            if source is None:
                raise InvalidValue(f"the message is of {message.topic}, which this consumer does not have")
            return source, message.id
        if len(self._consumers) == 1 and not self._topics_left:
            return next(iter(self._consumers.values())), message
        sources = [consumer for topic, consumer in self._consumers.items() if parse_topic(topic).partition == message.partition]
        if message.partition < 0 or len(sources) != 1 or self._topics_left:
            raise InvalidValue("this consumer has or had several topics: name the message, its id does not say of which it is")
        return sources[0], message

    # --- the subscription

    async def seek(self, target: MessageId | int, *, inclusive: bool = False) -> None:
        """Continues after a message, with it if `inclusive`, or at the first that was published at this time or later (ms since
        1970, in all partitions). The whole subscription moves; other consumers of a shared one may get the message named."""
        self._check()
        if isinstance(target, MessageId) and target.ledger_id >= 0 and target.entry_id < (1 << 63) - 1:
            source, _ = self._source(target)
            await source.seek(target, inclusive=inclusive)
            return
        for consumer in list(self._consumers.values()):
            await consumer.seek(target, inclusive=inclusive)

    async def last_message_ids(self) -> dict[str, MessageId]:
        """By topic or partition; entry -1 for an empty one."""
        self._check()
        return {topic: await consumer.last_message_id() for topic, consumer in list(self._consumers.items())}

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Deletes the subscription with its position, and closes."""
        self._check()
        for consumer in list(self._consumers.values()):
            await consumer.unsubscribe(force=force)
        await self.close()

    async def close(self) -> None:
        """Sends the acknowledgements that are due and closes. What was received and not acknowledged comes again. Idempotent."""
        if self.of_parent:
            return
        self._end(Closed("the consumer is closed"))
        if self._updates is not None:
            self._updates.cancel()
            await asyncio.gather(self._updates, return_exceptions=True)
        if self._last_deliveries is not None:
            await self._last_deliveries.wait(self._services.open_timeout_s)
        await asyncio.gather(*(consumer.close() for consumer in self._consumers.values()), return_exceptions=True)
        if self._dead_letters is not None:
            await self._dead_letters.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # --- for the client

    async def open(self) -> None:
        """Raises why one of its topics cannot be opened; none is then open."""
        try:
            await self._update()
        except BaseException:
            await self.close()
            raise
        self._updates = asyncio.create_task(self._follow_topics(), name=f"magnetar topics of {self.topic}")

    async def _update(self) -> None:
        """Opens what is new."""
        wanted: list[TopicName] = []
        for topic in await self._topics():
            count = 0 if topic.partition >= 0 else await self._services.connections.partitions(str(topic))
            wanted.extend([topic.of_partition(index) for index in range(count)] if count else [topic])
        prefetch = max(1, min(self._options.prefetch_max, PREFETCH_ACROSS_MAX // max(1, len(wanted))))
        added = [
            TopicConsumer(
                str(topic),
                topic.partition,
                self.subscription,
                self._options,
                prefetch,
                self._schema,
                self,
                self._services,
                # One that is not persistent exists as long as somebody uses it: it is gone whenever it was unloaded.
                existing_only=self._of_pattern and topic.persistent,
            )
            for topic in wanted
            if str(topic) not in self._consumers
        ]
        opened = await asyncio.gather(*(self._open(consumer) for consumer in added), return_exceptions=True)
        for outcome in opened:
            if isinstance(outcome, BaseException) and not (self._of_pattern and isinstance(outcome, TopicNotFound)):
                raise outcome

    async def _open(self, consumer: TopicConsumer) -> None:
        self._consumers[consumer.topic] = consumer
        try:
            await consumer.open()
        except BaseException:
            self._consumers.pop(consumer.topic, None)
            raise

    async def _follow_topics(self) -> None:
        while True:
            await self._services.timing.sleep(self._options.topics_update_s)
            try:
                await self._update()
            except MagnetarError as error:
                logger.info("%s: its topics could not be read: %s", self.topic, error.message)

    # --- for its topics

    def arrived(self, source: TopicConsumer, messages: Sequence[Message]) -> None:
        for message in messages:
            if self._options.interceptors:
                message = before_receive(self._options.interceptors, message)
            if self._last_deliveries is not None:
                self._last_deliveries.delivered(source.topic, message)
            self._queue.append((source, message))
        self._arrived.set()

    def queued(self, source: TopicConsumer) -> set[Entry]:
        queued = [message.id for queued_source, message in self._queue if queued_source is source]
        if queued and queued[0].batch_index > 0:  # those before it in its batch were received
            queued = [message_id for message_id in queued if message_id[:2] != queued[0][:2]]
        return {Entry(*message_id[:2]) for message_id in queued}

    def dropped(self, source: TopicConsumer, entries: Sequence[Entry] | None) -> int:
        before = len(self._queue)
        gone = None if entries is None else set(entries)
        self._queue = deque(
            item for item in self._queue if item[0] is not source or (gone is not None and Entry(*item[1].id[:2]) not in gone)
        )
        if self._last_deliveries is not None:
            self._last_deliveries.dropped(source.topic, gone)
        return before - len(self._queue)

    def refused(self, source: TopicConsumer, entry: Entry) -> bool:
        return self._last_deliveries is not None and self._last_deliveries.refused(source, entry)

    def ended(self, source: TopicConsumer) -> None:
        self._topics_ended.add(source.topic)
        self._arrived.set()

    def gave_up(self, source: TopicConsumer, error: MagnetarError) -> None:
        if self._updates is None:
            return  # `open` raises it
        if self._of_pattern and isinstance(error, TopicNotFound):
            self._consumers.pop(source.topic, None)
            self._topics_ended.discard(source.topic)
            self._topics_left = True
            return  # if it is made again it matches again
        closed = Closed(f"the consumer gave up: {error.message}")
        closed.__cause__ = error
        self._failed = True
        self._end(closed)

    def forked(self) -> None:
        """In a new process: what was received here belongs to the former."""
        self._ended = InvalidOperation(FORKED)
        self._failed = True
        self._queue.clear()

    def _end(self, error: MagnetarError) -> None:
        if self._ended is None:
            self._ended = error
        self._arrived.set()


def _last_deliveries(options: ConsumerOptions, dead_letters: DeadLetters | None) -> LastDeliveries | None:
    if options.dead_letters is None or dead_letters is None:
        return None
    return LastDeliveries(options.dead_letters.max_redeliveries, dead_letters)
