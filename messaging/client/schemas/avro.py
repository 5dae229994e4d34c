"""Avro records: of a dataclass, a msgspec struct or a pydantic model, or of a definition whose records are dicts.

A message has the bytes of its fields and nothing that says which they are. So it is read by the schema that it was written with,
which the broker keeps by version, and resolved to the reader's: fields that the reader does not know are left out, those that the
writer did not know have their defaults.

Needs the `fastavro` library, which is loaded when a schema is made.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from messaging.client.message import Key
from messaging.client.schemas.records import record_of
from messaging.client.schemas.schema import AVRO_TYPE, Schema
from messaging.errors import InvalidValue
from messaging.json_types import converted
from messaging.protocol import pulsar_pb2 as pb

WRITERS_KEPT = 64  # parsed schemas of writers


class Avro(Schema[Any]):
    """`model`: a class, or the definition of a record, whose values are then dicts. Raises `InvalidValue` for a type whose fields
    cannot be described, or a definition that is none."""

    resolves = True

    def __init__(self, model: type | Mapping[str, Any]) -> None:
        self._fastavro = _library()
        self._model = model if isinstance(model, type) else None
        self._pydantic = hasattr(model, "model_validate")
        definition = record_of(model) if isinstance(model, type) else dict(model)
        self._name = str(definition.get("name", "record"))
        self._reader = self._parsed(definition)
        self.description = pb.Schema(name=self._name, schema_data=msgspec.json.encode(definition), type=AVRO_TYPE)
        self._writer = lru_cache(WRITERS_KEPT)(self._parsed_writer)

    def encode(self, value: Any) -> bytes:
        kind: type[Any] = dict if self._model is None else self._model
        if not isinstance(value, kind):
            raise InvalidValue(f"a message of this producer is a {kind.__name__}, not {type(value).__name__}")
        fields = value.model_dump() if self._pydantic else value
        out = io.BytesIO()
        try:
            plain = fields if self._model is None else msgspec.to_builtins(fields, builtin_types=(bytes,))
            self._fastavro.schemaless_writer(out, self._reader, plain)
        except Exception as error:  # each kind of mistake has its own class
            raise InvalidValue(f"the value is not a {self._name}: {error}") from None
        return out.getvalue()

    def decode(self, payload: bytes) -> Any:
        return self._read(payload, self._reader)

    def decode_written(self, payload: bytes | None, key: Key, writer: pb.Schema) -> Any:
        if payload is None:
            return None
        if writer.type != AVRO_TYPE:
            raise InvalidValue(f"the message was written with a schema of another type: number {writer.type}")
        return self._read(payload, self._writer(writer.schema_data))

    def _read(self, payload: bytes, writer: Any) -> Any:
        try:
            fields = self._fastavro.schemaless_reader(io.BytesIO(payload), writer, self._reader)
            if self._model is None:
                return fields
            if self._pydantic:
                model: Any = self._model
                return model.model_validate(fields)
            return converted(fields, self._model, builtin_types=(bytes,))
        except Exception as error:
            raise InvalidValue(f"the message is not a {self._name}: {type(error).__name__}: {error}") from None

    def _parsed_writer(self, definition: bytes) -> Any:
        """Under the name of the reader's record: they are of one topic, whatever the classes were called."""
        try:
            writer = json.loads(definition)
            assert isinstance(writer, dict)
        except (ValueError, AssertionError):
            raise InvalidValue("the schema that the message was written with is not a record of Avro") from None
        writer.pop("namespace", None)
        return self._parsed({**writer, "name": self._reader["name"]})

    def _parsed(self, definition: dict[str, Any]) -> Any:
        try:
            parsed = self._fastavro.parse_schema(definition)
        except Exception as error:
            raise InvalidValue(f"not a definition of Avro: {type(error).__name__}: {error}") from None
        if not isinstance(parsed, dict) or parsed.get("type") != "record":
            raise InvalidValue("an Avro schema of a topic is a record")
        return parsed


def _library() -> Any:
    try:
        import fastavro
    except ImportError:
        raise InvalidValue("Avro schemas need the fastavro library: pip install fastavro") from None
    return fastavro
