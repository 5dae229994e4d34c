"""The client: the broker's address, the key, and what all producers and consumers share."""

from __future__ import annotations

import inspect
import itertools
import logging
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from messaging.client.addresses import Address, parse_addresses
from messaging.client.arguments import ConsumerArguments, ProducerArguments, consumer_options, producer_options
from messaging.client.backoff import Backoff, retryable
from messaging.client.consuming.consumer import Consumer
from messaging.client.consuming.dead_letters import DeadLetters, Sender
from messaging.client.consuming.options import ConsumerOptions
from messaging.client.consuming.partition import ConsumerServices
from messaging.client.consuming.reader import Reader
from messaging.client.consuming.table_view import TableView
from messaging.client.delayed import DelayedMessages
from messaging.client.errors import Closed, InvalidOperation, KeyUnavailable
from messaging.client.forks import FORKED, watch
from messaging.client.message import EARLIEST, LATEST, MessageId
from messaging.client.patterns import matching_topics
from messaging.client.producing.admission import MemoryLimit
from messaging.client.producing.flushing import Flusher
from messaging.client.producing.options import ProducerOptions
from messaging.client.producing.producer import Producer, ProducerServices
from messaging.client.schemas import BYTES, AutoConsume, AutoProduceBytes, Schema
from messaging.client.timing import Timing
from messaging.client.wire.connections import Connections
from messaging.client.wire.transports import Connector, connector
from messaging.errors import InvalidValue, MagnetarError
from messaging.local_caller import is_loopback
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import TopicName, parse_topic, subscription_name

logger = logging.getLogger("messaging.client")

Key = str | Callable[[], str] | Callable[[], Awaitable[str]] | None
E = TypeVar("E", bound=Producer | Consumer | Reader | TableView)


