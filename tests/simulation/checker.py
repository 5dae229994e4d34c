"""What the broker promised, and whether it keeps it: told of every command in the moment that the broker writes it.

A message is known by its id, the unique beginning of its text. For each subscription a message is *owed* (it was receipted after
the subscription was made, and nobody can have acknowledged it), *done* (its acknowledgement was confirmed), or neither: a crash, a
seek or an acknowledgement without an answer leaves both possible. What is owed must be delivered in the end, what is done never
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Place = tuple[int, int]  # ledger, entry


class Violated(AssertionError):
    """The broker broke a promise."""


@dataclass
class Message:
    text: str  # its id
    payload: bytes  # begins with it
    producer: str
    number: int  # in the order in which this producer sent
    topic: str
    place: Place | None = None
    receipted: bool = False
    key: str = ""


@dataclass
class Consumer:
    """One that is subscribed: from SUCCESS until it or its connection is closed."""

    name: str
    subscription: Subscribed
    permits: int = 0
    active: bool = True
    last: Place = (-1, -1)  # delivered since the subscription was rewound
    holds: dict[str, Message] = field(default_factory=dict)  # delivered to it, not acknowledged, not given back
    giving_back: int = 0  # requests for redelivery under way: what is delivered meanwhile may be given back by them, or not
    unsure: set[str] = field(default_factory=set)


@dataclass
class Subscribed:
    topic: str
    name: str
    shared: bool
    keyed: bool = False  # Key_Shared
    last_of_key: dict[str, Place] = field(default_factory=dict)  # delivered since anything was given back, or anybody left
    owed: dict[str, Message] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    done_to: Place = (-1, -1)  # all up to here was acknowledged and that confirmed
    perhaps_to: Place = (-1, -1)  # all up to here may be acknowledged
    perhaps: set[str] = field(default_factory=set)
    seeks: int = 0  # that may still take effect
    consumers: dict[str, Consumer] = field(default_factory=dict)
    receiver: str = ""  # of an Exclusive or Failover subscription: who was sent something last
    changes: int = 0  # consumers that came or left since: each may make another one active

    def is_done(self, message: Message) -> bool:
        return message.text in self.done or (message.place is not None and message.place <= self.done_to)

    def must_deliver(self) -> Iterator[Message]:
        for text, message in self.owed.items():
            if text in self.perhaps or (message.place or self.perhaps_to) <= self.perhaps_to != (-1, -1):
                continue
            yield message


class Checker:
    """`durable` says whether these bytes would survive a power loss now. `note` takes a line for the trace."""

    def __init__(self, durable: Callable[[bytes], bool], note: Callable[[str], None]) -> None:
        self.messages: dict[str, Message] = {}
        self.subscriptions: dict[tuple[str, str], Subscribed] = {}
        self.counts: dict[str, int] = {}
        self._durable = durable
        self._note = note
        self._stored: set[str] = set()  # seen to be durable
        self._receipted: dict[str, Message] = {}  # the last one of each producer

    def count(self, what: str, more: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + more

    # --- producers

    def sent(self, message: Message) -> None:
        self.messages[message.text] = message

    def receipted(self, texts: list[str], place: Place | None) -> None:
        """`place` is not known of what was sent again and is stored already."""
        for text in texts:
            message = self.messages[text]
            if place is not None:
                self._at(message, place)
            self._require_durable(message, "receipted")
            before = self._receipted.get(message.producer)
            if before is not None and before.number >= message.number:
                raise Violated(f"{text} was receipted after {before.text}")
            if before is not None and before.place is not None and message.place is not None and before.place > message.place:
                raise Violated(f"{text} is at {message.place} and {before.text}, sent before it, at {before.place}")
            self._receipted[message.producer] = message
            message.receipted = True
            self._owe(message)
            self.count("receipts" if place is not None else "receipts of duplicates")

    def _owe(self, message: Message) -> None:
        for subscribed in self.subscriptions.values():
            if subscribed.topic == message.topic and message.text in subscribed.owed:
                continue
            if subscribed.topic == message.topic and not subscribed.is_done(message):
                subscribed.owed[message.text] = message

    def _at(self, message: Message, place: Place) -> None:
        if message.place is not None and message.place != place:
            raise Violated(f"{message.text} is at {message.place} and at {place}")
        message.place = place

    def _require_durable(self, message: Message, what: str) -> None:
        if message.text not in self._stored:
            if not self._durable(message.payload):
                raise Violated(f"{message.text} was {what} before the disk had it")
            self._stored.add(message.text)

    # --- consumers

    def subscribed(self, topic: str, name: str, consumer: str, *, shared: bool, keyed: bool = False) -> Consumer:
        subscribed = self.subscriptions.setdefault((topic, name), Subscribed(topic, name, shared, keyed))
        made = subscribed.consumers[consumer] = Consumer(consumer, subscribed)
        subscribed.changes += 1
        return made

    def left(self, consumer: Consumer) -> None:
        consumer.subscription.consumers.pop(consumer.name, None)
        consumer.subscription.changes += 1
        consumer.subscription.last_of_key.clear()

    def active_changed(self, consumer: Consumer, active: bool) -> None:
        """Failover: the consumer that becomes active is sent again what the former one has not acknowledged."""
        consumer.active = active
        if active:
            consumer.last = (-1, -1)
        else:
            consumer.unsure |= consumer.holds.keys()

    def delivered(self, consumer: Consumer, place: Place, texts: list[str], redeliveries: int) -> None:
        subscribed = consumer.subscription
        if consumer.permits <= 0:
            raise Violated(f"{consumer.name} of {subscribed.name} was sent {texts} without permits")
        consumer.permits -= len(texts)
        if not subscribed.shared and subscribed.receiver != consumer.name:
            self._switch(subscribed, consumer)
        for text in texts:
            message = self.messages.get(text)
            if message is None:
                raise Violated(f"{consumer.name} was sent {text!r}, which nobody published")
            self._at(message, place)
            self._require_durable(message, "delivered")
            if subscribed.is_done(message):
                raise Violated(
                    f"{text} at {place} was delivered to {subscribed.name} again: its acknowledgement had been confirmed"
                )
            for other in subscribed.consumers.values():
                if other is not consumer and text in other.holds and text not in other.unsure:
                    raise Violated(f"{text} was delivered to {consumer.name} while {other.name} holds it")
            if subscribed.keyed:
                self._check_key(consumer, message, place)
            consumer.holds[text] = message
            if consumer.giving_back:
                consumer.unsure.add(text)
            self._owe(message)
            self.count("deliveries")
        if not subscribed.shared:
            if place <= consumer.last and not consumer.giving_back:
                raise Violated(f"{consumer.name} of {subscribed.name} was sent {place} after {consumer.last}")
            consumer.last = place

    def _switch(self, subscribed: Subscribed, consumer: Consumer) -> None:
        """Another consumer is active: it gets what the others have not acknowledged. That takes somebody who came or left."""
        if not subscribed.changes:
            raise Violated(f"{consumer.name} and {subscribed.receiver} of {subscribed.name} are sent messages at the same time")
        subscribed.changes -= 1
        subscribed.receiver = consumer.name
        for other in subscribed.consumers.values():
            if other is not consumer:
                other.holds.clear()
                other.last = (-1, -1)

    def _check_key(self, consumer: Consumer, message: Message, place: Place) -> None:
        """Each key is with one consumer at a time, and in order."""
        subscribed = consumer.subscription
        for other in subscribed.consumers.values():
            if other is not consumer:
                for text, held in other.holds.items():
                    if held.key == message.key and text not in other.unsure:
                        raise Violated(f"{message.text} of {message.key} came to {consumer.name} while {other.name} holds {text}")
        if any(one.giving_back for one in subscribed.consumers.values()):
            return
        before = subscribed.last_of_key.get(message.key, (-1, -1))
        if place < before:
            raise Violated(f"{message.text} of {message.key} at {place} came to {consumer.name} after {before}")
        subscribed.last_of_key[message.key] = place

    def flow(self, consumer: Consumer, permits: int) -> None:
        consumer.permits += permits

    # --- acknowledging: `..._sent` when the client says it, `..._confirmed` when the broker answers

    def ack_sent(self, consumer: Consumer, texts: list[str]) -> None:
        for text in texts:
            consumer.subscription.perhaps.add(text)
            consumer.holds.pop(text, None)

    def ack_confirmed(self, subscribed: Subscribed, texts: list[str]) -> None:
        self.count("confirmed acknowledgements", len(texts))
        if not subscribed.seeks:
            subscribed.done.update(texts)
            for text in texts:
                subscribed.owed.pop(text, None)

    def ack_to_sent(self, consumer: Consumer, place: Place) -> None:
        subscribed = consumer.subscription
        subscribed.perhaps_to = max(subscribed.perhaps_to, place)
        for text, message in list(consumer.holds.items()):
            if message.place is not None and message.place <= place:
                del consumer.holds[text]

    def ack_to_confirmed(self, subscribed: Subscribed, place: Place) -> None:
        self.count("confirmed acknowledgements")
        if not subscribed.seeks:
            subscribed.done_to = max(subscribed.done_to, place)

    def give_back_sent(self, consumer: Consumer, texts: list[str]) -> None:
        consumer.giving_back += 1
        consumer.subscription.last_of_key.clear()
        for text in texts:
            consumer.holds.pop(text, None)

    def give_back_done(self, consumer: Consumer) -> None:
        consumer.giving_back -= 1
        consumer.subscription.last_of_key.clear()
        consumer.last = (-1, -1)

    def seek_sent(self, subscribed: Subscribed) -> None:
        """From now on everything that was done may come again, and everything owed may be passed over."""
        subscribed.seeks += 1
        self._forget(subscribed)

    def seek_ended(self, subscribed: Subscribed) -> None:
        subscribed.seeks -= 1
        self._forget(subscribed)

    def _forget(self, subscribed: Subscribed) -> None:
        subscribed.perhaps.update(text for text, message in self.messages.items() if message.topic == subscribed.topic)
        subscribed.done.clear()
        subscribed.last_of_key.clear()
        subscribed.done_to = (-1, -1)
        for consumer in subscribed.consumers.values():
            consumer.holds.clear()
            consumer.last = (-1, -1)
