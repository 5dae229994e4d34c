"""The producers of one topic: which names are in use, and who may take one over. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from messaging.broker.core.client_info import LOCAL_CLIENT
from messaging.broker.core.open_sessions import OpenSession
from messaging.errors import ProducerBusy
from messaging.limits.binary import NAME as PRODUCER_NAME
from messaging.limits.model import check
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position

NO_METADATA: Mapping[str, str] = MappingProxyType({})


class ProducerSink(Protocol):
    """Where a producer's receipts go. Never blocks, never raises."""

    def receipts(self, producer: Producer, sent: list[SendFrame], first: Position) -> None:
        """``sent`` are durable, at `first` and on (one duplicate: at `first`, or -1:-1 if unknown). Called in send order."""

    def append_completed(self, size: int) -> None:
        """`size` appended bytes are durable, or were refused: they no longer count against the sender."""

    def closed(self, producer: Producer) -> None:
        """The broker closed this producer; it has to connect again and send again what has no receipt."""

    def alive(self) -> bool: ...


class Producer:
    __slots__ = (
        "bytes_in",
        "client",
        "closed",
        "connected_ms",
        "epoch",
        "messages_in",
        "metadata",
        "name_bytes",
        "producer_id",
        "session",
        "sink",
    )

    def __init__(self, producer_id: int, name: str, sink: ProducerSink, *, epoch: int = 0, now_ms: int = 0) -> None:
        """Raises `InvalidValue` for a name that is too long."""
        check("producer_name", name, PRODUCER_NAME)  # it goes into every block's header and every snapshot of sequence ids
        self.producer_id = producer_id
        self.name_bytes = name.encode()
        self.sink = sink
        self.epoch = epoch
        self.metadata: Mapping[str, str] = NO_METADATA
        self.client = LOCAL_CLIENT
        self.session: OpenSession | None = None  # under which it was opened; None for the broker's own
        self.closed = False
        self.messages_in = 0
        self.bytes_in = 0
        self.connected_ms = now_ms

    @property
    def name(self) -> str:
        return self.name_bytes.decode()


class ProducerTable:
    """Nearly every topic has at most one producer, so there is a dictionary only from the second on."""

    __slots__ = ("_by_name", "_only")

    def __init__(self) -> None:
        self._only: Producer | None = None
        self._by_name: dict[str, Producer] | None = None  # from the second producer on, for good

    def attach(self, producer: Producer) -> Producer | None:
        """Returns the former producer that this one replaces, if any. Raises `ProducerBusy`.

        A producer replaces one of its name that is itself on an earlier try (same connection and id, lower epoch), or whose
        connection is gone (Pulsar's successor rule)."""
        held = self.get(producer.name)
        if held is not None:
            itself = held.sink is producer.sink and held.producer_id == producer.producer_id and held.epoch < producer.epoch
            if not itself and held.sink.alive():
                raise ProducerBusy(
                    f"a producer named {producer.name!r} is already connected to this topic: close it, or use another name"
                )
        if self._by_name is None and (self._only is None or self._only is held):
            self._only = producer
            return held
        if self._by_name is None:
            assert self._only is not None
            self._by_name = {self._only.name: self._only}
            self._only = None
        self._by_name[producer.name] = producer
        return held

    def get(self, name: str) -> Producer | None:
        if self._by_name is not None:
            return self._by_name.get(name)
        return self._only if self._only is not None and self._only.name == name else None

    def detach(self, producer: Producer) -> None:
        """Idempotent; leaves a successor of the same name alone."""
        if self._only is producer:
            self._only = None
        elif self._by_name is not None and self._by_name.get(producer.name) is producer:
            del self._by_name[producer.name]

    def __len__(self) -> int:
        return len(self._by_name) if self._by_name is not None else int(self._only is not None)

    def __iter__(self) -> Iterator[Producer]:
        """Over a copy: producers may be detached meanwhile."""
        if self._by_name is not None:
            return iter(list(self._by_name.values()))
        return iter(() if self._only is None else (self._only,))
