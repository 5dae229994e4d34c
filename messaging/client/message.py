"""Messages and their ids in the SDK's API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from messaging.message_id import MessageIdParts, decode_message_id, encode_message_id


class MessageId(NamedTuple):
    """Where a message is stored. Equal ids mean the same message of the same topic. `batch_index` and `partition`: -1 for none; a
    message that deduplication dropped has ledger and entry -1."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1
    partition: int = -1

    @property
    def text(self) -> str:
        """As Pulsar's WebSocket API and REST show it."""
        return encode_message_id(self.ledger_id, self.entry_id, self.batch_index, self.partition)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises `InvalidValue` for a text that is not an id."""
        parts: MessageIdParts = decode_message_id(text)
        return cls(parts.ledger_id, parts.entry_id, parts.batch_index, parts.partition)

    def __str__(self) -> str:
        return self.text


EARLIEST = MessageId(-1, -1)
LATEST = MessageId((1 << 63) - 1, (1 << 63) - 1)

Key = str | bytes | None


@dataclass(slots=True)
class OutgoingMessage:
    """What a producer makes of the arguments of `send`; interceptors may change it. Times are milliseconds since 1970 UTC, None for
    none. `payload` None is no value, which is not an empty one."""

    payload: bytes | None
    key: Key = None
    properties: dict[str, str] = field(default_factory=dict)
    event_time_ms: int | None = None
    deliver_at_ms: int | None = None
    ordering_key: bytes | None = None
    sequence_id: int | None = None

    @property
    def size_bytes(self) -> int:
        """Payload, key and properties: what counts against the limits."""
        size = len(self.payload or b"")
        if self.key is not None:
            size += len(self.key)
        if self.properties:
            size += sum(len(key) + len(value) for key, value in self.properties.items())
        return size


@dataclass(frozen=True, slots=True)
class EncryptionContext:
    """Of a message that was not decrypted: what whoever has the key needs."""

    keys: dict[str, bytes]
    param: bytes
    algorithm: str
    compression: int
    uncompressed_bytes: int
    batch_size: int


@dataclass(slots=True)  # frozen ones take three times as long to make
class Message:
    """A received message, which is not to be changed. `redelivery_count` is how often it was delivered before. `publish_time_ms` is
    the producer's clock. With `null_value` it has no value, which is not an empty one. `value` is the payload as the consumer's
    schema reads it."""

    id: MessageId
    payload: bytes
    properties: dict[str, str]
    publish_time_ms: int
    redelivery_count: int = 0
    key: Key = None
    event_time_ms: int | None = None
    null_value: bool = False
    topic: str = ""
    producer_name: str = ""
    sequence_id: int = -1
    ordering_key: bytes | None = None
    schema_version: bytes = b""
    encryption: EncryptionContext | None = None
    value: Any = None
