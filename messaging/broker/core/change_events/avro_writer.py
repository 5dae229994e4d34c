"""Writes values in the binary encoding of Avro, as far as the schema of events needs it.

A value is made to fit, so that writing does not fail: what is too large becomes the largest, what an enumeration does not know is
null, and a number that a type requires and that is not set becomes -1, which Pulsar takes for "no limit".
"""

from __future__ import annotations

import struct
from typing import Any

AvroType = str | list[Any] | dict[str, Any]
Value = Any  # of JSON

_RANGES = {"int": 2**31, "long": 2**63}
_DOUBLE = struct.Struct("<d")
_END = b"\x00"  # of the items of an array or a map


def encoded(kind: AvroType, value: Value) -> bytes:
    """`value` as one of the type `kind`. A union is of null and one other type; a named type is written out where it is first."""
    written = bytearray()
    _write(written, kind, value, {})
    return bytes(written)


def _write(written: bytearray, kind: AvroType, value: Value, named: dict[str, dict[str, Any]]) -> None:
    if isinstance(kind, list):
        unknown = isinstance(kind[1], dict) and kind[1]["type"] == "enum" and value not in kind[1]["symbols"]
        written += _long(0 if value is None or unknown else 1)
        if value is None or unknown:
            _learn(kind[1], named)
        else:
            _write(written, kind[1], value, named)
    elif isinstance(kind, str):
        if kind in named:
            _write(written, named[kind], value, named)
        else:
            written += _plain(kind, value)
    else:
        _learn(kind, named)
        _COMPOUND[kind["type"]](written, kind, value, named)


def _learn(kind: AvroType, named: dict[str, dict[str, Any]]) -> None:
    """Types are named with their namespace where others refer to them."""
    if isinstance(kind, dict) and "namespace" in kind:
        named[f"{kind['namespace']}.{kind['name']}"] = kind


def _record(written: bytearray, kind: dict[str, Any], value: Value, named: dict[str, dict[str, Any]]) -> None:
    for field in kind["fields"]:
        _write(written, field["type"], value.get(field["name"]), named)


def _map(written: bytearray, kind: dict[str, Any], value: Value, named: dict[str, dict[str, Any]]) -> None:
    if value:
        written += _long(len(value))
    for key, entry in value.items():
        written += _bytes(str(key))
        _write(written, kind["values"], entry, named)
    written += _END


def _array(written: bytearray, kind: dict[str, Any], value: Value, named: dict[str, dict[str, Any]]) -> None:
    """Items of an enumeration are a set, in the order in which they are defined."""
    items = kind["items"]
    listed = [symbol for symbol in items["symbols"] if symbol in value] if isinstance(items, dict) else value
    if listed:
        written += _long(len(listed))
    for item in listed:
        _write(written, items, item, named)
    written += _END


def _enum(written: bytearray, kind: dict[str, Any], value: Value, named: dict[str, dict[str, Any]]) -> None:
    written += _long(kind["symbols"].index(value))


_COMPOUND = {"record": _record, "map": _map, "array": _array, "enum": _enum}


def _plain(kind: str, value: Value) -> bytes:
    if kind == "double":
        return _DOUBLE.pack(float(-1 if value is None else value))
    if kind in _RANGES:
        end = _RANGES[kind]
        return _long(max(-end, min(int(-1 if value is None else value), end - 1)))
    return bytes([bool(value)]) if kind == "boolean" else _bytes(str(value))


def _bytes(text: str) -> bytes:
    data = text.encode()
    return _long(len(data)) + data


def _long(number: int) -> bytes:
    """Zigzag, then seven bits a byte, the lowest first."""
    left = number << 1 if number >= 0 else (-number << 1) - 1
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    written.append(left)
    return bytes(written)
