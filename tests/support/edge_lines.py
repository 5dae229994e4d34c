"""The lines between listeners and broker: they note what crosses them, and break as a test says. They decide nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from messaging.adminrpc.base import Answer
from messaging.broker.http.context import RpcMethod
from messaging.broker.runtime.local.messages import (
    ConsumerHandle,
    DeliveredMessage,
    InitialPosition,
    LocalService,
    MessagePosition,
    OutgoingMessage,
    ProducerHandle,
    ProducerListener,
    Receipt,
    SubscriptionKind,
    TopicListener,
    TopicsHandle,
)
from messaging.errors import MagnetarError
from messaging.permissions.model import Principal
from tests.support.storage.faults import Fault
from tests.support.waiting import eventually


class MethodLine:
    """`calls`: every (method, request) that reached the admin RPC, in order. `methods` are the methods that note it."""

    def __init__(self, methods: Mapping[str, RpcMethod]) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.methods = {name: self._noted(name, method) for name, method in methods.items()}
        self._failures: dict[str, tuple[Exception, Fault]] = {}

    def fail(self, method: str, error: Exception) -> None:
        """From now on calls of `method` raise `error` instead of reaching the broker."""
        self._failures[method] = error, Fault(f"{method} fails: {error!r}")

    def _noted(self, name: str, method: RpcMethod) -> RpcMethod:
        async def call(request: Any) -> Answer:
            self.calls.append((name, request))
            if name in self._failures:
                error, fault = self._failures[name]
                fault.fire()
                raise error
            return await method(request)

        return call


class SessionLine:
    """A `LocalService` before another one. `producers`, `consumers`: all that were opened, in order; `topics`: of which topics the
    opening was asked for."""

    def __init__(self, sessions: LocalService) -> None:
        self.sessions = sessions
        self.topics: list[str] = []
        self.producers: list[ProducerLine] = []
        self.consumers: list[ConsumerLine] = []
        self.publish_refusal: tuple[MagnetarError, Fault] | None = None
        self._open_refusal: tuple[Exception, Fault] | None = None
        self._holding: Fault | None = None
        self._held: list[Callable[[], None]] = []

    # --- faults

    def refuse_to_open(self, error: Exception) -> None:
        self._open_refusal = error, Fault(f"opening is refused: {error!r}")

    def refuse_to_publish(self, error: MagnetarError) -> None:
        """What is published from now on does not reach the broker."""
        self.publish_refusal = error, Fault(f"publishing is refused: {error!r}")

    def mend(self) -> None:
        """Everything reaches the broker again. What is held stays held."""
        self._open_refusal = self.publish_refusal = None

    def hold_receipts(self) -> None:
        """What is published is stored, and its producer is not told."""
        self._holding = Fault("receipts are held")

    async def receipts_held(self, count: int = 1) -> None:
        """Waits until so many are: an entry is stored before its producer is to be told, and bytes count before that."""
        await eventually(lambda: len(self._held) >= count)

    async def release_receipts(self) -> None:
        """As soon as there is one."""
        await self.receipts_held()
        self._holding = None
        receipts, self._held = self._held, []
        for receipt in receipts:
            receipt()

    def receipt(self, tell: Callable[[], None]) -> None:
        if self._holding is None:
            tell()
        else:
            self._holding.fire()
            self._held.append(tell)

    # --- as a service

    async def open_producer(
        self, principal: Principal, topic: str, producer_name: str | None, sink: ProducerListener, *, encrypts: bool = False
    ) -> ProducerHandle:
        self._check(topic)
        handle = await self.sessions.open_producer(principal, topic, producer_name, sink, encrypts=encrypts)
        line = ProducerLine(self, handle, sink)
        self.producers.append(line)
        return line

    async def partitions(self, principal: Principal, topic: str) -> int:
        return await self.sessions.partitions(principal, topic)

    def follow_partitions(self, topic: str, grown: Callable[[int], None]) -> Callable[[], None]:
        return self.sessions.follow_partitions(topic, grown)

    async def subscribe(
        self,
        principal: Principal,
        topic: str,
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        start: MessagePosition | None,
        sink: TopicListener,
        *,
        consumer_name: str = "",
        priority: int = 0,
    ) -> ConsumerHandle:
        self._check(topic)
        line = ConsumerLine(sink)
        line.handle = await self.sessions.subscribe(
            principal, topic, subscription, kind, initial, durable, start, line, consumer_name=consumer_name, priority=priority
        )
        self.consumers.append(line)
        return line

    async def subscribe_topics(
        self, principal: Principal, topics: Sequence[str], subscription: str, *args: Any, **options: Any
    ) -> TopicsHandle:
        return await self._several(self.sessions.subscribe_topics, principal, topics, subscription, *args, **options)

    async def subscribe_pattern(
        self, principal: Principal, pattern: str, subscription: str, *args: Any, **options: Any
    ) -> TopicsHandle:
        return await self._several(self.sessions.subscribe_pattern, principal, pattern, subscription, *args, **options)

    async def _several(self, subscribe: Callable[..., Awaitable[TopicsHandle]], *args: Any, **options: Any) -> TopicsHandle:
        """The listener comes last of what is given by its place."""
        self._check(str(args[1]))
        line = TopicsLine(args[-1])
        line.handle = line.several = await subscribe(*args[:-1], line, **options)
        self.consumers.append(line)
        return line

    def _check(self, topic: str) -> None:
        self.topics.append(topic)
        if self._open_refusal is not None:
            error, fault = self._open_refusal
            fault.fire()
            raise error


class ProducerLine:
    """A `ProducerHandle` before another one. `blocks`: how many messages each publish brought."""

    def __init__(self, line: SessionLine, handle: ProducerHandle, listener: ProducerListener) -> None:
        self.blocks: list[int] = []
        self.producer_name = handle.producer_name
        self.last_sequence_id = handle.last_sequence_id
        self.gathers = handle.gathers
        self._line = line
        self._handle = handle
        self._listener = listener

    def close_by_broker(self, error: MagnetarError) -> None:
        """As if the broker had closed it, for this reason."""
        self._handle.close()
        self._listener.closed(error)

    def publish(self, messages: Sequence[OutgoingMessage], on_receipt: Receipt) -> None:
        self.blocks.append(len(messages))
        if self._line.publish_refusal is not None:
            error, fault = self._line.publish_refusal
            fault.fire()
            asyncio.get_running_loop().call_soon(on_receipt, None, error)
            return

        def receipt(positions: Sequence[MessagePosition] | None, error: MagnetarError | None) -> None:
            self._line.receipt(lambda: on_receipt(positions, error))

        self._handle.publish(messages, receipt)

    def leave(self) -> None:
        self._handle.leave()

    def close(self) -> None:
        self._handle.close()


class ConsumerLine:
    """A `ConsumerHandle` before another one, and a `TopicListener` after it."""

    handle: ConsumerHandle

    def __init__(self, listener: TopicListener) -> None:
        self.flows: list[int] = []
        self.nacks: list[MessagePosition] = []
        self.delivered: list[DeliveredMessage] = []
        self.closes = 0
        self._listener = listener

    def close_by_broker(self, error: MagnetarError | None) -> None:
        """As if the broker had closed it, for this reason."""
        self.handle.close()
        self._listener.closed(error)

    # --- as a handle

    def flow(self, permits: int) -> None:
        self.flows.append(permits)
        self.handle.flow(permits)

    def ack(self, positions: Sequence[MessagePosition]) -> Awaitable[None]:
        return self.handle.ack(positions)

    def nack(self, positions: Sequence[MessagePosition]) -> None:
        self.nacks += positions
        self.handle.nack(positions)

    async def unsubscribe(self) -> None:
        await self.handle.unsubscribe()

    def close(self) -> None:
        self.closes += 1
        self.handle.close()

    # --- as a listener

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        self.delivered += messages
        self._listener.deliver(messages)

    def withdraw(self, partition: int, topic: str = "") -> int:
        return self._listener.withdraw(partition, topic)

    def topic_added(self) -> None:
        self._listener.topic_added()

    def closed(self, error: MagnetarError | None) -> None:
        self._listener.closed(error)

    def end_of_topic(self) -> None:
        self._listener.end_of_topic()


class TopicsLine(ConsumerLine):
    """A `TopicsHandle`."""

    several: TopicsHandle

    @property
    def topics(self) -> Sequence[str]:
        return self.several.topics
