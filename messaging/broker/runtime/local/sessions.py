"""Opens local sessions, and performs the health check with one. The types are in `messages.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from messaging.broker.core.limits.subscribe_rates import ConsumerIdentity
from messaging.broker.core.subscription import subscription_key
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.client_subscriptions import count_subscribe, open_subscription
from messaging.broker.runtime.detach import detach_all
from messaging.broker.runtime.liveness_probe import probe_consumers, probe_producers
from messaging.broker.runtime.local.consumer import LocalConsumer
from messaging.broker.runtime.local.messages import (
    ConsumerListener,
    DeliveredMessage,
    InitialPosition,
    MessagePosition,
    OutgoingMessage,
    ProducerHandle,
    ProducerListener,
    SubscriptionKind,
    TopicListener,
)
from messaging.broker.runtime.local.pattern_consumer import PatternConsumer
from messaging.broker.runtime.local.producer import LocalProducer
from messaging.broker.runtime.local.remote_service import RemoteService
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.local.topic_consumer import PartConsumer, TopicConsumer
from messaging.broker.runtime.local.topics_consumer import TOPICS_MAX, ConsumerOpening, OpenTopicConsumer, TopicsConsumer
from messaging.broker.runtime.ownership.owners import Elsewhere
from messaging.broker.runtime.topics.services import health_topic
from messaging.errors import InvalidValue, MagnetarError, NotAllowed, NotReady
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol.names import TopicName, parse_topic, subscription_name
from messaging.storage.ledger_store import EARLIEST, LATEST, Position

KINDS: dict[SubscriptionKind, SubscriptionType] = {
    "Exclusive": SubscriptionType.EXCLUSIVE,
    "Shared": SubscriptionType.SHARED,
    "Failover": SubscriptionType.FAILOVER,
    "Key_Shared": SubscriptionType.KEY_SHARED,
}
HEALTH_TIMEOUT_S = 5.0


class LocalSessions:
    """Opens local sessions on a broker: a `messaging.broker.runtime.local.messages.LocalService`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._fleet = broker.delegations is not None
        self._remote_service: RemoteService | None = None
        self._health_topic = health_topic(broker.settings.among_brokers)

    async def _elsewhere(self, name: TopicName) -> Elsewhere | None:
        """The other broker that serves the topic; None: this one does. Raises `NotFound` of the namespace, `NotReady`."""
        await self._broker.require_namespace(str(name.namespace))
        return await self._broker.owners.where(name)

    @property
    def _remote(self) -> RemoteService:
        if self._remote_service is None:
            from messaging.broker.runtime.remote.sessions import RemoteSessions  # it loads the SDK, which takes a while

            self._remote_service = RemoteSessions(self._broker)
        return self._remote_service

    async def open_producer(
        self, principal: Principal, topic: str, producer_name: str | None, sink: ProducerListener, *, encrypts: bool = False
    ) -> ProducerHandle:
        name = parse_topic(topic)
        await self._broker.authorize(principal, Action.PRODUCE, Resource(name.tenant, str(name.namespace), str(name)))
        if self._fleet:
            elsewhere = await self._elsewhere(name)
            if elsewhere is not None:
                return await self._remote.open_producer(principal, name, producer_name or "", sink, elsewhere, encrypts=encrypts)
        opened = await self._broker.open_topic(name, writable=True)
        await opened.writable()
        await probe_producers(opened.producers.table, producer_name or "")
        name_given = producer_name or self._broker.new_producer_name()
        producer = LocalProducer(self._broker, opened, name_given, sink, principal, encrypts=encrypts)
        self._broker.peers.sessions.add(producer)
        return producer

    async def partitions(self, principal: Principal, topic: str) -> int:
        name = parse_topic(topic)
        await self._broker.authorize(principal, Action.PRODUCE, Resource(name.tenant, str(name.namespace), str(name)))
        return await self._broker.partition_count(name, auto_create=True)

    def follow_partitions(self, topic: str, grown: Callable[[int], None]) -> Callable[[], None]:
        name, partitioned = parse_topic(topic), self._broker.topics.partitioned
        partitioned.follow(name, grown)
        return lambda: partitioned.unfollow(name, grown)

    async def open_consumer(
        self,
        principal: Principal,
        topic: str,
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        start: MessagePosition | None,
        sink: ConsumerListener,
        *,
        consumer_name: str = "",
        priority: int = 0,
        shared: SharedPermits | None = None,
        wanted: dict[Position, int] | None = None,
        create: bool = True,
    ) -> LocalConsumer:
        """A consumer of one topic, plain or a partition, until the broker closes it. `create`: the topic, where first use does."""
        name = parse_topic(topic)
        chosen = subscription_name(subscription)
        resource = Resource(name.tenant, str(name.namespace), str(name), chosen)
        await self._broker.authorize(principal, Action.CONSUME, resource)
        opened = await self._broker.open_topic(name, create=create)
        durable = durable and opened.keeps_messages
        count_subscribe(opened, ConsumerIdentity(principal.address, consumer_name, 0))
        existing = opened.subscriptions.table.get(subscription_key(chosen, durable))
        begin = EARLIEST if initial == "earliest" else LATEST
        if existing is None and durable:
            existing = await open_subscription(self._broker, principal, opened, chosen, start=begin)
        elif existing is None:
            if start is not None:
                # Of a batch it may want the rest.
                entry_id = start.entry_id if start.batch_index < 0 else start.entry_id - 1
                begin = opened.ledger_list.next_after(Position(start.ledger_id, entry_id))
                wanted = {Position(start.ledger_id, start.entry_id): -1 << start.batch_index + 1} | (wanted or {})
            existing = opened.subscriptions.create_reader(chosen, begin)
        await opened.subscriptions.wait_until_unchanged(existing)
        await probe_consumers(existing, KINDS[kind])
        consumer = LocalConsumer(
            self._broker, opened, existing, sink, principal, consumer_name, priority, shared=shared, wanted=wanted
        )
        opened.consumers.attach(existing, consumer.consumer, KINDS[kind])
        self._broker.peers.sessions.add(consumer)
        return consumer

    async def _open_part(
        self,
        principal: Principal,
        topic: TopicName,
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        start: MessagePosition | None,
        sink: ConsumerListener,
        *,
        consumer_name: str,
        priority: int,
        shared: SharedPermits,
        wanted: dict[Position, int],
        create: bool,
    ) -> PartConsumer:
        """A consumer of a plain topic or a partition, here or at another broker."""
        if self._fleet:
            chosen = subscription_name(subscription)
            resource = Resource(topic.tenant, str(topic.namespace), str(topic), chosen)
            await self._broker.authorize(principal, Action.CONSUME, resource)
            elsewhere = await self._elsewhere(topic)
            if elsewhere is not None:
                return await self._remote.open_consumer(
                    principal,
                    topic,
                    chosen,
                    KINDS[kind],
                    initial,
                    durable,
                    start,
                    sink,
                    elsewhere,
                    consumer_name=consumer_name,
                    priority=priority,
                    shared=shared,
                    wanted=wanted,
                    create=create,
                )
        return await self.open_consumer(
            principal,
            str(topic),
            subscription,
            kind,
            initial,
            durable,
            start,
            sink,
            consumer_name=consumer_name,
            priority=priority,
            shared=shared,
            wanted=wanted,
            create=create,
        )

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
    ) -> TopicConsumer:
        consumer_name = consumer_name or self._broker.new_producer_name()  # one of all partitions, which Failover shares out by it
        opening = self._opening(
            principal, parse_topic(topic), subscription, kind, initial, durable, start, sink, consumer_name, priority
        )
        await opening.open()
        return opening.consumer

    async def subscribe_topics(
        self,
        principal: Principal,
        topics: Sequence[str],
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        sink: TopicListener,
        *,
        consumer_name: str = "",
        priority: int = 0,
    ) -> TopicsConsumer:
        names = list(dict.fromkeys(map(parse_topic, topics)))
        if len(names) > TOPICS_MAX:
            raise InvalidValue(f"these are {len(names):,} topics, and one consumer has {TOPICS_MAX:,} at most: name fewer")
        chosen = subscription_name(subscription)
        for name in names:
            resource = Resource(name.tenant, str(name.namespace), str(name), chosen)
            await self._broker.authorize(principal, Action.CONSUME, resource)
        make = self._maker(principal, subscription, kind, durable, consumer_name, priority, create=True)
        broker, tenant = self._broker, principal.tenant
        consumer = TopicsConsumer(
            tenant,
            sink,
            make,
            memory=broker.memory_limiter.sessions,
            slices=partial(broker.topics.services.loops.slices, tenant),
            detach=partial(detach_all, broker.peers.turn_loop, tenant),
        )
        await consumer.open(names, initial)
        return consumer

    async def subscribe_pattern(
        self,
        principal: Principal,
        pattern: str,
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        sink: TopicListener,
        *,
        consumer_name: str = "",
        priority: int = 0,
        without: str = "",
    ) -> PatternConsumer:
        make = self._maker(principal, subscription, kind, durable, consumer_name, priority, create=False)
        broker, tenant = self._broker, principal.tenant
        consumer = PatternConsumer(
            broker,
            principal,
            pattern,
            subscription_name(subscription),
            sink,
            make,
            memory=broker.memory_limiter.sessions,
            slices=partial(broker.topics.services.loops.slices, tenant),
            detach=partial(detach_all, broker.peers.turn_loop, tenant),
            without=without,
        )
        await consumer.open_matching(initial)
        return consumer

    def _maker(
        self,
        principal: Principal,
        subscription: str,
        kind: SubscriptionKind,
        durable: bool,
        consumer_name: str,
        priority: int,
        *,
        create: bool,
    ) -> OpenTopicConsumer:
        """One name for the consumers of all topics."""
        chosen = consumer_name or self._broker.new_producer_name()

        def make(topic: TopicName, initial: InitialPosition, sink: TopicListener, shared: SharedPermits) -> ConsumerOpening:
            return self._opening(
                principal, topic, subscription, kind, initial, durable, None, sink, chosen, priority, shared=shared, create=create
            )

        return make

    def _opening(
        self,
        principal: Principal,
        name: TopicName,
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        start: MessagePosition | None,
        sink: TopicListener,
        consumer_name: str,
        priority: int,
        *,
        shared: SharedPermits | None = None,
        create: bool = True,
    ) -> ConsumerOpening:
        broker = self._broker

        async def open_one(
            topic: TopicName,
            initial: InitialPosition,
            start: MessagePosition | None,
            sink: ConsumerListener,
            *,
            shared: SharedPermits,
            wanted: dict[Position, int],
        ) -> PartConsumer:
            return await self._open_part(
                principal,
                topic,
                subscription,
                kind,
                initial,
                durable,
                start,
                sink,
                consumer_name=consumer_name,
                priority=priority,
                shared=shared,
                wanted=wanted,
                create=create,
            )

        async def partitions() -> int:
            count = await broker.partition_count(name, auto_create=create)
            if count and start is not None:
                raise NotAllowed(f"{name} is a partitioned topic: begin at earliest or latest, or name one of its partitions")
            return count

        consumer = TopicConsumer(
            name,
            sink,
            open_one,
            initial,
            start,
            partitions=broker.topics.partitioned,
            memory=broker.memory_limiter.sessions,
            slices=broker.topics.services.loops.slices(principal.tenant),
            detach=partial(detach_all, broker.peers.turn_loop, principal.tenant),
            background=broker.background,
            shared=shared,
        )

        async def open_it() -> None:
            resource = Resource(name.tenant, str(name.namespace), str(name), subscription_name(subscription))
            await broker.authorize(principal, Action.CONSUME, resource)
            await consumer.open(partitions)

        return ConsumerOpening(consumer, open_it)

    async def round_trip(self) -> None:
        """Publishes one message on a topic of the broker's own and reads it back. Raises `NotReady`, `StorageFailed`."""
        principal = Principal("service:broker", service=True)
        topic = await self._broker.topics.get(self._health_topic, create=True)
        await topic.writable()
        reader = topic.subscriptions.create_reader(f"health-{self._broker.new_producer_name()}", LATEST)
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        consumer = LocalConsumer(self._broker, topic, reader, _Arrival(arrived), principal)
        topic.consumers.attach(reader, consumer.consumer, SubscriptionType.EXCLUSIVE)
        producer = LocalProducer(self._broker, topic, self._broker.new_producer_name(), None, principal)
        try:
            consumer.flow(1)
            producer.publish([OutgoingMessage(b"health")], lambda positions, error: None)
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                await arrived
        except TimeoutError:
            raise NotReady(f"a message did not come back within {HEALTH_TIMEOUT_S:.0f} s") from None
        finally:
            producer.close()
            consumer.close()


class _Arrival:
    def __init__(self, arrived: asyncio.Future[None]) -> None:
        self._arrived = arrived

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        if not self._arrived.done():
            self._arrived.set_result(None)

    def closed(self, error: MagnetarError | None) -> None:
        pass

    def end_of_topic(self) -> None:
        pass
