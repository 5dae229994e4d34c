"""The interface of a schema, and the two simplest."""

from __future__ import annotations

from typing import Generic, TypeVar

from messaging.client.message import Key
from messaging.errors import InvalidValue
from messaging.protocol import pulsar_pb2 as pb

T = TypeVar("T")

# Numbers of Pulsar's protocol.
STRING_TYPE, JSON_TYPE, AVRO_TYPE, KEY_VALUE_TYPE, PROTOBUF_NATIVE_TYPE = 1, 2, 4, 15, 20


class Schema(Generic[T]):
    """`description` is what the broker is told; None for plain bytes, which fit everything. `resolves`: to read a message takes the
    schema that it was written with, which a consumer asks the broker for."""

    description: pb.Schema | None = None
    resolves = False

    def encode(self, value: T) -> bytes:
        """Raises `InvalidValue` for a value that is not of this schema."""
        raise NotImplementedError

    def decode(self, payload: bytes) -> T:
        """Raises `InvalidValue` for bytes that are not of this schema."""
        raise NotImplementedError

    def encode_with_key(self, value: T | None, key: Key) -> tuple[bytes | None, Key]:
        """None is no value: in a compacted topic it removes the key."""
        return (None if value is None else self.encode(value)), key

    def decode_with_key(self, payload: bytes | None, key: Key) -> T | None:
        """What `encode_with_key` was given."""
        return None if payload is None else self.decode(payload)

    def decode_written(self, payload: bytes | None, key: Key, writer: pb.Schema) -> T | None:
        """The same, of a message that was written with `writer`. Called only if it `resolves`."""
        return self.decode_with_key(payload, key)


class Bytes(Schema[bytes]):
    def encode_with_key(self, value: bytes | None, key: Key) -> tuple[bytes | None, Key]:
        return (value if type(value) is bytes or value is None else self.encode(value)), key

    def encode(self, value: bytes) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise InvalidValue(f"a message is bytes, not {type(value).__name__}: encode it, or give the producer a schema")
        return bytes(value)

    def decode(self, payload: bytes) -> bytes:
        return payload


class String(Schema[str]):
    description = pb.Schema(name="String", schema_data=b"", type=STRING_TYPE)

    def encode(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise InvalidValue(f"a message of this producer is a str, not {type(value).__name__}")
        return value.encode()

    def decode(self, payload: bytes) -> str:
        try:
            return payload.decode()
        except UnicodeDecodeError as error:
            raise InvalidValue(f"the message is not UTF-8: {error}") from None


BYTES = Bytes()
STRING = String()
