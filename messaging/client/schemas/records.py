"""The Avro record of a dataclass, a msgspec struct or a pydantic model.

Also what JSON schemas are described by: the broker compares versions of both by the rules of Avro. pydantic is used only if the
given type is one of its models.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
import typing
from typing import Any, NamedTuple

import msgspec

from messaging.errors import InvalidValue

_PRIMITIVES: dict[Any, str] = {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOTHING = object()


class _Field(NamedTuple):
    """`default`: `_NOTHING` for a field that has to be given."""

    annotation: Any
    default: Any


def record_of(model: type) -> dict[str, Any]:
    """The Avro record of a class; a record that is used again is named only. Raises `InvalidValue`."""
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
            return {"type": "enum", "name": annotation.__name__, "symbols": symbols(annotation)}
        fields = _fields(annotation)
        if fields is not None:
            named.add(annotation.__name__)
            described = [{"name": name, **_described(field, named)} for name, field in fields.items()]
            return {"type": "record", "name": annotation.__name__, "fields": described}
    raise InvalidValue(
        f"{annotation!r} has no counterpart in Avro: use str, int, float, bool, bytes, lists, dicts of str, or records"
    )


def symbols(kind: type[enum.Enum]) -> list[str]:
    """Its values, by which msgspec and pydantic write it; the names of the members where the values are no names in Avro."""
    values = [member.value for member in kind]
    if all(isinstance(value, str) and _NAME.fullmatch(value) for value in values):
        return values
    return [member.name for member in kind]


def _described(field: _Field, named: set[str]) -> dict[str, Any]:
    """With the default, without which a field can neither be added nor removed. That of a union belongs to its first choice."""
    kind = _avro(field.annotation, named)
    if isinstance(kind, list):
        return {"type": kind, "default": None} if kind[:1] == ["null"] else {"type": kind}
    if kind in ("string", "long", "double", "boolean") and type(field.default) is _PYTHON[kind]:
        return {"type": kind, "default": field.default}
    if isinstance(kind, dict) and kind["type"] in ("array", "map") and field.default in ([], {}):
        return {"type": kind, "default": [] if kind["type"] == "array" else {}}
    return {"type": kind}


_PYTHON = {"string": str, "long": int, "double": float, "boolean": bool}


def _fields(model: type) -> dict[str, _Field] | None:
    """By the name that a field has when it is written."""
    if dataclasses.is_dataclass(model):
        hints = typing.get_type_hints(model, include_extras=True)
        return {field.name: _Field(hints[field.name], _default(field, dataclasses.MISSING)) for field in dataclasses.fields(model)}
    if issubclass(model, msgspec.Struct):
        hints = typing.get_type_hints(model, include_extras=True)
        return {
            field.encode_name: _Field(hints[field.name], _default(field, msgspec.NODEFAULT))
            for field in msgspec.structs.fields(model)
        }
    model_fields = getattr(model, "model_fields", None)
    if isinstance(model_fields, dict):
        return {
            name: _Field(field.annotation, _NOTHING if field.is_required() else field.get_default(call_default_factory=True))
            for name, field in model_fields.items()
        }
    return None


def _default(field: Any, nothing: object) -> Any:
    if field.default is not nothing:
        return field.default
    return field.default_factory() if field.default_factory is not nothing else _NOTHING
