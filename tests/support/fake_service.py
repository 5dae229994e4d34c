"""A broker in memory behind the same facade as the real one: topics, subscriptions, permits, acknowledgements, permissions.

It keeps every promise of `messaging/broker/runtime/local/messages.py` but durability, and lets a test hold receipts back, refuse
publishes and close what is open, as a broker in trouble would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from messaging.adminrpc.schema import METHODS, Answer, Empty
from messaging.broker.core.ingress_limiter import IngressLimiter
from messaging.broker.core.memory_limiter import MemoryLimiter
from messaging.broker.runtime.local.messages import (
    ConsumerListener,
    DeliveredMessage,
    MessagePosition,
    OutgoingMessage,
    ProducerListener,
    Receipt,
)
from messaging.broker.runtime.peers import Peers
from messaging.errors import AuthenticationFailed, ConsumerBusy, MagnetarError, PreconditionFailed, ProducerBusy, TopicNotFound
from messaging.metrics import Sample
from messaging.permissions.model import ANONYMOUS, Action, Principal, Resource, require
from messaging.protocol.names import parse_topic
from messaging.settings import Settings

PUBLISH_TIME_MS = 1_700_000_000_123


class FakeGrants:
    """`namespaces`: namespace -> role -> actions. Roles named ``admin`` are superusers, tenants have no admins."""

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, set[str]]] = {"public/default": {ANONYMOUS: {"produce", "consume"}}}

    def is_superuser(self, role: str) -> bool:
        return role == "admin"

    def tenant_admins(self, tenant: str) -> Collection[str]:
        return ()

    def namespace_grants(self, namespace: str) -> Mapping[str, Collection[str]]:
        return self.namespaces.get(namespace, {})

    def topic_grants(self, topic: str) -> Mapping[str, Collection[str]]:
        return {}

    def subscription_roles(self, namespace: str, subscription: str) -> Collection[str]:
        return ()


@dataclass
class FakeSubscription:
    name: str
    kind: str
    position: int  # entry id of the next message to look at
    durable: bool
    consumers: list[FakeConsumer] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    acknowledged: set[int] = field(default_factory=set)
    redeliveries: dict[int, int] = field(default_factory=dict)


@dataclass
class FakeTopic:
    name: str
    ledger_id: int
    messages: list[DeliveredMessage] = field(default_factory=list)
    subscriptions: dict[str, FakeSubscription] = field(default_factory=dict)
    producers: dict[str, FakeProducer] = field(default_factory=dict)
    blocks: list[int] = field(default_factory=list)  # how many messages each publish brought

    def dispatch(self) -> None:
        for subscription in self.subscriptions.values():
            for consumer in subscription.consumers:
                consumer.fill()


class FakeProducer:
    def __init__(self, service: FakeService, topic: FakeTopic, name: str, sink: ProducerListener) -> None:
        self.service, self.topic, self.producer_name, self.sink = service, topic, name, sink
        self.last_sequence_id = -1
        self.closed = False

    def publish(self, messages: Sequence[OutgoingMessage], on_receipt: Receipt) -> None:
        assert not self.closed and messages
        error = self.service.refuse_publish
        positions = []
        if error is None:
            self.topic.blocks.append(len(messages))
            for message in messages:
                position = MessagePosition(self.topic.ledger_id, len(self.topic.messages))
                self.last_sequence_id = self.last_sequence_id + 1 if message.sequence_id is None else message.sequence_id
                self.topic.messages.append(
                    DeliveredMessage(
                        position,
                        message.payload,
                        PUBLISH_TIME_MS,
                        message.properties,
                        message.key,
                        message.event_time_ms,
                        producer_name=self.producer_name,
                        sequence_id=self.last_sequence_id,
                        null_value=message.null_value,
                        encryption=message.encryption,
                    )
                )
                positions.append(position)
        self.service.answer_later(lambda: on_receipt(None if error else positions, error), self.topic)

    def close(self) -> None:
        self.closed = True
        self.topic.producers.pop(self.producer_name, None)


class FakeConsumer:
    def __init__(self, topic: FakeTopic, subscription: FakeSubscription, sink: ConsumerListener) -> None:
        self.topic, self.subscription, self.sink = topic, subscription, sink
        self.permits = 0
        self.flows: list[int] = []
        self.nacks: list[MessagePosition] = []
        self.held: set[int] = set()
        self.closed = False

    def flow(self, permits: int) -> None:
        assert permits > 0 and not self.closed
        self.flows.append(permits)
        self.permits += permits
        asyncio.get_running_loop().call_soon(self.fill)

    def fill(self) -> None:
        subscription, found = self.subscription, []
        while self.permits and not self.closed:
            if subscription.returned:
                entry = subscription.returned.pop(0)
            elif subscription.position < len(self.topic.messages):
                entry = subscription.position
                subscription.position += 1
            else:
                break
            if entry in subscription.acknowledged:
                continue
            self.permits -= 1
            self.held.add(entry)
            count = subscription.redeliveries.get(entry, 0)
            found.append(replace(self.topic.messages[entry], redelivery_count=count))
        if found:
            self.sink.deliver(found)

    def ack(self, positions: Sequence[MessagePosition]) -> asyncio.Future[None]:
        self.subscription.acknowledged.update(position.entry_id for position in positions)
        self.held.difference_update(position.entry_id for position in positions)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def nack(self, positions: Sequence[MessagePosition]) -> None:
        self.nacks += positions
        self._return(position.entry_id for position in positions)

    def _return(self, entries: Iterable[int]) -> None:
        for entry in sorted(set(entries) & self.held):
            self.held.discard(entry)
            self.subscription.redeliveries[entry] = self.subscription.redeliveries.get(entry, 0) + 1
            self.subscription.returned.append(entry)
        asyncio.get_running_loop().call_soon(self.topic.dispatch)

    async def unsubscribe(self) -> None:
        if len(self.subscription.consumers) > 1:
            raise PreconditionFailed("others are attached: close them first")
        self.topic.subscriptions.pop(self.subscription.name, None)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.subscription.consumers.remove(self)
        self._return(list(self.held))
        if not self.subscription.durable:
            self.topic.subscriptions.pop(self.subscription.name, None)


class FakeService:
    def __init__(self) -> None:
        self.memory_limiter = MemoryLimiter(256 << 20)
        self.ingress_limiter = IngressLimiter(self.memory_limiter.ingress)
        self.peers = Peers(Settings(data_dir="unused"))
        self.grants = FakeGrants()
        self.tokens: dict[str, Principal] = {}
        self.topics: dict[str, FakeTopic] = {}
        self.why_not_ready = ""
        self.refuse_publish: MagnetarError | None = None
        self.refuse_open: MagnetarError | None = None
        self.hold_receipts = False
        self.held_receipts: list[Any] = []
        self.calls: list[tuple[str, object]] = []
        self.answers: dict[str, Answer | Exception] = {}
        self.samples: list[Sample] = []
        self.failed_sign_ins: list[tuple[str, str]] = []
        self.methods = {method: self._rpc(method) for method in METHODS}

    # The facade

    def sign_in_failed(self, error: AuthenticationFailed, address: str) -> None:
        self.failed_sign_ins.append((error.message, address))

    async def authenticate(self, token: str | None, local: bool) -> Principal:
        if token is None and local:
            return Principal(ANONYMOUS)
        if token is None or token not in self.tokens:
            raise AuthenticationFailed("the token is not valid here: make a new key")
        return self.tokens[token]

    def ready(self) -> tuple[bool, str]:
        return not self.why_not_ready, self.why_not_ready

    def metrics(self, *, private: bool) -> Iterable[Sample]:
        return self.samples

    async def open_producer(
        self, principal: Principal, topic: str, producer_name: str | None, sink: ProducerListener, *, encrypts: bool = False
    ) -> FakeProducer:
        found = self._topic(principal, Action.PRODUCE, topic)
        name = producer_name or f"standalone-{len(found.producers)}"
        if name in found.producers:
            raise ProducerBusy(f"producer {name!r} is connected: choose another name")
        found.producers[name] = FakeProducer(self, found, name, sink)
        return found.producers[name]

    async def open_consumer(
        self,
        principal: Principal,
        topic: str,
        subscription: str,
        kind: str,
        initial: str,
        durable: bool,
        start: MessagePosition | None,
        sink: ConsumerListener,
    ) -> FakeConsumer:
        found = self._topic(principal, Action.CONSUME, topic, subscription)
        at = 0 if initial == "earliest" else len(found.messages)
        at = at if start is None else start.entry_id + 1
        shared = found.subscriptions.setdefault(subscription, FakeSubscription(subscription, kind, at, durable))
        if shared.consumers and kind == "Exclusive":
            raise ConsumerBusy(f"subscription {subscription!r} has its one consumer: use Shared")
        consumer = FakeConsumer(found, shared, sink)
        shared.consumers.append(consumer)
        return consumer

    # For tests

    def topic(self, name: str) -> FakeTopic:
        return self.topics.setdefault(name, FakeTopic(name, ledger_id=len(self.topics) + 1))

    def consumer(self, topic: str) -> FakeConsumer:
        """The one consumer of the topic."""
        [subscription] = self.topics[topic].subscriptions.values()
        [consumer] = subscription.consumers
        return consumer

    def answer_later(self, answer: Any, topic: FakeTopic) -> None:
        def run() -> None:
            answer()
            topic.dispatch()

        if self.hold_receipts:
            self.held_receipts.append(run)
        else:
            asyncio.get_running_loop().call_soon(run)

    def release_receipts(self) -> None:
        self.hold_receipts = False
        held, self.held_receipts = self.held_receipts, []
        for run in held:
            run()

    def _topic(self, principal: Principal, action: Action, topic: str, subscription: str = "") -> FakeTopic:
        if self.refuse_open is not None:
            raise self.refuse_open
        name = parse_topic(topic)
        require(self.grants, principal, action, Resource(name.tenant, str(name.namespace), str(name), subscription))
        if name.local.startswith("missing"):
            raise TopicNotFound(f"topic {name} does not exist: create it first")
        return self.topic(str(name))

    def _rpc(self, method: str) -> Any:
        async def call(request: object) -> Answer:
            self.calls.append((method, request))
            answer = self.answers.get(method, Empty())
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call
