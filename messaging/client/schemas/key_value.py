"""Pairs of a key and a value with a schema each, as Pulsar's Java client has them.

``inline``: the payload is ``i32 size | key | i32 size | value``, and -1 is the size of none. ``separated``: the payload is the
value, and the key is that of the message, so that it decides about partition, order and compaction. The description of both schemas
has the form of the inline payload; properties name their types.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from messaging.client.message import Key
from messaging.client.schemas.primitives import PRIMITIVES
from messaging.client.schemas.schema import (
    AVRO_TYPE,
    JSON_TYPE,
    KEY_VALUE_TYPE,
    PROTOBUF_NATIVE_TYPE,
    STRING_TYPE,
    Bytes,
    Schema,
)
from messaging.errors import InvalidValue
from messaging.protocol import pulsar_pb2 as pb

Encoding = Literal["inline", "separated"]
Pair = tuple[Any, Any]

_TYPE_NAMES = {STRING_TYPE: "STRING", JSON_TYPE: "JSON", AVRO_TYPE: "AVRO", PROTOBUF_NATIVE_TYPE: "PROTOBUF_NATIVE"} | {
    schema.description.type: name for name, schema in PRIMITIVES.items() if schema.description is not None
}


class KeyValue(Schema[Pair]):
    """A message is ``(key, value)``; each of them may be None."""

    def __init__(self, key: Schema[Any], value: Schema[Any], encoding: Encoding = "separated") -> None:
        if encoding not in ("inline", "separated"):
            raise InvalidValue(f"the encoding of a key-value schema is {encoding!r}: use inline or separated")
        self._key = key
        self._value = value
        self._inline = encoding == "inline"
        self.resolves = key.resolves or value.resolves
        properties = {**_named("key", key), **_named("value", value), "kv.encoding.type": encoding.upper()}
        self.description = pb.Schema(
            name="KeyValue",
            schema_data=_joined(*(_data(schema) for schema in (key, value))),
            type=KEY_VALUE_TYPE,
            properties=[pb.KeyValue(key=name, value=text) for name, text in properties.items()],
        )

    def encode(self, value: Pair) -> bytes:
        key_bytes, value_bytes = self._parts(value)
        return _joined(key_bytes, value_bytes)

    def decode(self, payload: bytes) -> Pair:
        key_bytes, value_bytes = split_pair(payload)
        return self._key.decode_with_key(key_bytes, None), self._value.decode_with_key(value_bytes, None)

    def encode_with_key(self, value: Pair | None, key: Key) -> tuple[bytes | None, Key]:
        if value is None or self._inline:
            return super().encode_with_key(value, key)
        if key is not None:
            raise InvalidValue("the key of this message is in its value: a separated key-value schema sets the message's key")
        key_bytes, value_bytes = self._parts(value)
        return value_bytes, key_bytes

    def decode_with_key(self, payload: bytes | None, key: Key) -> Pair | None:
        if self._inline:
            return super().decode_with_key(payload, key)
        return self._key.decode_with_key(_bytes_of(key), None), self._value.decode_with_key(payload, None)

    def decode_written(self, payload: bytes | None, key: Key, writer: pb.Schema) -> Pair | None:
        if writer.type != KEY_VALUE_TYPE:
            raise InvalidValue(f"the message was written with a schema of another type: number {writer.type}")
        key_bytes, value_bytes = _bytes_of(key), payload
        if self._inline:
            if payload is None:
                return None
            key_bytes, value_bytes = split_pair(payload)
        key_data, value_data = split_pair(writer.schema_data)
        return (
            _written(self._key, key_bytes, key_data or b""),
            _written(self._value, value_bytes, value_data or b""),
        )

    def _parts(self, value: Pair) -> tuple[bytes | None, bytes | None]:
        if not isinstance(value, tuple) or len(value) != 2:
            raise InvalidValue(f"a message of this producer is a tuple of key and value, not {type(value).__name__}")
        key, content = value
        return (None if key is None else self._key.encode(key)), (None if content is None else self._value.encode(content))


def _written(schema: Schema[Any], payload: bytes | None, definition: bytes) -> Any:
    if not schema.resolves or schema.description is None:
        return schema.decode_with_key(payload, None)
    return schema.decode_written(payload, None, pb.Schema(name="", schema_data=definition, type=schema.description.type))


def _named(which: str, schema: Schema[Any]) -> dict[str, str]:
    described = schema.description
    if described is None and not isinstance(schema, Bytes):
        raise InvalidValue(f"the {which} of a key-value schema cannot be a {type(schema).__name__}: use it for the whole message")
    if described is None:
        name, kind, properties = "Bytes", "BYTES", {}
    elif described.type in _TYPE_NAMES:
        name, kind = described.name, _TYPE_NAMES[described.type]
        properties = {pair.key: pair.value for pair in described.properties}
    else:
        raise InvalidValue(f"the {which} of a key-value schema cannot be a {type(schema).__name__}")
    text = msgspec.json.encode(properties).decode()
    return {f"{which}.schema.name": name, f"{which}.schema.type": kind, f"{which}.schema.properties": text}


def _data(schema: Schema[Any]) -> bytes:
    return b"" if schema.description is None else schema.description.schema_data


def _joined(key: bytes | None, value: bytes | None) -> bytes:
    return b"".join(b"\xff\xff\xff\xff" if part is None else len(part).to_bytes(4, "big") + part for part in (key, value))


def split_pair(payload: bytes) -> tuple[bytes | None, bytes | None]:
    """Of an inline payload, or of the description of both schemas. Raises `InvalidValue`."""
    parts: list[bytes | None] = []
    at = 0
    for _ in range(2):
        size = int.from_bytes(payload[at : at + 4], "big", signed=True)
        if len(payload) < at + 4 + max(0, size) or size < -1:
            raise InvalidValue(f"{len(payload)} bytes are not a key and a value, each with its size before it")
        parts.append(None if size < 0 else payload[at + 4 : at + 4 + size])
        at += 4 + max(0, size)
    return parts[0], parts[1]


def _bytes_of(key: Key) -> bytes | None:
    return key.encode() if isinstance(key, str) else key
