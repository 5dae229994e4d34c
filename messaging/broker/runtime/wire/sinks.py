"""The sinks for receipts and messages of the binary protocol: the ends of a connection that topics and subscriptions hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.delayed.gathered_block import GatheredBlock
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.producers.access_modes import AccessMode
from messaging.broker.core.producers.producer import NO_EPOCH, Producer
from messaging.broker.core.schemas.model import encode_version
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.moving import Moving
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire.endpoints import Endpoints
from messaging.errors import MagnetarError, NotReady
from messaging.protocol import frames, hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position

_UINT64 = (1 << 64) - 1
VIEWED_BYTES = 16 << 10  # bytes of a message from which on passing a reference costs less than a copy


class ReceiptSender:
    """Implements `messaging.broker.core.producers.producer.ProducerSink` for all producers of one connection."""

    __slots__ = ("_endpoints", "_out", "append_completed", "parked", "unparked")

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._out = endpoints.out
        self.append_completed: Callable[[int], None] = endpoints.throttle.append_completed
        self.parked: Callable[[int], None] = endpoints.throttle.park
        self.unparked: Callable[[int], None] = endpoints.throttle.unpark

    def receipts(self, producer: Producer, sent: list[SendFrame], first: Position) -> None:
        # In wire form: -1:-1, for a duplicate whose id is not remembered, becomes unsigned 64-bit numbers.
        self._out.gather(hot.receipts(sent, 0, len(sent), first.ledger_id & _UINT64, first.entry_id & _UINT64))

    def receipts_of_unstored(self, producer: Producer, sent: list[SendFrame], position: Position) -> None:
        self._out.gather(hot.receipts(sent, 0, len(sent), position.ledger_id, position.entry_id, 0))

    def closed(self, producer: Producer) -> None:
        if producer.producer_id in self._endpoints.opening:
            self.refused(producer, NotReady("the topic was closed: open the producer again"))
            return
        attached = self._endpoints.producers.get(producer.producer_id)
        reason = attached[0].closed if attached is not None and self._endpoints.of_sessions else None
        if reason is not None:
            why = pb.SendError(
                producer_id=producer.producer_id,
                sequence_id=frames.UNSOLICITED,
                error=cast(Any, reason.wire_code),
                message=reason.message,
            )
            self._out.gather(frames.command(pb.Command.SEND_ERROR, send_error=why))
        self._endpoints.end_producer(producer.producer_id)
        closing = pb.CloseProducer(producer_id=producer.producer_id, request_id=frames.UNSOLICITED)
        _name_owner(closing, attached[0].closed if attached is not None else None)
        self._out.gather(frames.command(pb.Command.CLOSE_PRODUCER, close_producer=closing))

    def unpublished(self, producer: Producer, sent: list[SendFrame]) -> None:
        self._endpoints.refuse_fenced(producer, sent)

    def fenced(self, producer: Producer) -> None:
        """Its client is told with its next message, as by Pulsar: see `Endpoints.publish`."""

    def promoted(self, producer: Producer) -> None:
        opening = self._endpoints.end_opening(producer)
        if opening is not None:  # else the client closed it
            self._endpoints.add_producer(opening.topic, producer)
            self._out.gather(producer_success(opening.request_id, opening.topic, producer))

    def refused(self, producer: Producer, error: MagnetarError) -> None:
        opening = self._endpoints.end_opening(producer)
        if opening is not None:
            self._out.gather(frames.error(opening.request_id, cast(Any, error.wire_code), error.message))

    def alive(self) -> bool:
        return not self._out.closed

    def answers(self) -> Awaitable[None] | None:
        return self._endpoints.probe()


def producer_success(request_id: int, topic: Topic, producer: Producer) -> bytes:
    """The response to PRODUCER. A topic that never had an exclusive producer has no epoch."""
    last = topic.publisher.last_sequence_id(producer.name_bytes)
    version = b"" if producer.schema_version is None else encode_version(producer.schema_version)
    answer = pb.ProducerSuccess(
        request_id=request_id, producer_name=producer.name, last_sequence_id=last, schema_version=version, producer_ready=True
    )
    epoch = topic.producers.table.topic_epoch if producer.access is AccessMode.SHARED else producer.topic_epoch
    if epoch != NO_EPOCH:
        answer.topic_epoch = epoch
    return frames.command(pb.Command.PRODUCER_SUCCESS, producer_success=answer)


class MessageSender:
    """Implements `messaging.broker.core.consumer.ConsumerSink` for one consumer."""

    __slots__ = ("_endpoints", "_last_frames", "_out", "subscription", "topic")

    def __init__(self, endpoints: Endpoints, topic: Topic, subscription: Subscription) -> None:
        self._endpoints = endpoints
        self._out = endpoints.out
        self._last_frames = endpoints.service.peers.last_frames
        self.topic = topic
        self.subscription = subscription

    @property
    def writable(self) -> bool:
        return self._out.writable and not self._out.closed

    def answers(self) -> Awaitable[None] | None:
        return self._endpoints.probe()

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        out = self._out
        large = block.bytes_in(first, last) > VIEWED_BYTES * (last - first)
        others = (
            self._not_plain(block, first, last, redelivery_counts) if redelivery_counts or self.subscription.cursor.batches else []
        )
        if not others and not large:
            data = self._plain(consumer, block, first, last)
            out.gather(data)
            return len(data)
        parts: list[bytes | memoryview] = []
        start = first
        for index in [*others, last]:
            if start < index and not large:
                parts.append(self._plain(consumer, block, start, index))
            elif start < index:
                parts += self._plain_parts(consumer, block, start, index)
            if index < last:
                entry_id = block.first_entry + index
                payload = block.view(entry_id)
                head = self.encode_head(
                    consumer, block, entry_id, len(payload), redelivery_counts[index - first] if redelivery_counts else 0
                )
                parts += (head, payload)
            start = index + 1
        size = sum(map(len, parts))
        if large:
            out.gather_parts(parts)
        else:
            out.gather(b"".join(parts))
        return size

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        if isinstance(block, GatheredBlock):
            return self._deliver_gathered(consumer, block, picked, redelivery_counts)
        large = block.bytes_in(picked[0], picked[-1] + 1) > VIEWED_BYTES * (picked[-1] + 1 - picked[0])
        if redelivery_counts is None and not large and not self.subscription.cursor.batches:
            data = hot.picked_messages(
                block.data,
                block.end_offsets,
                picked,
                block.ledger_id,
                block.first_entry,
                consumer.consumer_id,
                self.topic.id_tail,
            )
            self._out.gather(data)
            return len(data)
        counts = [None] * len(picked) if redelivery_counts is None else [[count] for count in redelivery_counts]
        return sum(self.deliver(consumer, block, index, index + 1, count) for index, count in zip(picked, counts, strict=True))

    def _deliver_gathered(
        self, consumer: Consumer, block: GatheredBlock, picked: list[int], redelivery_counts: list[int] | None
    ) -> int:
        if redelivery_counts is None and not self.subscription.cursor.batches:
            data, ends, ids, tail = block.data, block.end_offsets, block.ids, self.topic.id_tail
            ledger_id, consumer_id = block.ledger_id, consumer.consumer_id
            frames = b"".join([hot.picked_messages(data, ends, [at], ledger_id, ids[at] - at, consumer_id, tail) for at in picked])
            self._out.gather(frames)
            return len(frames)
        counts = redelivery_counts or [0] * len(picked)
        return sum(self.deliver(consumer, block.single(at), 0, 1, [count]) for at, count in zip(picked, counts, strict=True))

    def _not_plain(self, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> list[int]:
        """Indexes of the entries that need a redelivery count or an ack set in their frame."""
        batches, at = self.subscription.cursor.batches, block.first_entry
        partial = batches.entries_in(block.ledger_id, at + first, at + last - 1) if batches else []
        others = [entry_id - at for entry_id in partial]
        if redelivery_counts is None:
            return others
        return sorted({*others, *(index for index, count in enumerate(redelivery_counts, first) if count)})

    def _plain(self, consumer: Consumer, block: EntryBlock, first: int, last: int) -> bytes | memoryview:
        shared = len(self.topic.subscriptions.table) > 1
        if shared and (made := self._last_frames.find(block, first, last, consumer.consumer_id)) is not None:
            return made
        frames = hot.messages(
            block.data,
            block.end_offsets,
            first,
            last,
            block.ledger_id,
            block.first_entry + first,
            consumer.consumer_id,
            self.topic.id_tail,
        )
        if shared:
            self._last_frames.keep(block, first, last, consumer.consumer_id, frames)
        return frames

    def _plain_parts(self, consumer: Consumer, block: EntryBlock, first: int, last: int) -> Iterator[bytes | memoryview]:
        """Like `_plain`, without copying the payloads."""
        for entry_id in range(block.first_entry + first, block.first_entry + last):
            payload = block.view(entry_id)
            yield hot.message_head(len(payload), block.ledger_id, entry_id, consumer.consumer_id, self.topic.id_tail)
            yield payload

    def encode_head(self, consumer: Consumer, block: EntryBlock, entry_id: int, payload_bytes: int, redelivery_count: int) -> bytes:
        """Encodes the head of a MESSAGE frame with a redelivery count or an ack set, through protobuf."""
        message_id = pb.MessageId(ledger_id=block.ledger_id, entry_id=entry_id)
        if self.topic.name.partition >= 0:
            message_id.partition = self.topic.name.partition
        message = pb.Message(consumer_id=consumer.consumer_id, message_id=message_id)
        if redelivery_count:
            message.redelivery_count = redelivery_count
        words = self.subscription.cursor.batches.get(Position(block.ledger_id, entry_id))
        if words:
            message.ack_set.extend(word - (1 << 64) if word >> 63 else word for word in words)
        head = pb.Command(type=pb.Command.MESSAGE, message=message).SerializeToString()
        return (len(head) + 4 + payload_bytes).to_bytes(4, "big") + len(head).to_bytes(4, "big") + head

    def active_changed(self, consumer: Consumer, active: bool) -> None:
        change = pb.ActiveConsumerChange(consumer_id=consumer.consumer_id, is_active=active)
        self._out.gather(frames.command(pb.Command.ACTIVE_CONSUMER_CHANGE, active_consumer_change=change))

    def end_of_topic(self, consumer: Consumer) -> None:
        if self._endpoints.knows_end_of_topic:
            end = pb.ReachedEndOfTopic(consumer_id=consumer.consumer_id)
            self._out.gather(frames.command(pb.Command.REACHED_END_OF_TOPIC, reached_end_of_topic=end))

    def closed(self, consumer: Consumer) -> None:
        if self._endpoints.drop_consumer(consumer.consumer_id) is not None:
            reason = self.topic.closed if self._endpoints.of_sessions else None
            if reason is not None:
                why = pb.AckResponse(consumer_id=consumer.consumer_id, error=cast(Any, reason.wire_code), message=reason.message)
                self._out.gather(frames.command(pb.Command.ACK_RESPONSE, ack_response=why))
            closing = pb.CloseConsumer(consumer_id=consumer.consumer_id, request_id=frames.UNSOLICITED)
            _name_owner(closing, self.topic.closed)
            self._out.gather(frames.command(pb.Command.CLOSE_CONSUMER, close_consumer=closing))


def _name_owner(closing: pb.CloseProducer | pb.CloseConsumer, why: MagnetarError | None) -> None:
    """Where the topic moved to, so that its client goes there without a look-up."""
    if isinstance(why, Moving) and why.addresses is not None:
        closing.assigned_broker_service_url = why.addresses.get("broker_url", "")
        if "broker_url_tls" in why.addresses:
            closing.assigned_broker_service_url_tls = why.addresses["broker_url_tls"]
