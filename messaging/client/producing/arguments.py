"""Stage: the arguments of `send` become a message: the schema, delays, and what cannot be asked for together."""

from __future__ import annotations

import math
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


TIME_MS_MAX = (1 << 63) - 1


def check(message: OutgoingMessage) -> None:
    """Whether it can be written as it is, which is to be known before it shares a batch with others. Raises `InvalidValue`."""
    if message.key is not None:
        _check_text("the key", message.key, or_bytes=True)
    if message.ordering_key is not None and not isinstance(message.ordering_key, bytes):
        raise InvalidValue(f"the ordering key is bytes, not {type(message.ordering_key).__name__}: encode it")
    if message.payload is not None and not isinstance(message.payload, bytes):
        raise InvalidValue(f"the payload of a message is bytes, not {type(message.payload).__name__}")
    for name, value in message.properties.items():
        _check_text("the name of a property", name)
        _check_text(f"the property {name[:80]!r}", value)
    for what, time_ms in (("event_time_ms", message.event_time_ms), ("the time of delivery", message.deliver_at_ms)):
        if time_ms is not None and not (isinstance(time_ms, int) and 0 <= time_ms <= TIME_MS_MAX):
            raise InvalidValue(f"{what} is {time_ms!r}: give whole milliseconds since 1970, not negative")
    sequence_id = message.sequence_id
    if sequence_id is not None and not (isinstance(sequence_id, int) and 0 <= sequence_id < 1 << 63):
        raise InvalidValue(f"the sequence id {sequence_id!r} is not within 0 and 2^63 - 1")


def _check_text(what: str, value: object, *, or_bytes: bool = False) -> None:
    if isinstance(value, str):
        if value.isascii():
            return
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue(f"{what} cannot be written in UTF-8: {error}") from None
    elif not (or_bytes and isinstance(value, bytes)):
        raise InvalidValue(f"{what} is text{' or bytes' if or_bytes else ''}, not {type(value).__name__}: convert it")


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
            if not math.isfinite(deliver_after_s):
                raise InvalidValue(f"deliver_after_s is {deliver_after_s}: give a number of seconds")
            deliver_at_ms = max(0, self._wall_ms() + round(deliver_after_s * 1000))
        if sequence_id is not None and self._by_key:
            raise InvalidValue("batches by key are not in the order of the calls, so that messages cannot bring sequence ids")
        payload, key = self._schema.encode_with_key(value, key)
        return OutgoingMessage(
            payload, key, dict(properties) if properties else {}, event_time_ms, deliver_at_ms, ordering_key, sequence_id
        )