class Opening(Generic[E]):
    """Await it, or use it as ``async with``: both give the open producer or consumer."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, E]]) -> None:
        self._open = open_
        self._opened: E | None = None

    def __await__(self) -> Generator[Any, Any, E]:
        return self._open().__await__()

    async def __aenter__(self) -> E:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """`pending_bytes`: of all producers, which `memory_bytes_max` limits. `connections`: to brokers. `endpoints`: producers and
    consumers that are open."""

    pending_bytes: int
    connections: int
    endpoints: int


class Client:
    """Made by `connect`. Producers and consumers share one connection to each broker. Belongs to one event loop."""

    def __init__(
        self,
        url: str,
        key: Key,
        *,
        open_timeout_s: float,
        request_timeout_s: float,
        keep_alive_s: float,
        memory_bytes_max: int,
        admin_url: str | None,
        tls: ssl.SSLContext | None,
        connect: Connector,
        timing: Timing,
    ) -> None:
        addresses = parse_addresses(url)
        if key is not None:
            _warn_of_plain_text(addresses)
        self._key = key
        self._open_timeout_s = open_timeout_s
        self._timing = timing
        self._ids = itertools.count(1)
        self._memory = MemoryLimit(memory_bytes_max)
        self._admin_url = admin_url
        self._tls = tls
        self._flusher: Flusher | None = None
        self._connections = Connections(
            url,
            self._token,
            connect,
            timing.wall_ms,
            message_bytes_max=5 << 20,
            keep_alive_s=keep_alive_s,
            timeout_s=request_timeout_s,
        )
        self._endpoints: list[Producer | Consumer] = []
        self._ended: MagnetarError | None = None
        watch(self)

    # --- producers

    def producer(self, topic: str, *, schema: Schema[Any] = BYTES, **arguments: Unpack[ProducerArguments]) -> Opening[Producer]:
        """A producer of `topic` (``persistent://tenant/namespace/topic``). Arguments: see `ProducerOptions` and `BatchLimits`.

        Opening raises the broker's error (`NotAuthorized`, `TopicNotFound`, `ProducerBusy`, ...) or `NotReady`.
        """
        options, target = producer_options(**arguments), parse_topic(topic)
        return Opening(partial(self._open_producer, target, options, schema))

    async def create_producer(self, topic: str, *, schema: Schema[Any] = BYTES, **arguments: Unpack[ProducerArguments]) -> Producer:
        """The same, open."""
        return await self.producer(topic, schema=schema, **arguments)

    async def _open_producer(self, topic: TopicName, options: ProducerOptions, schema: Schema[Any]) -> Producer:
        self._check()
        if isinstance(schema, AutoConsume):
            raise InvalidValue("AUTO_CONSUME is for consumers and readers: give the producer a schema, or AUTO_PRODUCE_BYTES")
        if isinstance(schema, AutoProduceBytes):
            schema = schema.bound_to(await self._schema_of(topic))
        if self._flusher is None:
            self._flusher = Flusher()
        services = ProducerServices(
            self._connections, self._memory, self._flusher, self._timing, lambda: next(self._ids), self._open_timeout_s
        )
        producer = Producer(topic, options, schema, services)
        await producer.open()
        self._keep(producer)
        return producer

    async def _schema_of(self, topic: TopicName) -> pb.Schema | None:
        """The newest, as of the first partition. Tried until a producer would give up, too."""
        name = str(topic.of_partition(0)) if await self._connections.partitions(str(topic)) else str(topic)
        give_up_s, backoff = self._timing.now_s() + self._open_timeout_s, Backoff(self._timing.random)
        while True:
            try:
                return await self._connections.schema(name)
            except MagnetarError as error:
                delay_s = backoff.next_delay_s()
                if not retryable(error, opened_before=False) or self._timing.now_s() + delay_s > give_up_s:
                    raise
                await self._timing.sleep(delay_s)

    # --- consumers

    def consumer(
        self,
        topic: str | Sequence[str],
        subscription: str,
        *,
        schema: Schema[Any] = BYTES,
        **arguments: Unpack[ConsumerArguments],
    ) -> Opening[Consumer]:
        """A consumer of `subscription` on a topic, or on several. Arguments: see `ConsumerOptions`; opening raises as for
        `producer`."""
        names = [topic] if isinstance(topic, str) else list(topic)
        if not names:
            raise InvalidValue("a consumer of no topic: give at least one")
        targets = [parse_topic(name) for name in names]
        options = consumer_options(**arguments)
        what = str(targets[0]) if len(targets) == 1 else f"{len(targets)} topics"
        dead_letters = self._dead_letters(str(targets[0]), subscription, options)
        if options.retry_enabled and dead_letters is not None:
            targets.append(parse_topic(dead_letters.retry_topic))

        async def topics() -> Sequence[TopicName]:
            return targets

        return Opening(partial(self._open_consumer, topics, what, subscription, options, schema, dead_letters))

    async def subscribe(
        self,
        topic: str | Sequence[str],
        subscription: str,
        *,
        schema: Schema[Any] = BYTES,
        **arguments: Unpack[ConsumerArguments],
    ) -> Consumer:
        """The same, open."""
        return await self.consumer(topic, subscription, schema=schema, **arguments)

    def pattern_consumer(
        self, pattern: str, subscription: str, *, schema: Schema[Any] = BYTES, **arguments: Unpack[ConsumerArguments]
    ) -> Opening[Consumer]:
        """A consumer of all topics of a namespace whose whole name matches: ``persistent://tenant/namespace/orders-.*``. New topics
        are found within `topics_update_s`; a new subscription begins there with `initial`. A persistent topic that is deleted is
        left, and not made again. Acknowledge its messages, not their ids: an id does not say of which topic it is."""
        options = consumer_options(**arguments)
        if options.dead_letters is not None or options.retry_enabled:
            raise InvalidValue(
                "a consumer of a pattern has no retry or dead letter topic of its own: set them in the broker's policies"
            )
        topics = partial(matching_topics, self._connections, pattern)
        open_ = partial(self._open_consumer, topics, pattern, subscription, options, schema, None, of_pattern=True)
        return Opening(open_)

    async def _open_consumer(
        self,
        topics: Callable[[], Awaitable[Sequence[TopicName]]],
        what: str,
        subscription: str,
        options: ConsumerOptions,
        schema: Schema[Any],
        dead_letters: DeadLetters | None,
        *,
        of_pattern: bool = False,
    ) -> Consumer:
        self._check()
        if isinstance(schema, AutoProduceBytes):
            raise InvalidValue("AUTO_PRODUCE_BYTES is for producers: a consumer takes a schema, or AUTO_CONSUME")
        name = subscription_name(subscription)
        services = ConsumerServices(self._connections, self._timing, lambda: next(self._ids), self._open_timeout_s)
        consumer = Consumer(topics, what, name, options, schema, services, dead_letters, of_pattern=of_pattern)
        await consumer.open()
        self._keep(consumer)
        return consumer

    def _dead_letters(self, topic: str, subscription: str, options: ConsumerOptions) -> DeadLetters | None:
        if options.dead_letters is None:
            if options.retry_enabled:
                raise InvalidValue("retry_enabled needs dead_letters: say how often a message may come again")
            return None

        async def open_sender(target: str, initial_subscription: str | None) -> Sender:
            encryption = options.dead_letters.encryption if options.dead_letters is not None else None
            producer = ProducerOptions(batch=None, chunking=True, initial_subscription=initial_subscription, encryption=encryption)
            return await self._open_producer(parse_topic(target), producer, BYTES)

        return DeadLetters(options.dead_letters, topic, subscription, open_sender)

    # --- readers

    def reader(
        self,
        topic: str,
        start: MessageId = LATEST,
        *,
        inclusive: bool = False,
        schema: Schema[Any] = BYTES,
        **arguments: Unpack[ConsumerArguments],
    ) -> Opening[Reader]:
        """Reads `topic` (each of its partitions) from after `start`, or from it if `inclusive`; `EARLIEST` and `LATEST` are the
        ends of the topic. The id of a message is of one partition: where there are more, it begins at one of the ends."""
        target, options = parse_topic(topic), _of_reader(start, arguments)

        async def topics() -> Sequence[TopicName]:
            return [target]

        async def open_() -> Reader:
            name = f"reader-{int(self._timing.random() * (1 << 40)):010x}"
            consumer = await self._open_consumer(topics, str(target), name, options, schema, None)
            if start not in (EARLIEST, LATEST) and len(consumer.topics) > 1:
                await consumer.close()
                raise InvalidValue(
                    f"{target} has {len(consumer.topics)} partitions, and the id of a message is of one of them: read that "
                    "partition by its name, or begin at EARLIEST or LATEST"
                )
            return Reader(consumer, start, inclusive=inclusive)

        return Opening(open_)

    def table_view(self, topic: str, *, schema: Schema[Any] = BYTES) -> Opening[TableView]:
        """The latest value of each key of `topic`, read when it opens and followed from then on."""

        async def open_() -> TableView:
            view = TableView(await self.reader(topic, EARLIEST, schema=schema, read_compacted=parse_topic(topic).persistent))
            try:
                await view.refresh()
            except BaseException:
                await view.close()
                raise
            return view

        return Opening(open_)

    async def partitions(self, topic: str) -> list[str]:
        """The names of its partitions; the topic itself if it has none."""
        target = parse_topic(topic)
        count = await self._connections.partitions(str(target))
        return [str(target.of_partition(index)) for index in range(count)] or [str(target)]

    def delayed(self, topic: str) -> DelayedMessages:
        """The delayed messages that wait in `topic`, to cancel and reschedule them. Needs `admin_url`."""
        target = parse_topic(topic)
        if self._admin_url is None:
            raise InvalidOperation('delayed messages are changed over REST: connect with admin_url="http://host:8080"')
        if not target.persistent:
            raise InvalidOperation("a topic that is not persistent keeps no delayed messages")
        return DelayedMessages(target, self._admin_url, self._tls, self._token)

    @property
    def statistics(self) -> ClientStatistics:
        open_ = sum(not endpoint.closed for endpoint in self._endpoints)
        return ClientStatistics(self._memory.used_bytes, self._connections.usable, open_)

    # --- its end

    async def close(self) -> None:
        """Closes every producer and consumer, as they close, and the connections. Idempotent."""
        self._ended = self._ended or Closed("the client is closed")
        if isinstance(self._ended, InvalidOperation):
            return  # in a new process
        try:
            while self._endpoints:
                await self._endpoints.pop().close()
        finally:
            await self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(self._ended, InvalidOperation):
            return  # in a new process
        self._ended = self._ended or Closed("the client is closed")
        try:
            while self._endpoints:
                await self._endpoints.pop().__aexit__(kind, error, trace)
        finally:
            await self._end()

    async def _end(self) -> None:
        if self._flusher is not None:
            self._flusher.close()
        await self._connections.close()

    def _check(self) -> None:
        if self._ended is not None:
            raise self._ended

    def forked(self) -> None:
        """In the new process. Everything of it belongs to the former."""
        self._ended = InvalidOperation(FORKED)
        for endpoint in self._endpoints:
            endpoint.forked()
        self._endpoints = []
        self._connections.forked()
        self._flusher = None

    def _keep(self, endpoint: Producer | Consumer) -> None:
        self._endpoints = [known for known in self._endpoints if not known.closed]
        self._endpoints.append(endpoint)

    async def _token(self) -> str | None:
        """Called for each connection, and whenever the broker asks, so that a renewed key is used from then on."""
        key = self._key
        if not callable(key):
            return key
        try:
            given = key()
            given = await given if inspect.isawaitable(given) else given
        except MagnetarError:
            raise
        except Exception as failure:
            error = KeyUnavailable(f"the function that gives the key failed: {type(failure).__name__}: {failure}")
            raise error from failure
        if not isinstance(given, str):
            raise KeyUnavailable(f"the function that gives the key returned no text, but {type(given).__name__}")
        return given


def connect(
    url: str,
    key: Key = None,
    *,
    tls: ssl.SSLContext | None = None,
    open_timeout_s: float = 10.0,
    request_timeout_s: float = 30.0,
    keep_alive_s: float = 30.0,
    memory_bytes_max: int = 64 << 20,
    admin_url: str | None = None,
    transport: Connector | None = None,
    timing: Timing | None = None,
) -> Client:
    """A client of the broker at `url`: ``pulsar://host:6650``, ``pulsar+ssl://``, or ``ws://host:8081`` and ``wss://`` where only
    HTTP passes. Does no I/O itself.

    `key` is a key of a tenant, or a function (plain or async) that returns one; None is anonymous. A function is called again
    before the key ends, if it says when, and when the broker asks. `open_timeout_s` bounds how long opening a producer or consumer
    continues trying. `memory_bytes_max` is what all producers may have on their way together. `admin_url` is the platform's web
    address, for `Client.delayed`.
    """
    return Client(
        url,
        key,
        open_timeout_s=open_timeout_s,
        request_timeout_s=request_timeout_s,
        keep_alive_s=keep_alive_s,
        memory_bytes_max=memory_bytes_max,
        admin_url=admin_url,
        tls=tls,
        connect=transport or connector(tls),
        timing=timing or Timing(),
    )


def _of_reader(start: MessageId, arguments: ConsumerArguments) -> ConsumerOptions:
    return replace(consumer_options(**arguments), kind="exclusive", durable=False, start=start, ack_timeout_s=0.0)


def _warn_of_plain_text(addresses: Sequence[Address]) -> None:
    for address in addresses:
        if not address.tls and not is_loopback(address.host):
            logger.warning("the key goes to %s unencrypted: use pulsar+ssl:// or wss://", address.host)
