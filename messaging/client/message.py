"""Messages and their ids in the SDK's API."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from messaging.message_id import MessageIdParts, decode_message_id


@dataclass(frozen=True)
class MessageId:
    """Where a message is stored. Opaque: pass it back as it came. Equal ids mean the same message of the same topic."""

    text: str

    @cached_property
    def parts(self) -> MessageIdParts:
        """Ledger, entry, batch index and partition; raises `InvalidValue` for a text that was not an id."""
        return decode_message_id(self.text)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """What `Producer.send` makes of its arguments. Times are milliseconds since 1970 UTC, None for none."""

    payload: bytes
    key: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    event_time_ms: int | None = None
    deliver_at_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """Payload, key and properties: what counts against the limits."""
        properties = sum(len(key) + len(value) for key, value in self.properties.items())
        return len(self.payload) + len(self.key or "") + properties


@dataclass(frozen=True, slots=True)
class Message:
    """A received message. `redelivery_count` is how often it was delivered before. `publish_time_ms` is the producer's clock. With
    `null_value` it has no value, which is not an empty one."""

    id: MessageId
    payload: bytes
    properties: dict[str, str]
    publish_time_ms: int
    redelivery_count: int = 0
    key: str | None = None
    event_time_ms: int | None = None
    null_value: bool = False
