"""What the broker promised, and whether it keeps it: told of every command in the moment that the broker writes it.

A message is known by its id, the unique beginning of its text. For each subscription a message is *owed* (it was receipted after
the subscription was made, and nobody can have acknowledged it), *done* (its acknowledgement was confirmed), or neither: a crash, a
seek or an acknowledgement without an answer leaves both possible. What is owed must be delivered in the end, what is done never
again.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.model import Chunk, Consumer, Message, Place, Subscribed


class Violated(AssertionError):
    """The broker broke a promise."""


class Checker:
    """`durable` says whether these bytes would survive a power loss now. `note` takes a line for the trace. `early_ms`: a delayed
    message may come so much before its time."""

    def __init__(
        self, durable: Callable[[bytes], bool], note: Callable[[str], None], now_ms: Callable[[], int], early_ms: int
    ) -> None:
        self.now_ms = now_ms
        self.early_ms = early_ms
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
        if consumer.permits <= 0 and not (subscribed.shared and self._follows_another(texts)):
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
            if subscribed.shared and message.due_ms > self.now_ms() + self.early_ms:
                raise Violated(f"{text} was delivered {message.due_ms - self.now_ms()} ms too early")
            for other in subscribed.consumers.values():
                if other is not consumer and text in other.holds and text not in other.unsure:
                    if message.chunk is not None and other.needs_more(message):
                        self._taken_back(other, message.chunk)
                        continue
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

    def read(self, text: str, place: Place) -> None:
        """A reader was sent a message."""
        message = self.messages.get(text)
        if message is None:
            raise Violated(f"a reader was sent {text!r}, which nobody published")
        self._at(message, place)
        self._require_durable(message, "read")

    def _follows_another(self, texts: list[str]) -> bool:
        """The chunks of a message follow the first, whatever permits are left."""
        return texts[0] in self.messages and self.messages[texts[0]].chunk is not None

    def _taken_back(self, other: Consumer, chunk: Chunk) -> None:
        """The larger message goes whole to another consumer."""
        for text in other.parts_of(chunk):
            key = other.holds.pop(text).key
            other.subscription.last_of_key.pop(key, None)

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
                for text, other_message in other.holds.items():
                    if other_message.key == message.key and text not in other.unsure and not other.needs_more(other_message):
                        raise Violated(f"{message.text} of {message.key} came to {consumer.name} while {other.name} holds {text}")
        if any(consumer.giving_back for consumer in subscribed.consumers.values()):
            return
        if message.due_ms:
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
            message = consumer.holds.pop(text, None)
            if message is not None and message.chunk is not None:
                for part in consumer.parts_of(message.chunk):
                    del consumer.holds[part]

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
