"""A producer of a topic, and where the topic sends what it has for it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from messaging.broker.core.clients.client_info import LOCAL_CLIENT
from messaging.broker.core.clients.open_sessions import OpenSession
from messaging.broker.core.producers.access_modes import AccessMode
from messaging.errors import MagnetarError
from messaging.limits.binary import NAME as PRODUCER_NAME
from messaging.limits.model import check
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position

NO_EPOCH = -1  # of a topic that never had an exclusive producer, and of a request that names none
NO_METADATA: Mapping[str, str] = MappingProxyType({})


class ProducerSink(Protocol):
    """Where a producer's receipts go. Never blocks, never raises."""

    def receipts(self, producer: Producer, sent: list[SendFrame], first: Position) -> None:
        """``sent`` are durable, at `first` and on (one duplicate: at `first`, or -1:-1 if unknown). Called in send order."""

    def receipts_of_unstored(self, producer: Producer, sent: list[SendFrame], position: Position) -> None:
        """``sent`` came and are stored nowhere: all have the id `position`."""

    def append_completed(self, size: int) -> None:
        """`size` appended bytes are durable, or were refused: they no longer count against the sender."""

    def parked(self, size: int) -> None:
        """`size` bytes that were published wait for rate limits. They count as appended until `append_completed`."""

    def unparked(self, size: int) -> None:
        """They wait no longer."""

    def unpublished(self, producer: Producer, sent: list[SendFrame]) -> None:
        """``sent`` waited for rate limits until the producer was fenced: they are not stored."""

    def closed(self, producer: Producer) -> None:
        """The broker closed this producer; it has to connect again and send again what has no receipt."""

    def fenced(self, producer: Producer) -> None:
        """Another producer took the topic over. Called after the receipts of everything that this one had published."""

    def promoted(self, producer: Producer) -> None:
        """A producer that waited has the topic now."""

    def refused(self, producer: Producer, error: MagnetarError) -> None:
        """A producer that waited does not get the topic."""

    def alive(self) -> bool: ...


class Producer:
    __slots__ = (
        "access",
        "bytes_in",
        "chunks_in",
        "client",
        "closed",
        "connected_ms",
        "encrypted",
        "epoch",
        "fenced",
        "messages_in",
        "metadata",
        "name_bytes",
        "producer_id",
        "schema_version",
        "session",
        "sink",
        "topic_epoch",
    )

    def __init__(
        self,
        producer_id: int,
        name: str,
        sink: ProducerSink,
        *,
        epoch: int = 0,
        now_ms: int = 0,
        access: AccessMode = AccessMode.SHARED,
        topic_epoch: int = NO_EPOCH,
    ) -> None:
        """`epoch` counts the client's own tries; `topic_epoch` is the one under which it had the topic before.

        Raises `InvalidValue` for a name that is too long."""
        check("producer_name", name, PRODUCER_NAME)  # it goes into every block's header and every snapshot of sequence ids
        self.producer_id = producer_id
        self.name_bytes = name.encode()
        self.sink = sink
        self.epoch = epoch
        self.metadata: Mapping[str, str] = NO_METADATA
        self.client = LOCAL_CLIENT
        self.session: OpenSession | None = None  # under which it was opened; None for the broker's own
        self.access = access
        self.topic_epoch = topic_epoch  # from the moment it owns the topic, the epoch of that
        self.encrypted = False  # every message it sends has to be
        self.schema_version: int | None = None  # of the schema it publishes with; None if it has none
        self.closed = False
        self.fenced = False  # closed because another producer took the topic over
        self.messages_in = 0
        self.chunks_in = 0
        self.bytes_in = 0
        self.connected_ms = now_ms

    @property
    def name(self) -> str:
        return self.name_bytes.decode()
