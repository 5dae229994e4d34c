"""Schemas as clients and the admin API name them, and the versions of a topic's schema as they are stored."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class SchemaType(IntEnum):
    """The values of the binary protocol. Names are those of the admin API."""

    AUTO_CONSUME = -2
    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20


# Their data is an Avro definition. JSON schemas written by very old Java clients are the exception: `avro.py` accepts those.
AVRO_BASED = frozenset({SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF})
SCHEMALESS = frozenset({SchemaType.NONE, SchemaType.AUTO_CONSUME})
PAIR_BYTES = 16  # what a property takes besides its texts


class Schema(msgspec.Struct, frozen=True):
    """`data` depends on the type; it is empty for the primitive ones. `properties` do not take part in comparisons."""

    type: SchemaType
    data: bytes = b""
    properties: dict[str, str] = {}
    name: str = ""

    @property
    def size_bytes(self) -> int:
        """Of all that is stored of it."""
        pairs = sum(PAIR_BYTES + len(key.encode()) + len(value.encode()) for key, value in self.properties.items())
        return len(self.data) + len(self.name.encode()) + pairs


class SchemaVersion(msgspec.Struct, frozen=True):
    """One version of a topic's schema. Versions count from 0 and never change. `schema` is None for a deletion: versions before it
    are no longer compared with."""

    version: int
    created_ms: int
    schema: Schema | None
    role: str = ""  # who registered or deleted it
    form: bytes = b""  # a digest that equal schemas share: `comparison.form_of`; empty in versions that were stored without one


def encode_version(version: int) -> bytes:
    """A version on the wire: 8 bytes, big-endian."""
    return version.to_bytes(8, "big")


class SchemaError(ValueError):
    """The schema is not a valid one of its type. The text is meant for whoever sent it."""
