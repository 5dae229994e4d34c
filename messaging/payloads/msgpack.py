"""MessagePack as values of JSON. Bytes and extensions are hexadecimal."""

from __future__ import annotations

import struct
from typing import Any

from messaging.payloads.budget import Budget, Input, PayloadError, check_depth, key_of, shown_bytes, shown_number, text_of

_CONSTANTS: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_LENGTHS = {  # the size of the length
    0xC4: 1, 0xC5: 2, 0xC6: 4,  # bytes
    0xC7: 1, 0xC8: 2, 0xC9: 4,  # extensions
    0xD9: 1, 0xDA: 2, 0xDB: 4,  # texts
    0xDC: 2, 0xDD: 4,  # lists
    0xDE: 2, 0xDF: 4,  # maps
}  # fmt: skip
_FIXED_EXTENSIONS = range(0xD4, 0xD9)


def read_msgpack(payload: bytes, budget: Budget) -> Any:
    """Raises `PayloadError`."""
    data = Input(payload)
    value = _value(data, budget, 0)
    if data.left:
        raise PayloadError(f"{data.left} bytes follow the first MessagePack value")
    return value


def _value(data: Input, budget: Budget, depth: int) -> Any:
    budget.spend()
    check_depth(depth)
    head = data.byte()
    if head < 0x80:
        return head
    if head >= 0xE0:
        return head - 0x100
    if head < 0x90:
        return _map(head & 15, data, budget, depth)
    if head < 0xA0:
        return _list(head & 15, data, budget, depth)
    if head < 0xC0:
        return text_of(data.take(head & 31))
    if head in _CONSTANTS:
        return _CONSTANTS[head]
    if head in _NUMBERS:
        form = _NUMBERS[head]
        number = struct.unpack(form, data.take(struct.calcsize(form)))[0]
        return shown_number(number) if isinstance(number, float) else number
    if head in _FIXED_EXTENSIONS:
        return shown_bytes(data.take(1 + (1 << (head - 0xD4))))
    if head not in _LENGTHS:
        raise PayloadError(f"the byte {head:#x} begins no MessagePack value")
    count = data.number(_LENGTHS[head])
    if head >= 0xDE:
        return _map(count, data, budget, depth)
    if head >= 0xDC:
        return _list(count, data, budget, depth)
    if head >= 0xD9:
        return text_of(data.take(count))
    return shown_bytes(data.take(count + (1 if head >= 0xC7 else 0)))


def _list(count: int, data: Input, budget: Budget, depth: int) -> list[Any]:
    if count > budget.left:
        budget.spend(count)
    return [_value(data, budget, depth + 1) for _ in range(count)]


def _map(count: int, data: Input, budget: Budget, depth: int) -> dict[str, Any]:
    if count > budget.left:
        budget.spend(count)
    return {key_of(_value(data, budget, depth + 1)): _value(data, budget, depth + 1) for _ in range(count)}
