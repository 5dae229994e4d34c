"""Stage: the arguments of `send` become a message: the schema, delays, and what cannot be asked for together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from messaging.client.message import Key, OutgoingMessage
from messaging.client.producing.options import ProducerOptions
from messaging.client.schemas import Schema
from messaging.errors import InvalidValue


class SendArguments(TypedDict, total=False):
    """`key` decides about the partition, and in a compacted topic which value is the latest. Times are milliseconds since 1970 UTC;
    `event_time_ms` is whatever the application means by it. `deliver_at_ms` and `deliver_after_s` delay the message on shared
    subscriptions. `ordering_key` takes the place of the key for Key_Shared subscriptions. `sequence_id` is a number of the caller,
    for deduplication: it has to rise."""

    key: Key
    properties: Mapping[str, str] | None
    event_time_ms: int | None
    deliver_at_ms: int | None
    deliver_after_s: float | None
    ordering_key: bytes | None
    sequence_id: int | None


class MessageBuilder:
    """`wall_ms`: milliseconds since 1970."""

    def __init__(self, options: ProducerOptions, schema: Schema[Any], wall_ms: Callable[[], int]) -> None:
        self._schema = schema
        self._wall_ms = wall_ms
        self._by_key = options.batch is not None and options.batch.by_key

    def build(
        self,
        value: Any,
        *,
        key: Key = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int | None = None,
        deliver_at_ms: int | None = None,
        deliver_after_s: float | None = None,
        ordering_key: bytes | None = None,
        sequence_id: int | None = None,
    ) -> OutgoingMessage:
        """Raises `InvalidValue`."""
        if deliver_after_s is not None:
            if deliver_at_ms is not None:
                raise InvalidValue("deliver_at_ms and deliver_after_s say the same thing: give one of them")
            deliver_at_ms = self._wall_ms() + round(deliver_after_s * 1000)
        if sequence_id is not None:
            if self._by_key:
                raise InvalidValue("batches by key are not in the order of the calls, so that messages cannot bring sequence ids")
            if not 0 <= sequence_id < 1 << 63:
                raise InvalidValue(f"the sequence id {sequence_id} is not within 0 and 2^63 - 1")
        payload, key = self._schema.encode_with_key(value, key)
        return OutgoingMessage(
            payload, key, dict(properties) if properties else {}, event_time_ms, deliver_at_ms, ordering_key, sequence_id
        )
