"""Schemas of topics whose types a program does not know: `AUTO_CONSUME` reads by the schema of each message, `AUTO_PRODUCE_BYTES`
sends bytes that are checked against the topic's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from messaging.client.message import Key
from messaging.client.schemas.avro import Avro
from messaging.client.schemas.key_value import KeyValue, split_pair
from messaging.client.schemas.primitives import PRIMITIVES
from messaging.client.schemas.protobuf import Protobuf
from messaging.client.schemas.schema import (
    AVRO_TYPE,
    BYTES,
    JSON_TYPE,
    KEY_VALUE_TYPE,
    PROTOBUF_NATIVE_TYPE,
    STRING,
    STRING_TYPE,
    Schema,
)
from messaging.errors import InvalidValue
from messaging.protocol import pulsar_pb2 as pb

READERS_KEPT = 64
NONE_TYPE = 0
_NAMED: dict[str, int] = {
    "BYTES": NONE_TYPE,
    "NONE": NONE_TYPE,
    "STRING": STRING_TYPE,
    "JSON": JSON_TYPE,
    "AVRO": AVRO_TYPE,
    "PROTOBUF_NATIVE": PROTOBUF_NATIVE_TYPE,
}
_BY_NUMBER: dict[int, Schema[Any]] = {NONE_TYPE: BYTES, STRING_TYPE: STRING}
for _name, _schema in PRIMITIVES.items():
    assert _schema.description is not None
    _NAMED[_name] = _schema.description.type
    _BY_NUMBER[_schema.description.type] = _schema


class AnyJson(Schema[Any]):
    """Values of JSON as Python's json module has them; `description` is that of a topic."""

    def __init__(self, description: pb.Schema) -> None:
        self.description = description

    def encode(self, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, payload: bytes) -> Any:
        try:
            return msgspec.json.decode(payload)
        except ValueError as error:
            raise InvalidValue(f"the message is not JSON: {error}") from None


def reader_of(described: pb.Schema) -> Schema[Any]:
    """A schema that reads what was written with `described`: records of Avro and JSON as dicts, messages of Protocol Buffers as
    messages of a class made for them, pairs as tuples. Raises `InvalidValue`."""
    properties = tuple((pair.key, pair.value) for pair in described.properties)
    return _reader(described.type, described.schema_data, properties)


@lru_cache(READERS_KEPT)
def _reader(number: int, definition: bytes, properties: tuple[tuple[str, str], ...]) -> Schema[Any]:
    schema = _BY_NUMBER.get(number)
    if schema is not None:
        return schema
    if number == JSON_TYPE:
        return AnyJson(pb.Schema(name="", schema_data=definition, type=JSON_TYPE))
    if number == AVRO_TYPE:
        return Avro(_object(definition))
    if number == PROTOBUF_NATIVE_TYPE:
        return Protobuf.described_by(definition)
    if number == KEY_VALUE_TYPE:
        return _pair(definition, dict(properties))
    raise InvalidValue(f"this client does not read messages with schema type number {number}")


def _pair(definition: bytes, properties: Mapping[str, str]) -> Schema[Any]:
    key_definition, value_definition = split_pair(definition)
    inline = properties.get("kv.encoding.type", "INLINE").upper() != "SEPARATED"
    key, value = (_part(which, data or b"", properties) for which, data in (("key", key_definition), ("value", value_definition)))
    return KeyValue(key, value, "inline" if inline else "separated")


def _part(which: str, definition: bytes, properties: Mapping[str, str]) -> Schema[Any]:
    name = properties.get(f"{which}.schema.type", "BYTES")
    if name not in _NAMED:
        raise InvalidValue(f"this client does not read a {which} with schema type {name[:40]!r}")
    return _reader(_NAMED[name], definition, ())


def _object(definition: bytes) -> dict[str, Any]:
    try:
        read = json.loads(definition)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise InvalidValue("the schema that the message was written with is not a record of Avro")
    return read


class AutoConsume(Schema[Any]):
    """For consumers, readers and table views. A message without a schema is bytes."""

    resolves = True

    def encode(self, value: Any) -> bytes:
        raise InvalidValue("AUTO_CONSUME is for consumers and readers: a producer takes a schema, or AUTO_PRODUCE_BYTES")

    def decode(self, payload: bytes) -> Any:
        return payload

    def decode_written(self, payload: bytes | None, key: Key, writer: pb.Schema) -> Any:
        return reader_of(writer).decode_with_key(payload, key)


class AutoProduceBytes(Schema[bytes]):
    """For producers, which take it as the schema that the topic has when they open; bytes that this does not read are refused. A
    topic without a schema takes any."""

    def encode(self, value: bytes) -> bytes:
        return BYTES.encode(value)

    def decode(self, payload: bytes) -> bytes:
        raise InvalidValue("AUTO_PRODUCE_BYTES is for producers: use AUTO_CONSUME")

    def bound_to(self, described: pb.Schema | None) -> Schema[bytes]:
        """Raises `InvalidValue` for a schema that this client does not know."""
        return BYTES if described is None or described.type == NONE_TYPE else _Checked(described)


class _Checked(Schema[bytes]):
    def __init__(self, described: pb.Schema) -> None:
        self.description = described
        self._reader = reader_of(described)

    def encode_with_key(self, value: bytes | None, key: Key) -> tuple[bytes | None, Key]:
        payload = None if value is None else BYTES.encode(value)
        if payload is not None:
            self._reader.decode_with_key(payload, key)
        return payload, key


AUTO_CONSUME: Schema[Any] = AutoConsume()
AUTO_PRODUCE_BYTES: Schema[bytes] = AutoProduceBytes()
