"""JSON of a dataclass, a msgspec struct or a pydantic model. The broker is told the fields as an Avro record, as by Pulsar's
clients."""

from __future__ import annotations

import typing
from typing import Any, TypeVar

import msgspec

from messaging.client.schemas.records import record_of
from messaging.client.schemas.schema import JSON_TYPE, Schema
from messaging.errors import InvalidValue
from messaging.json_types import decoder_of
from messaging.protocol import pulsar_pb2 as pb

T = TypeVar("T")


class Json(Schema[T]):
    """Raises `InvalidValue` for a type whose fields cannot be described."""

    def __init__(self, model: type[T]) -> None:
        self._model = model
        self._pydantic = hasattr(model, "model_validate_json")
        definition = record_of(model)
        self.description = pb.Schema(name=model.__name__, schema_data=msgspec.json.encode(definition), type=JSON_TYPE)
        self._decoder = None if self._pydantic else decoder_of(model)

    def encode(self, value: T) -> bytes:
        if not isinstance(value, self._model):
            raise InvalidValue(f"a message of this producer is a {self._model.__name__}, not {type(value).__name__}")
        if self._pydantic:
            model: Any = value
            return str(model.model_dump_json()).encode()
        return msgspec.json.encode(value)

    def decode(self, payload: bytes) -> T:
        try:
            if self._decoder is not None:
                return self._decoder.decode(payload)
            model: Any = self._model
            return typing.cast(T, model.model_validate_json(payload))
        except ValueError as error:  # of msgspec and of pydantic
            raise InvalidValue(f"the message is not a {self._model.__name__}: {error}") from None
