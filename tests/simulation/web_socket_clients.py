"""Scripted clients over WebSockets: producers, consumers and readers of one topic, which connect again whenever they are closed."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Protocol

from messaging.message_id import decode_message_id
from tests.simulation.checker import Checker, Violated
from tests.simulation.model import Consumer, Message, Place
from tests.simulation.sockets import Json, Socket

TOPIC = "persistent://public/default/w"
_PATH = "persistent/public/default/w"
RETRY_S = 0.02
KEYS = 5
UNLIMITED = 1 << 40  # permits: a session asks for what its window has room for
NACK_DELAY_MS = 50
KINDS = ("Exclusive", "Shared", "Key_Shared")


class World(Protocol):
    """What these clients need of the simulation."""

    random: Random
    checker: Checker

    def socket(
        self,
        path: str,
        query: str,
        opened: Callable[[], None],
        written: Callable[[Json], None],
        received: Callable[[Json], None],
        lost: Callable[[], None],
    ) -> Socket | None:
        """A new WebSocket; None while there is no broker."""

    def later(self, seconds: float, act: Callable[[], None]) -> None: ...
    def note(self, line: str) -> None: ...


class WebSocketClient:
    """`ready`: the WebSocket is open."""

    path = ""

    def __init__(self, world: World, name: str, query: str = "") -> None:
        self.world = world
        self.name = name
        self.socket: Socket | None = None
        self.ready = False
        self.stopped = False
        self._query = query
        self.connect()

    def connect(self) -> None:
        if self.socket is None and not self.stopped:
            self.socket = self.world.socket(self.path, self._query, self._open, self._written, self._received, self._lost)
            if self.socket is None:
                self.world.later(RETRY_S, self.connect)

    def disconnect(self) -> None:
        if self.socket is not None:
            self.socket.close_by_peer()

    def stop(self) -> None:
        self.stopped = True
        self.disconnect()

    def say(self, **frame: Any) -> None:
        if self.socket is not None:
            self.socket.say(**frame)

    def _open(self) -> None:
        self.ready = True

    def _lost(self) -> None:
        self.socket = None
        self.ready = False
        self.world.later(RETRY_S, self.connect)

    def _written(self, frame: Json) -> None:
        """The broker wrote `frame`: it has promised what that says."""

    def _received(self, frame: Json) -> None:
        """It has arrived."""


class WebSocketProducer(WebSocketClient):
    path = f"/ws/v2/producer/{_PATH}"

    def __init__(self, world: World, name: str) -> None:
        self._number = 0
        super().__init__(world, name)

    def publish(self, count: int, padding_bytes: int) -> None:
        for _ in range(count):
            text, key = f"<{self.name}.{self._number}>", f"key{self._number % KEYS}"
            payload = text.encode() + b"." * padding_bytes
            self.world.checker.sent(Message(text, payload, self.name, self._number, TOPIC, key=key))
            self._number += 1
            self.say(payload=base64.b64encode(payload).decode(), key=key, context=text)

    def _written(self, frame: Json) -> None:
        text = str(frame.get("context"))
        if frame["result"] != "ok":
            self.world.note(f"{self.name}: {frame}")
            self.world.checker.count("messages refused over WebSockets")
            return
        place = _place(frame["messageId"])
        self.world.note(f"receipt {text} {place}")
        self.world.checker.receipted([text], place)
        self.world.checker.count("receipts over WebSockets")


class WebSocketConsumer(WebSocketClient):
    """Holds what it was delivered until an operation acknowledges it or refuses it."""

    def __init__(self, world: World, name: str, kind: str) -> None:
        self.kind = kind
        self.subscription = f"ws-{kind.lower()}"
        self.consumer: Consumer | None = None
        self.unacked: dict[str, tuple[str, Place]] = {}  # the id of each message, with its text
        self._last: Place = (-1, -1)
        self._begins_anew = False  # its topic was unloaded: the next load sends again what is not acknowledged
        self._lives = 0
        self.path = f"/ws/v2/consumer/{_PATH}/{self.subscription}"
        query = f"subscriptionType={kind}&subscriptionInitialPosition=Earliest&receiverQueueSize=20&consumerName={name}"
        super().__init__(world, name, f"{query}&negativeAckRedeliveryDelay={NACK_DELAY_MS}")

    def _open(self) -> None:
        super()._open()
        checker, name = self.world.checker, f"{self.name}#{self._lives}"
        shared, keyed = self.kind != "Exclusive", self.kind == "Key_Shared"
        self.consumer = checker.subscribed(TOPIC, self.subscription, name, shared=shared, keyed=keyed)
        checker.flow(self.consumer, UNLIMITED)
        # What a session has queued it sends after its consumer was closed, while others are sent the same.
        self.consumer.giving_back = 1
        self._lives += 1

    def _lost(self) -> None:
        super()._lost()
        self.unacked.clear()
        self._last, self._begins_anew = (-1, -1), False
        if self.consumer is not None:
            self.world.checker.left(self.consumer)
            self.consumer = None

    def _written(self, frame: Json) -> None:
        if self.consumer is None:
            return
        text, place = _text(frame), _place(frame["messageId"])
        self.world.note(f"{self.name} < {text} {place}")
        if self.kind == "Exclusive":
            if place <= self._last and self._begins_anew:
                self._begins_anew = False
            elif place <= self._last:
                raise Violated(f"{self.name} was sent {text} at {place} after {self._last}")
            self._last = place
        self.world.checker.delivered(self.consumer, place, [text], frame["redeliveryCount"])
        self.world.checker.count("deliveries over WebSockets")

    def _received(self, frame: Json) -> None:
        self.unacked[frame["messageId"]] = _text(frame), _place(frame["messageId"])

    def topic_unloaded(self) -> None:
        """The broker opens its consumer again without a word."""
        self._begins_anew = True

    def acknowledge(self, identifiers: list[str]) -> None:
        assert self.consumer is not None
        for identifier in identifiers:
            text, _ = self.unacked.pop(identifier)
            self.world.checker.ack_sent(self.consumer, [text])
            self.say(messageId=identifier)

    def refuse(self, identifiers: list[str]) -> None:
        """They come again, to this consumer or to another."""
        assert self.consumer is not None
        for identifier in identifiers:
            text, _ = self.unacked.pop(identifier)
            self.world.checker.give_back_sent(self.consumer, [text])
            self.world.checker.give_back_done(self.consumer)
            self.say(type="negativeAcknowledge", messageId=identifier)


class WebSocketReader(WebSocketClient):
    """Reads from the beginning, each message once and in order, and begins again when it is closed."""

    path = f"/ws/v2/reader/{_PATH}"

    def __init__(self, world: World, name: str) -> None:
        self.last: Place = (-1, -1)
        self.unread: list[str] = []  # ids of messages for which it did not ask for another
        super().__init__(world, name, f"messageId=earliest&receiverQueueSize=20&readerName={name}")

    def _lost(self) -> None:
        super()._lost()
        self.last = (-1, -1)
        self.unread.clear()

    def _written(self, frame: Json) -> None:
        text, place = _text(frame), _place(frame["messageId"])
        self.world.checker.read(text, place)
        if place <= self.last:
            raise Violated(f"{self.name} was sent {text} at {place} after {self.last}")
        self.last = place
        self.world.checker.count("messages read over WebSockets")

    def _received(self, frame: Json) -> None:
        self.unread.append(frame["messageId"])

    def go_on(self) -> None:
        for identifier in self.unread:
            self.say(messageId=identifier)
        self.unread.clear()


class WebSocketClients:
    """Those of one simulation."""

    def __init__(self, world: World) -> None:
        self.producers = [WebSocketProducer(world, f"w{letter}") for letter in "ab"]
        self.consumers = [
            WebSocketConsumer(world, f"wc-{kind.lower()}-{number}", kind)
            for kind in KINDS
            for number in range(1 if kind == "Exclusive" else 2)
        ]
        self.readers = [WebSocketReader(world, "wr")]

    @property
    def hold_messages(self) -> bool:
        return any(consumer.unacked for consumer in self.consumers) or any(reader.unread for reader in self.readers)

    def topic_unloaded(self, topic: str) -> None:
        if topic == TOPIC:
            for consumer in self.consumers:
                consumer.topic_unloaded()

    def take_everything(self) -> None:
        for consumer in self.consumers:
            if consumer.consumer is not None:
                consumer.acknowledge(list(consumer.unacked))
        for reader in self.readers:
            reader.go_on()

    def __iter__(self) -> Iterator[WebSocketClient]:
        yield from (*self.producers, *self.consumers, *self.readers)


def _place(identifier: str) -> Place:
    position = decode_message_id(identifier)
    return position.ledger_id, position.entry_id


def _text(frame: Json) -> str:
    return base64.b64decode(frame["payload"]).rstrip(b".").decode()
