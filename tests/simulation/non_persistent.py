"""The clients of a non-persistent topic.

A message is delivered to a subscription at most once, in the order of its producer, to a consumer with permits, or it is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from messaging.broker.core.subscription import Subscription
from messaging.protocol import pulsar_pb2 as pb
from tests.simulation.checker import Violated
from tests.simulation.client import Client, World
from tests.simulation.entries import texts_of
from tests.support.clients.raw_client import Received, batch_frame, send_frame

TOPIC = "non-persistent://public/default/n"
KINDS = (pb.Subscribe.Exclusive, pb.Subscribe.Failover, pb.Subscribe.Shared, pb.Subscribe.Key_Shared)
KEYS = 5


class Traffic:
    """What was sent and what came of it, over all lives of the broker."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[str, int]] = {}  # producer and number of each message
        self.delivered: dict[str, set[str]] = {}  # by subscription
        self.balances: WeakKeyDictionary[Subscription, int] = WeakKeyDictionary()


class NonPersistentProducer(Client):
    """`pending`: messages without a receipt, over the connection that is open."""

    def __init__(self, world: World, name: str, traffic: Traffic) -> None:
        self.pending = 0
        self._traffic = traffic
        self._number = 0
        super().__init__(world, name, TOPIC)

    def _open(self) -> None:
        self.say(pb.Command.PRODUCER, producer=pb.Producer(topic=TOPIC, producer_id=1, request_id=1, producer_name=self.name))

    def publish(self, sizes: list[int], padding_bytes: int) -> None:
        """One write of several entries, of so many messages each."""
        assert self.link is not None
        data = b""
        for size in sizes:
            sequence_id, key, payloads = self._number, f"key{self._number % KEYS}", []
            for _ in range(size):
                text = f"<{self.name}.{self._number}>"
                self._traffic.sent[text] = (self.name, self._number)
                payloads.append(text.encode() + b"." * padding_bytes)
                self._number += 1
            data += send_frame(sequence_id, payloads[0], key=key) if size == 1 else batch_frame(sequence_id, payloads, key=key)
        self.pending += len(sizes)
        self.link.send(data)

    def _closed(self) -> None:
        super()._closed()
        self.pending = 0

    def _written(self, received: Received) -> None:
        if received.name == "SEND_RECEIPT":
            identifier = received.body.message_id
            if (identifier.ledger_id, identifier.entry_id) != (0, 0):
                raise Violated(f"the receipt of a message that is not stored says {identifier.ledger_id}:{identifier.entry_id}")
            self.pending -= 1
            self.world.checker.count("receipts of what is not stored")

    def _received(self, received: Received) -> None:
        if received.name == "PRODUCER_SUCCESS":
            self.ready = True
        elif received.name == "CLOSE_PRODUCER":
            self._closed()
        super()._received(received)


class NonPersistentConsumer(Client):
    def __init__(self, world: World, name: str, kind: pb.Subscribe.SubType, traffic: Traffic) -> None:
        self.kind = kind
        self.subscription = pb.Subscribe.SubType.Name(kind).lower()
        self.permits = 0
        self._last: dict[str, int] = {}  # the last message of each producer
        self._traffic = traffic
        super().__init__(world, name, TOPIC)

    def _open(self) -> None:
        subscribe = pb.Subscribe(topic=TOPIC, subscription=self.subscription, sub_type=self.kind, consumer_id=1, request_id=1)
        subscribe.consumer_name = self.name
        self.say(pb.Command.SUBSCRIBE, subscribe=subscribe)

    def flow(self, permits: int) -> None:
        self.permits += permits
        self.say(pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=permits))

    def _closed(self) -> None:
        super()._closed()
        self.permits = 0
        self._last.clear()

    def _written(self, received: Received) -> None:
        if received.name == "CLOSE_CONSUMER":
            self.ready = False
        if received.name != "MESSAGE":
            return
        place, texts = texts_of(received)
        self.world.note(f"{self.name} < {' '.join(texts)}")
        if place != (0, 0) or received.body.redelivery_count:
            raise Violated(f"{self.name} was sent {texts} as {place}, redelivered {received.body.redelivery_count} times")
        if self.permits <= 0:
            raise Violated(f"{self.name} was sent {texts} without permits")
        self.permits -= len(texts)
        delivered = self._traffic.delivered.setdefault(self.subscription, set())
        for text in texts:
            if text not in self._traffic.sent:
                raise Violated(f"{self.name} was sent {text!r}, which nobody published")
            if text in delivered:
                raise Violated(f"{text} was delivered to {self.subscription} again")
            delivered.add(text)
            producer, number = self._traffic.sent[text]
            if self._last.get(producer, -1) >= number:
                raise Violated(f"{self.name} was sent {text} after number {self._last[producer]}")
            self._last[producer] = number
            self.world.checker.count("deliveries of what is not stored")

    def _received(self, received: Received) -> None:
        if received.name == "SUCCESS" and received.body.request_id == 1:
            self.ready = True
        elif received.name == "CLOSE_CONSUMER":
            self._closed()
        super()._received(received)


class NonPersistentClients:
    """Those of one simulation: two producers, and one or two consumers of each type."""

    def __init__(self, world: World) -> None:
        self.traffic = Traffic()
        self.producers = [NonPersistentProducer(world, f"np{letter}", self.traffic) for letter in "ab"]
        self.consumers = [
            NonPersistentConsumer(world, f"nc-{pb.Subscribe.SubType.Name(kind).lower()}-{number}", kind, self.traffic)
            for kind in KINDS
            for number in range(1 if kind == pb.Subscribe.Exclusive else 2)
        ]

    def __iter__(self) -> Iterator[Client]:
        yield from (*self.producers, *self.consumers)
