"""What the checker knows of messages, consumers and subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[int, int]  # ledger, entry


class Chunk(NamedTuple):
    """That a message is one of `chunks` chunks of `whole`, a larger one."""

    whole: str
    chunks: int


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
    chunk: Chunk | None = None
    due_ms: int = 0  # where it was to be delivered later


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

    def parts_of(self, chunk: Chunk) -> list[str]:
        """Of the same larger message."""
        return [text for text, message in self.holds.items() if message.chunk == chunk]

    def needs_more(self, message: Message) -> bool:
        """It holds a part of the larger message that `message` belongs to: nobody can use that yet."""
        return message.chunk is not None and len(self.parts_of(message.chunk)) < message.chunk.chunks


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
