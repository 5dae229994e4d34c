"""The end of a producer that remembers what the topic told it."""

from __future__ import annotations

from messaging.broker.core.producers.producer import Producer
from messaging.errors import MagnetarError
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position


class ProducerEnd:
    """Implements `messaging.broker.core.producers.producer.ProducerSink`."""

    def __init__(self) -> None:
        self.connected = True
        self.told: list[str] = []

    def receipts(self, producer: Producer, sent: list[SendFrame], first: Position) -> None:
        self.told.append("receipts")

    def receipts_of_unstored(self, producer: Producer, sent: list[SendFrame], position: Position) -> None:
        self.receipts(producer, sent, position)

    def append_completed(self, size: int) -> None: ...

    def parked(self, size: int) -> None: ...

    def unparked(self, size: int) -> None: ...

    def unpublished(self, producer: Producer, sent: list[SendFrame]) -> None: ...

    def closed(self, producer: Producer) -> None:
        self.told.append("closed")

    def fenced(self, producer: Producer) -> None:
        self.told.append("fenced")

    def promoted(self, producer: Producer) -> None:
        self.told.append("promoted")

    def refused(self, producer: Producer, error: MagnetarError) -> None:
        self.told.append(error.code)

    def alive(self) -> bool:
        return self.connected


class ProducerWatch:
    """The client of a local producer: a `messaging.broker.runtime.local.messages.ProducerListener`."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def closed(self, error: MagnetarError | None) -> None:
        self.told.append("closed" if error is None else error.code)
