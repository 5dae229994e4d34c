"""Frames whose scalars have another JSON type than their fields: read as Jackson, Pulsar's parser, reads them.

    field     a text as it is; a number or a truth value as it is spelled
    number    a fraction is cut off; a text with a whole number, or an empty one, which is none; no truth value
    truth     0 is false and other whole numbers are true; "true", "True", "TRUE" and so on for false; an empty text is none

Lists and objects are never converted. Only frames that are not already of the right types come here.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from messaging.json_types import converted, decoder_of

INT32, INT64 = 1 << 31, 1 << 63
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False, "": None}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")

S = TypeVar("S", bound=msgspec.Struct)
_MEMBERS: Any = dict[str, msgspec.Raw] | None


def convert(text: str | bytes, kind: type[S], integers: Mapping[str, int]) -> S:
    """`integers`: of each whole number's field, by its name in JSON, how far it may be from 0. Raises `msgspec.DecodeError`."""
    raw = decoder_of(dict[str, msgspec.Raw]).decode(text)
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        name = field.encode_name
        if name not in raw:
            continue
        wanted = [arm for arm in _arms(hints[field.name]) if arm is not types.NoneType]
        fields[name] = _value(name, raw[name], wanted, integers)
    return converted(fields, kind)


def _arms(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _value(name: str, raw: msgspec.Raw, wanted: list[Any], integers: Mapping[str, int]) -> Any:
    if str in wanted:
        return _text(name, raw)
    if int in wanted:
        return _integer(name, raw, integers[name])
    if bool in wanted:
        return _truth(name, raw)
    if dict[str, str | None] in wanted:
        members = decoder_of(_MEMBERS).decode(raw)
        return members and {key: _text(f"{name}.{key[:40]}", value) for key, value in members.items()}
    return msgspec.json.decode(raw)


def _scalar(name: str, raw: msgspec.Raw) -> Any:
    value = msgspec.json.decode(raw)
    if isinstance(value, list | dict):
        raise msgspec.ValidationError(f"{name} is a list or an object")
    return value


def _text(name: str, raw: msgspec.Raw) -> str | None:
    value = _scalar(name, raw)
    return value if value is None or isinstance(value, str) else bytes(raw).strip().decode("ascii")


def _integer(name: str, raw: msgspec.Raw, limit: int) -> int | None:
    value = _scalar(name, raw)
    if isinstance(value, str):
        value = value.strip()
        if value and not _WHOLE.fullmatch(value):
            raise msgspec.ValidationError(f"{name} {value[:40]!r} is not a whole number")
        value = int(value) if value else None
    if value is None:
        return None
    if isinstance(value, bool):
        raise msgspec.ValidationError(f"{name} is a truth value: send a number")
    if not -limit <= value < limit:
        raise msgspec.ValidationError(f"{name} is not from {-limit} to {limit - 1}")
    return int(value)


def _truth(name: str, raw: msgspec.Raw) -> bool | None:
    value = _scalar(name, raw)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value != 0
    if isinstance(value, str) and value.strip() in _TRUTHS:
        return _TRUTHS[value.strip()]
    raise msgspec.ValidationError(f"{name} is not true or false")
