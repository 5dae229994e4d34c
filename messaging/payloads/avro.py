"""Data that was written with an Avro definition (binary encoding, as Pulsar's clients write it), as values of JSON.

A value of a union stands for itself, without the name of its type; bytes are hexadecimal, decimals are texts."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from messaging.broker.core.schemas.avro import Avro
from messaging.broker.core.schemas.model import SchemaError
from messaging.payloads.budget import Budget, Input, PayloadError, check_depth, shown_bytes, shown_number, text_of

DECIMAL_BYTES_MAX = 64


class AvroReader:
    """Reads payloads. Raises `PayloadError` for a definition that is not valid."""

    def __init__(self, definition: bytes) -> None:
        try:
            self._avro = Avro(definition)
        except (SchemaError, RecursionError) as error:
            raise PayloadError(f"its schema cannot be read: {error}") from None
        self._primitives: dict[str, Callable[[Input], Any]] = {
            "null": lambda data: None,
            "boolean": lambda data: data.byte() != 0,
            "int": _long,
            "long": _long,
            "float": lambda data: shown_number(struct.unpack("<f", data.take(4))[0]),
            "double": lambda data: shown_number(struct.unpack("<d", data.take(8))[0]),
            "bytes": lambda data: shown_bytes(data.take(_long(data))),
            "string": lambda data: text_of(data.take(_long(data))),
        }

    def read(self, payload: bytes, budget: Budget) -> Any:
        """Raises `PayloadError`."""
        data = Input(payload)
        value = self._value(self._avro.root, data, budget, 0)
        if data.left:
            raise PayloadError(f"{data.left} bytes follow what its schema describes")
        return value

    def _value(self, definition: Any, data: Input, budget: Budget, depth: int) -> Any:
        budget.spend()
        check_depth(depth)
        if isinstance(definition, dict) and definition.get("logicalType") == "decimal":
            return _decimal(definition, data)
        kind = self._avro.resolve(definition)
        if isinstance(kind, str):
            return self._primitives[kind](data)
        if isinstance(kind, list):
            index = _long(data)
            if not 0 <= index < len(kind):
                raise PayloadError(f"a union of {len(kind)} types has no type {index}")
            return self._value(kind[index], data, budget, depth + 1)
        return self._composed(kind, data, budget, depth)

    def _composed(self, kind: dict[str, Any], data: Input, budget: Budget, depth: int) -> Any:
        name = kind["type"]
        if name in ("record", "error"):
            return {field["name"]: self._field(field, data, budget, depth + 1) for field in kind["fields"]}
        if name == "enum":
            index = _long(data)
            if not 0 <= index < len(kind["symbols"]):
                raise PayloadError(f"an enum of {len(kind['symbols'])} symbols has no symbol {index}")
            symbol: str = kind["symbols"][index]
            budget.spend_name(symbol)
            return symbol
        if name == "fixed":
            return shown_bytes(data.take(kind["size"]))
        if name == "array":
            return [self._value(kind["items"], data, budget, depth + 1) for _ in _blocks(data, budget)]
        pairs = {}
        for _ in _blocks(data, budget):
            key = text_of(data.take(_long(data)))
            pairs[key] = self._value(kind["values"], data, budget, depth + 1)
        return pairs

    def _field(self, field: dict[str, Any], data: Input, budget: Budget, depth: int) -> Any:
        budget.spend_name(field["name"])
        return self._value(field["type"], data, budget, depth)


def _long(data: Input) -> int:
    value = data.varint()
    return (value >> 1) ^ -(value & 1)


def _blocks(data: Input, budget: Budget) -> Any:
    """Once for each item of an array or a map. A block of a negative count says its size in bytes."""
    while count := _long(data):
        if count < 0:
            count = -count
            _long(data)
        if count > budget.left:
            budget.spend(count)
        yield from range(count)
        budget.spend()


def _decimal(definition: dict[str, Any], data: Input) -> str:
    size = definition["size"] if definition["type"] == "fixed" else _long(data)
    digits = data.take(size)
    scale = definition.get("scale", 0)
    if size > DECIMAL_BYTES_MAX or not isinstance(scale, int) or not 0 <= scale <= 2 * DECIMAL_BYTES_MAX:
        return shown_bytes(digits)
    number = int.from_bytes(digits, "big", signed=True)
    text = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{text[: len(text) - scale]}{'.' if scale else ''}{text[len(text) - scale :]}"
