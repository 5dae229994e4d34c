"""The interface of local sessions: messages, handles and listeners of clients inside the broker's own process.

A *local session* (`messaging/broker/runtime/local/`) is a producer or consumer without a binary connection. Messages here
are single and plain: payloads uncompressed, batches opened. `LocalService` is the part of the broker's facade that opens them.
All callbacks run on the broker's event loop, must not block and must not raise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from messaging.errors import MagnetarError
from messaging.permissions.model import Principal

SubscriptionKind = Literal["Exclusive", "Shared", "Failover", "Key_Shared"]
InitialPosition = Literal["earliest", "latest"]


class MessagePosition(NamedTuple):
    """A message of a topic. `batch_index` is -1 unless the entry is a batch; `partition` -1 unless the topic is a partition."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1
    partition: int = -1


class EncryptionKey(NamedTuple):
    """The key of a message, itself encrypted, and what its producer says of it."""

    value: bytes
    metadata: dict[str, str]


@dataclass(slots=True)
class EncryptionContext:
    """What whoever can decrypt a message needs besides its payload. The message may be compressed, or a batch of `batch_size`."""

    keys: dict[str, EncryptionKey]
    param: bytes
    algorithm: str
    compression: str  # by its name in the protocol
    uncompressed_bytes: int
    batch_size: int | None


@dataclass(slots=True)
class OutgoingMessage:
    """A message to publish. `sequence_id` None: the broker numbers it. Times are milliseconds since 1970 UTC; 0: not set."""

    payload: bytes
    properties: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    event_time_ms: int = 0
    sequence_id: int | None = None
    deliver_at_ms: int = 0
    null_value: bool = False  # has no value, which is not an empty one
    encryption: EncryptionContext | None = None  # the payload is encrypted


@dataclass(slots=True)
class DeliveredMessage:
    """A message handed to a consumer. `batch_size` is the number of messages in its entry, 1 for a plain one. With an `encryption`
    the payload is as its producer encrypted it."""

    position: MessagePosition
    payload: bytes
    publish_time_ms: int
    properties: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    event_time_ms: int = 0
    redelivery_count: int = 0
    batch_size: int = 1
    producer_name: str = ""
    sequence_id: int = -1
    null_value: bool = False
    encryption: EncryptionContext | None = None
    topic: str = ""  # for a consumer of several: which of them, without its partition


class ProducerListener(Protocol):
    def closed(self, error: MagnetarError | None) -> None:
        """The broker closed the producer: topic unloaded or deleted (`NotReady`, `TopicNotFound`), key revoked. Called at most
        once, never after `close()` of the handle."""


class ConsumerListener(Protocol):
    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        """Messages in delivery order, as long as permits given by `flow` are left. One message takes one; the last batch may take
        them below zero, and the next `flow` makes up for it. What is not delivered takes none."""

    def closed(self, error: MagnetarError | None) -> None:
        """As `ProducerListener.closed`."""

    def end_of_topic(self) -> None:
        """The topic is terminated and everything in it was delivered to this subscription."""


class TopicListener(ConsumerListener, Protocol):
    """Of a consumer of a whole topic, which is opened again where the broker closes it: `closed` is called when that is refused for
    good."""

    def withdraw(self, partition: int, topic: str = "") -> int:
        """The messages of this partition (-1: of a plain topic) that its client was not given are to be dropped, because they will
        be delivered again, or their topic has gone. Returns how many; they count as asked for. `topic`: as in the messages."""

    def topic_added(self) -> None:
        """A consumer of several topics has one more, which has not ended."""


# Positions in the order of the messages, once all are durable; or the error that refused them all.
Receipt = Callable[[Sequence[MessagePosition] | None, MagnetarError | None], None]


class ProducerHandle(Protocol):
    producer_name: str
    last_sequence_id: int  # highest already stored under this name, -1 for none
    gathers: bool  # `publish` takes several messages, which are then stored or refused together

    def publish(self, messages: Sequence[OutgoingMessage], on_receipt: Receipt) -> None:
        """Appends the messages as consecutive entries. `on_receipt` is called exactly once, later, in the order of publishing."""

    def leave(self) -> None:
        """From now on it takes nothing, and another producer may take its name. `close` follows."""

    def close(self) -> None:
        """Receipts still due are delivered with what became of them. Idempotent."""


class ConsumerHandle(Protocol):
    def flow(self, permits: int) -> None:
        """Asks for `permits` more messages."""

    def ack(self, positions: Sequence[MessagePosition]) -> Awaitable[None]:
        """Acknowledges each; the awaitable ends when that is durable. The acknowledgement happens even if it is never awaited."""

    def nack(self, positions: Sequence[MessagePosition]) -> None:
        """Asks for redelivery, at once. The caller keeps any delay."""

    async def unsubscribe(self) -> None:
        """Deletes the subscription. Raises `PreconditionFailed` while others are attached."""

    def close(self) -> None:
        """Messages delivered and not acknowledged go back to the subscription. Idempotent."""


class TopicsHandle(ConsumerHandle, Protocol):
    @property
    def topics(self) -> Sequence[str]:
        """Those that it consumes now."""


class LocalService(Protocol):
    """The part of `Broker` that opens local sessions. Each call checks the permission of `principal` itself and raises
    `messaging.errors` before anything is opened.

    A consumer that is not `durable` has a subscription of its own, which ends with it. It begins right after `start`, or at
    `initial` where `start` is None; a durable subscription that exists continues where it is.
    """

    async def open_producer(
        self, principal: Principal, topic: str, producer_name: str | None, sink: ProducerListener, *, encrypts: bool = False
    ) -> ProducerHandle:
        """Of a plain topic, or of one partition. `encrypts`: every message it publishes has an `encryption`."""
        ...

    async def partitions(self, principal: Principal, topic: str) -> int:
        """Of a topic that `principal` may publish to; 0: it is a plain one."""
        ...

    def follow_partitions(self, topic: str, grown: Callable[[int], None]) -> Callable[[], None]:
        """`grown` is told how many there are whenever there are more, until the returned function is called."""
        ...

    async def subscribe(
        self,
        principal: Principal,
        topic: str,
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        start: MessagePosition | None,
        sink: TopicListener,
        *,
        consumer_name: str = "",
        priority: int = 0,
    ) -> ConsumerHandle:
        """Of all partitions, where `topic` has some. `consumer_name`: decides about the order of Failover and the keys of
        Key_Shared; "": a new one."""
        ...

    async def subscribe_topics(
        self,
        principal: Principal,
        topics: Sequence[str],
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        sink: TopicListener,
        *,
        consumer_name: str = "",
        priority: int = 0,
    ) -> TopicsHandle:
        """Of several topics, each of which `principal` may consume. None is opened where one is refused."""
        ...

    async def subscribe_pattern(
        self,
        principal: Principal,
        pattern: str,
        subscription: str,
        kind: SubscriptionKind,
        initial: InitialPosition,
        durable: bool,
        sink: TopicListener,
        *,
        consumer_name: str = "",
        priority: int = 0,
        without: str = "",
    ) -> TopicsHandle:
        """Of the persistent topics that match ``persistent://tenant/namespace/expression`` and that `principal` may consume: those
        that exist, and those that are created later, from their beginning. `without`: a topic that does not match."""
        ...
