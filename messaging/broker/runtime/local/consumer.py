"""A consumer inside the broker's process: only here does the broker open batches, because these clients take single messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import structlog

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import (
    ConsumerSink,
    DeliveredMessage,
    MessagePosition,
)
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError, NotReady, PreconditionFailed, StorageFailed
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol.batch import singles
from messaging.protocol.frames import FrameError, parse_stored
from messaging.storage.seam import Position, StoreError

log = structlog.get_logger("broker.local")


class LocalConsumer:
    """`ConsumerHandle`, towards the subscription `messaging.broker.core.consumer.ConsumerSink`, towards its right `OpenSession`."""

    action = Action.CONSUME
    writable = True

    def __init__(self, service: Broker, topic: Topic, subscription: Subscription, sink: ConsumerSink, principal: Principal) -> None:
        self.service = service
        self.topic = topic
        self.subscription = subscription
        self.principal = principal
        self.open = True
        self._sink = sink
        self.consumer = Consumer(0, service.new_producer_name(), self, now_ms=service.now_ms())
        self.consumer.session = None if principal.service else self
        self._open_indexes: dict[Position, int] = {}  # batches handed out: a bit for each message not acknowledged yet

    @property
    def resource(self) -> Resource:
        return self.topic.resource(self.subscription.name)

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
            self.service.peers.sessions.discard(self)
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
        # What is left out here (unreadable) was not handed over, so it takes no permits.
        kept = sum(self.subscription.open_messages_of(block, index) for index in range(first, last)) - len(messages)
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


def _words(bits: int) -> list[int]:
    """A bit set as 64-bit words, lowest first."""
    words = []
    while bits:
        words.append(bits & 0xFFFFFFFFFFFFFFFF)
        bits >>= 64
    return words
