"""JSON of a dataclass, a msgspec struct or a pydantic model.

The broker is told the fields as an Avro record, as by Pulsar's clients: it compares versions by the rules of Avro. pydantic is used
only if the given type is one of its models.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any, TypeVar

import msgspec

from messaging.client.schemas.schema import JSON_TYPE, Schema
from messaging.errors import InvalidValue
from messaging.protocol import pulsar_pb2 as pb

T = TypeVar("T")
_PRIMITIVES: dict[Any, str] = {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes"}


class Json(Schema[T]):
    """Raises `InvalidValue` for a type whose fields cannot be described."""

    def __init__(self, model: type[T]) -> None:
        self._model = model
        self._pydantic = hasattr(model, "model_validate_json")
        definition = record_of(model)
        self.description = pb.Schema(name=model.__name__, schema_data=msgspec.json.encode(definition), type=JSON_TYPE)
        self._decoder = None if self._pydantic else msgspec.json.Decoder(model)

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


def record_of(model: type) -> dict[str, Any]:
    """The Avro record of a class; a record that is used again is named only."""
    definition = _avro(model, set())
    if not isinstance(definition, dict) or definition.get("type") != "record":
        raise InvalidValue(f"{model!r} has no fields to describe: use a dataclass, a msgspec.Struct or a pydantic model")
    return definition


def _avro(annotation: Any, named: set[str]) -> Any:
    if annotation in _PRIMITIVES:
        return _PRIMITIVES[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        choices = [choice for choice in arguments if choice is not type(None)]
        return [*(["null"] if len(choices) < len(arguments) else []), *(_avro(choice, named) for choice in choices)]
    if origin is typing.Annotated:
        return _avro(arguments[0], named)
    if origin in (list, tuple, set, frozenset) and arguments:
        return {"type": "array", "items": _avro(arguments[0], named)}
    if origin is dict and len(arguments) == 2 and arguments[0] is str:
        return {"type": "map", "values": _avro(arguments[1], named)}
    if isinstance(annotation, type):
        if annotation.__name__ in named:
            return annotation.__name__
        if issubclass(annotation, enum.Enum):
            named.add(annotation.__name__)
            return {"type": "enum", "name": annotation.__name__, "symbols": [member.name for member in annotation]}
        fields = _fields(annotation)
        if fields is not None:
            named.add(annotation.__name__)
            described = [{"name": name, **_field(kind, named)} for name, kind in fields.items()]
            return {"type": "record", "name": annotation.__name__, "fields": described}
    raise InvalidValue(
        f"{annotation!r} has no counterpart in Avro: use str, int, float, bool, bytes, lists, dicts of str, or records"
    )


def _field(annotation: Any, named: set[str]) -> dict[str, Any]:
    kind = _avro(annotation, named)
    return {"type": kind, "default": None} if isinstance(kind, list) and kind[:1] == ["null"] else {"type": kind}


def _fields(model: type) -> dict[str, Any] | None:
    """Name -> annotation, as it is in the JSON."""
    if dataclasses.is_dataclass(model):
        hints = typing.get_type_hints(model, include_extras=True)
        return {field.name: hints[field.name] for field in dataclasses.fields(model)}
    if issubclass(model, msgspec.Struct):
        hints = typing.get_type_hints(model, include_extras=True)
        names = zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True)
        return {encoded: hints[name] for name, encoded in names}
    model_fields = getattr(model, "model_fields", None)
    if isinstance(model_fields, dict):
        return {name: field.annotation for name, field in model_fields.items()}
    return None
