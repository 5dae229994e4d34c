"""CBOR (RFC 8949) as values of JSON. Tags are left out, bytes are hexadecimal."""

from __future__ import annotations

import struct
from typing import Any

from messaging.payloads.budget import Budget, Input, PayloadError, check_depth, key_of, shown_bytes, shown_number, text_of

_BREAK = object()
_SIMPLE: dict[int, Any] = {20: False, 21: True, 22: None, 23: None}
_FLOATS = {25: (2, ">e"), 26: (4, ">f"), 27: (8, ">d")}
_INDEFINITE = 31


def read_cbor(payload: bytes, budget: Budget) -> Any:
    """Raises `PayloadError`."""
    data = Input(payload)
    value = _value(data, budget, 0)
    if value is _BREAK or data.left:
        raise PayloadError(f"{data.left} bytes follow the first CBOR value")
    return value


def _value(data: Input, budget: Budget, depth: int) -> Any:
    budget.spend()
    check_depth(depth)
    head = data.byte()
    major, info = head >> 5, head & 31
    if major == 7:
        return _simple(info, data)
    if info == _INDEFINITE and major in (2, 3, 4, 5):
        return _indefinite(major, data, budget, depth)
    count = _count(info, data)
    if major == 0:
        return count
    if major == 1:
        return -1 - count
    if major == 2:
        return shown_bytes(data.take(count))
    if major == 3:
        return text_of(data.take(count))
    if major == 6:
        return _value(data, budget, depth + 1)
    if count > budget.left:
        budget.spend(count)
    if major == 4:
        return [_item(data, budget, depth) for _ in range(count)]
    return {key_of(_item(data, budget, depth)): _item(data, budget, depth) for _ in range(count)}


def _item(data: Input, budget: Budget, depth: int) -> Any:
    value = _value(data, budget, depth + 1)
    if value is _BREAK:
        raise PayloadError("a CBOR list of known length is broken off")
    return value


def _indefinite(major: int, data: Input, budget: Budget, depth: int) -> Any:
    items = []
    while (value := _value(data, budget, depth + 1)) is not _BREAK:
        items.append(value)
    if major == 4:
        return items
    if major == 5:
        if len(items) % 2:
            raise PayloadError("a CBOR map has a key without a value")
        return {key_of(key): value for key, value in zip(items[::2], items[1::2], strict=True)}
    parts = [str(item) for item in items]
    return "".join(parts) if major == 3 else "0x" + "".join(part.removeprefix("0x") for part in parts)


def _simple(info: int, data: Input) -> Any:
    if info in _SIMPLE:
        return _SIMPLE[info]
    if info in _FLOATS:
        size, form = _FLOATS[info]
        return shown_number(struct.unpack(form, data.take(size))[0])
    if info == _INDEFINITE:
        return _BREAK
    return data.byte() if info == 24 else info


def _count(info: int, data: Input) -> int:
    if info < 24:
        return info
    if info > 27:
        raise PayloadError("a CBOR value has a length that is not defined")
    return data.number(1 << (info - 24))
