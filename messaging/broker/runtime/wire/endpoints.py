"""The producers and consumers open on one connection, and the fast path for what they send.

All messages of one read form one block per producer, and all plain acknowledgements one call per consumer. The memory they use is
charged to their tenant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.memory.memory_charge import MemoryCharge, memory_bytes
from messaging.broker.core.producers.producer import Producer
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.turns.command_costs import ACK_RUN, BLOCK
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.detach import detach_all
from messaging.broker.runtime.topics.limits.stored_bytes import TenantBytes
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.broker.runtime.wire.read_throttle import ReadThrottle
from messaging.broker.runtime.wire.send_errors import Refusal, fenced_refusal, no_room, storable
from messaging.errors import NotReady
from messaging.protocol.frames import ProtocolError
from messaging.protocol.hot import CHUNK, DELAYED, BlockSummary, SendFrame, group_acks, group_by_producer, summarize
from messaging.storage.ledger_store import StoreError

CLOSED_IDS_KEPT = 1000
NEEDS_A_LOOK = ~(CHUNK | DELAYED)  # flags of messages that need more than being stored


class OpeningProducer(NamedTuple):
    """A producer that a topic has attached and that may not publish yet: it waits for the topic, or its epoch is being stored."""

    topic: Topic
    producer: Producer
    request_id: int


class Endpoints:
    """`probe` checks whether the peer is alive: see `Liveness.probe`."""

    def __init__(self, service: Broker, out: OutboundBuffer, throttle: ReadThrottle, memory_charge: MemoryCharge) -> None:
        self.service = service
        self.out = out
        self.throttle = throttle
        self.memory_charge = memory_charge
        self.probe: Callable[[], Awaitable[None] | None] = lambda: None
        self.knows_end_of_topic = False  # the client understands REACHED_END_OF_TOPIC
        self.of_sessions = False  # another broker serves clients of single messages, and is told why something is closed
        self.producers: dict[int, tuple[Topic, Producer]] = {}
        self.opening: dict[int, OpeningProducer] = {}
        self.consumers: dict[int, tuple[Topic, Subscription, Consumer]] = {}
        self.ended_producers: dict[int, None] = {}  # closed by the broker: frames still in transit are skipped

    def close(self) -> None:
        """Detaches all producers and consumers, in slices: the connection is gone. Idempotent."""
        self.probe = lambda: None
        producers, self.producers = self.producers, {}
        opening, self.opening = self.opening, {}
        consumers, self.consumers = self.consumers, {}
        # Those that wait leave first: a topic is not passed on from one to the next, each with a new epoch.
        detaches = [
            *(partial(_detach, topic, topic.producers.detach, producer) for topic, producer, _ in opening.values()),
            *(partial(_detach, topic, topic.producers.detach, producer) for topic, producer in producers.values()),
            *(partial(_detach, topic, topic.consumers.detach, *attached) for topic, *attached in consumers.values()),
        ]
        detach_all(self.service.peers.turn_loop, self.memory_charge.tenant, detaches)

    def wake_consumers(self) -> None:
        """The connection can be written to again."""
        for topic, subscription, consumer in list(self.consumers.values()):
            topic.consumers.wake(subscription, consumer)

    # --- the fast path

    def publish(self, buf: bytes, sent: list[SendFrame]) -> int:
        """Publishes one block per producer; nearly always there is one producer. Returns the cost in addition to that of the
        messages."""
        parts = group_by_producer(sent) if len(sent) > 1 else [sent]
        producers = self.producers
        for part in parts:
            attached = producers.get(part[0].producer_id)
            if attached is None or attached[1].closed:
                self._publish_closed(attached, part)
                continue
            summary = summarize(part)
            if attached[0].publisher.stored_limit is not None:
                part = self._publish_within(attached[0].publisher.stored_limit, *attached, buf, part, summary)
                if not part:
                    continue
            if (
                summary.flags & NEEDS_A_LOOK
                or attached[1].encrypted
                or attached[0].publisher.message_bytes_max
                or (
                    attached[0].publisher.delay_limits is not None
                    and (summary.flags & DELAYED or attached[0].publisher.delay_limits.given_any)
                )
            ):
                self._publish_storable(*attached, buf, part)
            else:
                self.append(*attached, buf, part, summary)
        return BLOCK * len(parts)

    def _publish_closed(self, attached: tuple[Topic, Producer] | None, sent: list[SendFrame]) -> None:
        """Messages of a producer that the broker has closed are skipped, but those of a fenced one are refused, after its receipts.
        Raises `ProtocolError` for a producer that was never open."""
        if attached is not None and attached[1].fenced:
            self.refuse_fenced(attached[1], sent)
        elif attached is None and sent[0].producer_id not in self.ended_producers:
            raise ProtocolError(f"messages for producer {sent[0].producer_id}, which is not open on this connection")

    def refuse_fenced(self, producer: Producer, sent: list[SendFrame]) -> None:
        attached = self.producers.get(producer.producer_id)
        if attached is not None and attached[1] is producer:
            for frame in sent:
                attached[0].publisher.run_after_pending(partial(self._say_refused, fenced_refusal(frame)))

    def append(self, topic: Topic, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary) -> None:
        try:
            size = topic.publisher.publish(producer, buf, sent, summary)
        except StoreError:  # the producer is closed and will resend everything without a receipt
            return
        self.throttle.appended_bytes += size

    def _publish_storable(self, topic: Topic, producer: Producer, buf: bytes, frames: list[SendFrame]) -> None:
        """Appends what can be stored and refuses the rest, with each error in its place among the receipts, because clients rely on
        the order."""
        bytes_max, delays = self.service.settings.message_bytes_max, topic.publisher.delay_check()
        for part in storable(
            frames, buf, bytes_max, delays, encrypted=producer.encrypted, topic_max=topic.publisher.message_bytes_max
        ):
            if isinstance(part, Refusal):
                topic.publisher.run_in_order(producer, partial(self._refuse_message, producer, part))
            else:
                self.append(topic, producer, buf, part, summarize(part))
                if delays is not None:
                    delays.hold(partial(topic.publisher.run_in_order, producer))

    def _publish_within(
        self, limit: TenantBytes, topic: Topic, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary
    ) -> list[SendFrame]:
        """`sent` if there is room for all of them: they are to be published then. Else publishes the first ones, which fit,
        refuses the rest in their places, and returns nothing."""
        why = limit.refusal(summary.end_offsets[-1])
        if not why:
            return sent
        fitting = bisect_right(summary.end_offsets, limit.room)
        if fitting:
            self._publish_storable(topic, producer, buf, sent[:fitting])
        for frame in sent[fitting:]:
            topic.publisher.run_in_order(producer, partial(self._refuse_message, producer, no_room(frame, why)))
        return []

    def _refuse_message(self, producer: Producer, refusal: Refusal, stored: bool) -> None:
        """Does nothing if an earlier message failed: the producer is then closed, and its client resends everything."""
        if stored and (not producer.closed or producer.fenced):
            self._say_refused(refusal)

    def _say_refused(self, refusal: Refusal, stored: bool = True) -> None:
        self.service.count_publish_error(refusal.error_name)
        self.out.gather(refusal.encode())

    def acknowledge_all(self, acked: list[tuple[int, int, int]]) -> int:
        """Plain individual acknowledgements: one call per consumer and ledger. Returns the cost besides that of the entries."""
        runs = group_acks(acked)
        for (consumer_id, ledger_id), entries in runs.items():
            attached = self.consumers.get(consumer_id)
            if attached is not None:
                topic, subscription, consumer = attached
                topic.acknowledgements.acknowledge(subscription, consumer, ledger_id, entries)
                self.service.acknowledgements += len(entries)
        return ACK_RUN * len(runs)

    # --- open producers and consumers

    def check_room(self, name: str, metadata: Mapping[str, str]) -> None:
        """Raises `NotReady` if the tenant uses too much memory to add a producer or consumer with this metadata.

        One that holds little is never refused: others may fill the account with large requests."""
        size = memory_bytes((name,), metadata)
        if not self.memory_charge.allows(size) and not self.memory_charge.holds_little:
            raise NotReady(f"the tenant's clients use all memory for names and properties ({size} more bytes requested)")

    def add_producer(self, topic: Topic, producer: Producer) -> None:
        former = self.producers.get(producer.producer_id)
        if former is not None:
            self.memory_charge.change(-memory_bytes((former[1].name,), former[1].metadata))
        self.producers[producer.producer_id] = (topic, producer)
        self.memory_charge.change(memory_bytes((producer.name,), producer.metadata))
        self.ended_producers.pop(producer.producer_id, None)

    def begin_opening(self, topic: Topic, producer: Producer, request_id: int) -> None:
        self.opening[producer.producer_id] = OpeningProducer(topic, producer, request_id)
        self.memory_charge.change(memory_bytes((producer.name,), producer.metadata))

    def end_opening(self, producer: Producer) -> OpeningProducer | None:
        """What `begin_opening` began. None if it has ended: the request was answered, or the client closed the producer."""
        opening = self.opening.get(producer.producer_id)
        if opening is None or opening.producer is not producer:
            return None
        del self.opening[producer.producer_id]
        self.memory_charge.change(-memory_bytes((producer.name,), producer.metadata))
        return opening

    def add_consumer(self, topic: Topic, subscription: Subscription, consumer: Consumer) -> None:
        self.consumers[consumer.consumer_id] = (topic, subscription, consumer)
        self.memory_charge.change(memory_bytes((consumer.name,), consumer.metadata))

    def drop_consumer(self, consumer_id: int) -> tuple[Topic, Subscription, Consumer] | None:
        attached = self.consumers.pop(consumer_id, None)
        if attached is not None:
            self.memory_charge.change(-memory_bytes((attached[2].name,), attached[2].metadata))
        return attached

    def end_producer(self, producer_id: int) -> None:
        """The broker closed the producer: what its client sends until it notices is skipped."""
        attached = self.producers.pop(producer_id, None)
        if attached is not None:
            self.memory_charge.change(-memory_bytes((attached[1].name,), attached[1].metadata))
        self.ended_producers[producer_id] = None
        if len(self.ended_producers) > CLOSED_IDS_KEPT:
            del self.ended_producers[next(iter(self.ended_producers))]


def _detach(topic: Topic, detach: Callable[..., None], *attached: Any) -> None:
    """One that fails keeps no other attached."""
    with topic.services.loops.dispatching.guard(topic=topic.text):
        detach(*attached)
