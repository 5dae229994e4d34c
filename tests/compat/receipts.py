"""What clients of a campaign were told: receipts, and answered acknowledgements. Whatever speaks to the brokers writes it here.

Each topic has one publisher. Its messages have keys of their own, and each its number, which rise; their payload is "key:number".
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import NamedTuple


class Sent(NamedTuple):
    key: str
    number: int

    @property
    def payload(self) -> bytes:
        return f"{self.key}:{self.number}".encode()

    @classmethod
    def read(cls, payload: bytes | str) -> Sent:
        key, number = (payload if isinstance(payload, str) else payload.decode()).rsplit(":", 1)
        return cls(key, int(number))


class Receipts:
    """Of the publisher of one topic. `receipts`: what is stored. `first_s`: see `watch`."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.receipts = set[Sent]()
        self.faults: list[str] = []
        self.first_s = 0.0
        self._since_s = 0.0

    def watch(self, since_s: float) -> None:
        """`first_s`: the time of the first receipt for a message that was published after `since_s`; 0: there is none yet."""
        self._since_s, self.first_s = since_s, 0.0

    def receipt(self, sent: Sent, published_s: float) -> None:
        """By the monotonic clock."""
        self.receipts.add(sent)
        if not self.first_s and published_s >= self._since_s:
            self.first_s = time.monotonic()

    def refused(self, sent: Sent, why: object) -> None:
        self.faults.append(f"{self.topic}: {sent} was refused: {why}")

    @property
    def persistent(self) -> bool:
        return self.topic.startswith("persistent://")

    @property
    def deduplicated(self) -> bool:
        return "/once/" in self.topic

    def close(self) -> None:
        """Publishes nothing more; returns when it has a receipt for each."""


class Deliveries:
    """What came to the consumers of one subscription, whose first deliveries are to be in each key's order, and which of them they
    acknowledged: `acknowledged` are ids whose acknowledgement was answered, `unanswered` those where it was not yet.

    None of these is sent again. That one comes again proves nothing: it may have been on its way, or waited in a client, from
    before the answer. So it is not acknowledged again, and one that a broker forgot is in the subscription's backlog in the end."""

    def __init__(self, topic: str, subscription: str) -> None:
        self.topic, self.subscription = topic, subscription
        self.acknowledged = set[str]()
        self.unanswered = set[str]()
        self.seen = set[Sent]()
        self.again = 0
        self.faults: list[str] = []
        self._highest: dict[str, int] = defaultdict(lambda: -1)

    def came(self, message_id: str, payload: bytes | str) -> bool:
        """Whether it is to be acknowledged."""
        sent = Sent.read(payload)
        if message_id not in self.acknowledged:
            self.unanswered.add(message_id)
        if sent in self.seen:
            self.again += 1
            return message_id not in self.acknowledged
        self.seen.add(sent)
        if sent.number < self._highest[sent.key]:
            self._fault(f"{sent} came after {self._highest[sent.key]}")
        self._highest[sent.key] = max(self._highest[sent.key], sent.number)
        return True

    def was_acknowledged(self, message_id: str) -> None:
        self.acknowledged.add(message_id)
        self.unanswered.discard(message_id)

    def _fault(self, text: str) -> None:
        self.faults.append(f"{self.topic}, {self.subscription}: {text}")

    @property
    def persistent(self) -> bool:
        return self.topic.startswith("persistent://")
