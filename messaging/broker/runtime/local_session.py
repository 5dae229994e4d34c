"""Producers and consumers inside the broker's own process: what the WebSocket API, health checks and tools use.

They go the same way as those of the binary protocol: the same topics, subscriptions, permissions and log. Only here does the broker
open batches, because these clients take single plain messages. The types are in `local_messages.py`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence

import structlog

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.producers import Producer
from messaging.broker.core.subscription import Kind, Subscription
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local_messages import (
    ConsumerSink,
    DeliveredMessage,
    InitialPosition,
    MessagePosition,
    OutgoingMessage,
    ProducerSink,
    Receipt,
    SubscriptionKind,
)
from messaging.broker.runtime.topic import LATEST, Topic
from messaging.errors import MagnetarError, MessageTooLarge, NotAllowed, NotReady, PreconditionFailed, StorageFailed
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol import hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import singles
from messaging.protocol.frames import FrameError, build_send, parse_stored
from messaging.protocol.hot import Sent
from messaging.protocol.names import TopicName, parse_topic, subscription_name
from messaging.storage.seam import EARLIEST, Position, StoreError

log = structlog.get_logger("broker.local")

KINDS: dict[SubscriptionKind, Kind] = {"Exclusive": Kind.EXCLUSIVE, "Shared": Kind.SHARED, "Failover": Kind.FAILOVER}
HEALTH_TOPIC = TopicName("persistent", "magnetar", "system", "health")
HEALTH_TIMEOUT_S = 5.0


class LocalProducer:
    """`ProducerHandle` and, towards the topic, `messaging.broker.core.producers.ProducerSink`."""

    def __init__(self, service: Broker, topic: Topic, name: str, sink: ProducerSink | None, principal: Principal) -> None:
        self.service = service
        self.topic = topic
        self.principal = principal
        self.producer_name = name
        self.last_sequence_id = topic.inlet.dedup.highest_taken(name.encode()) if topic.inlet.dedup is not None else -1
        self._sink = sink
        self._producer = Producer(0, name, self, now_ms=service.now_ms())
        self._due: deque[tuple[int, Receipt]] = deque()
        self._ids: list[MessagePosition] = []  # receipted, and not yet enough for the first of `_due`
        self._sequence = topic.inlet.dedup.highest_taken(name.encode()) + 1 if topic.inlet.dedup is not None else 0
        self.open = True
        topic.producers.attach(self._producer)

    def publish(self, messages: Sequence[OutgoingMessage], on_receipt: Receipt) -> None:
        loop = asyncio.get_running_loop()
        limit = self.service.settings.message_bytes_max
        if not self.open:
            loop.call_soon(on_receipt, None, NotReady("the producer is closed: open it again"))
            return
        largest = max(len(message.payload) for message in messages)
        if largest > limit:
            text = f"a message of {largest} bytes is larger than message_bytes_max = {limit}: send it in parts"
            loop.call_soon(on_receipt, None, MessageTooLarge(text))
            return
        buf = b"".join(self._frame(message) for message in messages)
        sent: list[Sent] = []
        hot.scan(buf, 0, len(buf), sent)
        self._due.append((len(sent), on_receipt))
        try:
            self.topic.inlet.publish(self._producer, buf, sent, len(sent))
        except StoreError as error:
            self._due.pop()
            loop.call_soon(on_receipt, None, StorageFailed(f"the message is not stored: {error}"))
            self.service.topic_failed(self.topic, NotReady(f"topic {self.topic.text} is being opened again"))

    def _frame(self, message: OutgoingMessage) -> bytes:
        sequence_id = self._sequence if message.sequence_id is None else message.sequence_id
        self._sequence = max(self._sequence, sequence_id + 1)
        metadata = pb.Metadata(producer_name=self.producer_name, sequence_id=sequence_id, publish_time=self.service.now_ms())
        for key, value in message.properties.items():
            metadata.properties.add(key=key, value=value)
        if message.key is not None:
            metadata.partition_key = message.key
        if message.event_time_ms:
            metadata.event_time = message.event_time_ms
        if message.deliver_at_ms:
            metadata.deliver_at_time = message.deliver_at_ms
        return build_send(0, sequence_id, metadata, message.payload)

    # --- from the topic

    def receipts(self, producer: Producer, sent: list[Sent], first: Position) -> None:
        """Duplicates come one by one, so that what one call published may be answered in several."""
        partition = self.topic.name.partition
        self._ids += [MessagePosition(first.ledger_id, first.entry_id + index, -1, partition) for index in range(len(sent))]
        while self._due and len(self._ids) >= self._due[0][0]:
            count, on_receipt = self._due.popleft()
            ids, self._ids = self._ids[:count], self._ids[count:]
            on_receipt(ids, None)

    def settled(self, size: int) -> None:
        pass

    def alive(self) -> bool:
        return self.open

    def closed(self, producer: Producer) -> None:
        self.end(self.topic.closed or NotReady("the topic was closed: open the producer again"))

    def end(self, error: MagnetarError) -> None:
        """The broker closes this producer; receipts still due get the error: whether the messages are stored is not known."""
        if self.open:
            self._leave()
            while self._due:
                self._due.popleft()[1](None, error)
            if self._sink is not None:
                self._sink.closed(error)

    def close(self) -> None:
        if self.open:
            self._leave()
            while self._due:
                self._due.popleft()[1](None, NotReady("the producer was closed before the receipt came"))

    def _leave(self) -> None:
        self.open = False
        self._producer.closed = True
        self.topic.producers.detach(self._producer)
        self.service.local_sessions.discard(self)


class LocalConsumer:
    """`ConsumerHandle` and, towards the subscription, `messaging.broker.core.consumer.ConsumerSink`."""

    writable = True

    def __init__(self, service: Broker, topic: Topic, subscription: Subscription, sink: ConsumerSink, principal: Principal) -> None:
        self.service = service
        self.topic = topic
        self.subscription = subscription
        self.principal = principal
        self.open = True
        self._sink = sink
        self.consumer = Consumer(0, service.new_producer_name(), self, role=principal.role, now_ms=service.now_ms())
        self._open_indexes: dict[Position, int] = {}  # batches handed out: a bit for each message not acknowledged yet

    def flow(self, permits: int) -> None:
        if self.open:
            self.consumer.permits += permits
            self.consumer.last_flow_ms = self.service.now_ms()
            self.topic.outlet.dispatch(self.subscription)

    def ack(self, positions: Sequence[MessagePosition]) -> Awaitable[None]:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        deltas: list[bytes] = []
        whole: dict[int, list[int]] = {}
        now_ms = self.service.now_ms()
        for one in positions:
            position = Position(one.ledger_id, one.entry_id)
            left = self._open_indexes.get(position)
            if one.batch_index >= 0 and left is not None:
                left &= ~(1 << one.batch_index)
                if left:
                    self._open_indexes[position] = left
                    deltas.append(self.subscription.acknowledge_batch(self.consumer, position, _words(left), now_ms))
                    continue
                del self._open_indexes[position]
            whole.setdefault(one.ledger_id, []).append(one.entry_id)
        for ledger_id, entries in whole.items():
            deltas.append(self.subscription.acknowledge(self.consumer, ledger_id, entries, now_ms))
            self.service.acknowledgements += len(entries)

        def done(error: StoreError | None) -> None:
            if stored.cancelled():
                return
            if error is None:
                stored.set_result(None)
            else:
                stored.set_exception(StorageFailed(f"the acknowledgement is not stored: {error}"))
                stored.exception()  # whoever does not wait for it need not hear of it

        changes = [delta for delta in deltas if delta]
        for delta in changes[:-1]:
            self.topic.store(self.subscription, delta)
        self.topic.store(self.subscription, changes[-1] if changes else b"", done)
        self.topic.outlet.dispatch(self.subscription)
        return stored

    def nack(self, positions: Sequence[MessagePosition]) -> None:
        if self.open:
            self.subscription.redeliver(self.consumer, [Position(one.ledger_id, one.entry_id) for one in positions])
            self.topic.outlet.dispatch(self.subscription)

    async def unsubscribe(self) -> None:
        if len(self.subscription.consumers) > 1:
            raise PreconditionFailed(f"subscription {self.subscription.name!r} has other consumers: close them first")
        self.close()
        await self.topic.delete_subscription(self.subscription.name)

    def close(self) -> None:
        if self.open:
            self.open = False
            self.service.local_sessions.discard(self)
            self.topic.detach(self.subscription, self.consumer)

    # --- from the subscription

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redeliveries: list[int] | None) -> int:
        messages: list[DeliveredMessage] = []
        size = 0
        for index in range(first, last):
            payload = block.payload(block.first_entry + index)
            size += len(payload)
            position = Position(block.ledger_id, block.first_entry + index)
            try:
                messages += self._messages(position, payload, redeliveries[index - first] if redeliveries else 0)
            except FrameError as error:
                # It cannot be opened here: a binary client may. It stays unacknowledged and is not lost.
                log.warning("message.unreadable", topic=self.topic.text, entry=f"{position}", error=str(error))
        # What is left out here (acknowledged before, or unreadable) was not handed over, so it takes no permits.
        kept = block.messages_in(first, last) - len(messages)
        if kept:
            consumer.permits += kept
            asyncio.get_running_loop().call_soon(self.topic.outlet.dispatch, self.subscription)
        # Later, so that a sink that answers by acknowledging does not do so inside the decision that gave it the message.
        asyncio.get_running_loop().call_soon(self._hand_over, messages)
        return size

    def _hand_over(self, messages: list[DeliveredMessage]) -> None:
        if self.open and messages:
            self._sink.deliver(messages)

    def _messages(self, position: Position, payload: bytes, redelivery_count: int) -> list[DeliveredMessage]:
        stored = parse_stored(payload)
        metadata = stored.metadata
        acknowledged = self.subscription.cursor.batches.get(position)
        found = []
        for single in singles(stored, self.service.settings.message_bytes_max * 4):
            if single.batch_index >= 0:
                if acknowledged is not None and not acknowledged[single.batch_index // 64] >> (single.batch_index % 64) & 1:
                    continue
                self._open_indexes[position] = self._open_indexes.get(position, 0) | 1 << single.batch_index
            found.append(
                DeliveredMessage(
                    position=MessagePosition(position.ledger_id, position.entry_id, single.batch_index, self.topic.name.partition),
                    payload=single.payload,
                    publish_time_ms=metadata.publish_time,
                    properties=single.properties,
                    key=single.partition_key,
                    event_time_ms=single.event_time_ms,
                    redelivery_count=redelivery_count,
                    batch_size=single.batch_size,
                    producer_name=metadata.producer_name,
                    sequence_id=single.sequence_id,
                )
            )
        return found

    def active_changed(self, consumer: Consumer, active: bool) -> None:
        pass

    def end_of_topic(self, consumer: Consumer) -> None:
        asyncio.get_running_loop().call_soon(self._say_end)

    def _say_end(self) -> None:
        if self.open:
            self._sink.end_of_topic()

    def closed(self, consumer: Consumer) -> None:
        self.end(self.topic.closed or NotReady("the subscription was moved or closed: open the consumer again"))

    def end(self, error: MagnetarError) -> None:
        if self.open:
            self.close()
            self._sink.closed(error)


class LocalSessions(Broker):
    """The part of the service that opens local sessions (`local_messages.LocalService`)."""

    async def open_producer(self, principal: Principal, topic: str, producer_name: str | None, sink: ProducerSink) -> LocalProducer:
        name = parse_topic(topic)
        await self.authorize(principal, Action.PRODUCE, Resource(name.tenant, str(name.namespace), str(name)))
        opened = await self._open_single(name)
        opened.check_writable()
        try:
            await opened.ledger.writable()
        except StoreError as error:
            raise StorageFailed(f"topic {name} takes no messages now: {error}") from error
        producer = LocalProducer(self, opened, producer_name or self.new_producer_name(), sink, principal)
        self.local_sessions.add(producer)
        return producer

    async def open_consumer(
        self,
        principal: Principal,
        topic: str,
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        start: MessagePosition | None,
        sink: ConsumerSink,
    ) -> LocalConsumer:
        name = parse_topic(topic)
        chosen = subscription_name(subscription)
        resource = Resource(name.tenant, str(name.namespace), str(name), chosen)
        await self.authorize(principal, Action.CONSUME, resource)
        opened = await self._open_single(name)
        held = opened.subscriptions.get(chosen)
        if held is None and durable:
            held = await self.open_subscription(opened, chosen, earliest=initial == "earliest")
        elif held is None:
            begin = EARLIEST if initial == "earliest" else LATEST
            if start is not None:
                begin = opened.chain.next_after(Position(start.ledger_id, start.entry_id))
            held = opened.create_reader(chosen, begin)
        elif held.durable != durable:
            raise NotAllowed(f"subscription {chosen!r} is {'durable' if held.durable else 'not durable'}: subscribe to it as such")
        held.admit(KINDS[kind])
        consumer = LocalConsumer(self, opened, held, sink, principal)
        held.attach(consumer.consumer, KINDS[kind])
        self.local_sessions.add(consumer)
        return consumer

    async def _open_single(self, name: TopicName) -> Topic:
        opened = await self.open_topic(name)
        if opened.closed is not None:
            raise NotReady(f"topic {name} is being closed: try again")
        return opened

    async def round_trip(self) -> None:
        """Publishes one message on a topic of the broker's own and reads it back. Raises `NotReady`, `StorageFailed`."""
        principal = Principal("service:broker", service=True)
        topic = await self.topics.get(HEALTH_TOPIC, create=True)
        await topic.ledger.writable()
        reader = topic.create_reader(f"health-{self.new_producer_name()}", LATEST)
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        consumer = LocalConsumer(self, topic, reader, _Arrival(arrived), principal)
        reader.attach(consumer.consumer, Kind.EXCLUSIVE)
        producer = LocalProducer(self, topic, self.new_producer_name(), None, principal)
        try:
            consumer.flow(1)
            producer.publish([OutgoingMessage(b"health")], lambda positions, error: None)
            await asyncio.wait_for(arrived, HEALTH_TIMEOUT_S)
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


def _words(bits: int) -> list[int]:
    """A bit set as 64-bit words, lowest first."""
    words = []
    while bits:
        words.append(bits & 0xFFFFFFFFFFFFFFFF)
        bits >>= 64
    return words
