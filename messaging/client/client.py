"""The client: the broker's address, the key, and what all producers share."""

from __future__ import annotations

import inspect
import logging
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from messaging.client.connection import ConnectionLoop, Timing
from messaging.client.consumer import Consumer, ConsumerOptions, Initial, Kind
from messaging.client.errors import Closed
from messaging.client.pipeline import MemoryBudget
from messaging.client.producer import Producer, ProducerOptions
from messaging.client.transport import Connector, WebSocketConnector
from messaging.errors import InvalidValue
from messaging.local_caller import is_loopback
from messaging.protocol.names import TopicName, parse_topic, subscription_name

logger = logging.getLogger("messaging.client")

Key = str | Callable[[], str] | Callable[[], Awaitable[str]] | None
E = TypeVar("E", bound=Producer | Consumer)


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


class Client:
    """Made by `connect`. Connections are opened by producers and consumers, one each, and closed with it."""

    def __init__(
        self,
        url: str,
        key: Key,
        *,
        tls: ssl.SSLContext | None,
        open_timeout_s: float,
        memory_bytes_max: int,
        message_bytes_max: int,
        connector: Connector | None,
        timing: Timing,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("ws", "wss") or not parts.hostname:
            raise InvalidValue(f"{url!r} is not a broker URL: use ws://host:8081 or wss://host:8081")
        if key is not None and parts.scheme == "ws" and not is_loopback(parts.hostname):
            logger.warning("the key goes to %s unencrypted: use wss://", parts.hostname)
        self._url = url.rstrip("/")
        self._key = key
        self._open_timeout_s = open_timeout_s
        self._message_bytes_max = message_bytes_max
        self._memory = MemoryBudget(memory_bytes_max)
        frame_bytes_max = (message_bytes_max + 2) // 3 * 4 + (1 << 20)
        self._connector = connector or WebSocketConnector(frame_bytes_max, tls)
        self._timing = timing
        self._endpoints: list[Producer | Consumer] = []
        self._closed = False

    def producer(
        self,
        topic: str,
        *,
        name: str | None = None,
        first_sequence_id: int | None = None,
        pending_max: int = 1000,
        send_timeout_s: float = 30.0,
    ) -> Opening[Producer]:
        """A producer of `topic` (``persistent://tenant/namespace/topic``). The options are those of `ProducerOptions`.

        Opening raises the broker's error (`NotAuthorized`, `TopicNotFound`, `ProducerBusy`, ...) or `NotReady`.
        """
        options = ProducerOptions(name, first_sequence_id, pending_max, send_timeout_s)
        target = parse_topic(topic)

        async def open_() -> Producer:
            self._check()
            producer = Producer(str(target), options, self._memory, self._message_bytes_max, self._timing)
            url = f"{self._url}/ws/v2/producer/{_path(target)}?{urlencode({'producerName': producer.name})}"
            await producer.open(self._loop(f"producer {target}", url, producer))
            self._keep(producer)
            return producer

        return Opening(open_)

    def consumer(
        self,
        topic: str,
        subscription: str,
        *,
        kind: Kind = "exclusive",
        initial: Initial = "latest",
        name: str | None = None,
        unacknowledged_max: int = 1000,
        nack_delay_s: float = 60.0,
    ) -> Opening[Consumer]:
        """A consumer of `subscription` on `topic`. The options are those of `ConsumerOptions`; opening raises as for `producer`."""
        options = ConsumerOptions(kind, initial, name, unacknowledged_max, nack_delay_s)
        target = parse_topic(topic)
        subscription_name(subscription)

        async def open_() -> Consumer:
            self._check()
            consumer = Consumer(str(target), subscription)
            url = f"{self._url}/ws/v2/consumer/{_path(target)}/{quote(subscription, safe='')}?{urlencode(_query(options))}"
            await consumer.open(self._loop(f"consumer {target} {subscription}", url, consumer))
            self._keep(consumer)
            return consumer

        return Opening(open_)

    async def close(self) -> None:
        """Closes every producer and consumer, as they close. Idempotent."""
        self._closed = True
        while self._endpoints:
            await self._endpoints.pop().close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed = True
        while self._endpoints:
            await self._endpoints.pop().__aexit__(kind, error, trace)

    def _check(self) -> None:
        if self._closed:
            raise Closed("the client is closed")

    def _keep(self, endpoint: Producer | Consumer) -> None:
        self._endpoints = [known for known in self._endpoints if not known.closed]
        self._endpoints.append(endpoint)

    def _loop(self, name: str, url: str, endpoint: Producer | Consumer) -> ConnectionLoop:
        return ConnectionLoop(name, url, self._headers, self._connector, endpoint, self._timing, self._open_timeout_s)

    async def _headers(self) -> Mapping[str, str]:
        """Called for each connection, so that a renewed key is used from then on."""
        key = self._key
        if callable(key):
            given = key()
            key = await given if inspect.isawaitable(given) else given
        return {"Authorization": f"Bearer {key}"} if key is not None else {}


def connect(
    url: str,
    key: Key = None,
    *,
    tls: ssl.SSLContext | None = None,
    open_timeout_s: float = 10.0,
    memory_bytes_max: int = 64 << 20,
    message_bytes_max: int = 5_242_880,
    connector: Connector | None = None,
    timing: Timing | None = None,
) -> Client:
    """A client of the broker at `url` (``ws://host:8081``, ``wss://`` for TLS). Does no I/O itself.

    `key` is a key of a tenant, or a function (plain or async) that returns one; None is anonymous. `open_timeout_s` bounds how long
    opening a producer or consumer continues trying. `memory_bytes_max` is what all producers may have on their way together.
    """
    return Client(
        url,
        key,
        tls=tls,
        open_timeout_s=open_timeout_s,
        memory_bytes_max=memory_bytes_max,
        message_bytes_max=message_bytes_max,
        connector=connector,
        timing=timing or Timing(),
    )


def _path(topic: TopicName) -> str:
    return f"{topic.domain}/{topic.tenant}/{topic.namespace_local}/{quote(topic.local, safe='')}"


def _query(options: ConsumerOptions) -> dict[str, str | int]:
    query: dict[str, str | int] = {
        "subscriptionType": options.kind.capitalize(),
        "subscriptionInitialPosition": options.initial.capitalize(),
        "receiverQueueSize": options.unacknowledged_max,
        "negativeAckRedeliveryDelay": round(options.nack_delay_s * 1000),
    }
    if options.name:
        query["consumerName"] = options.name
    return query
