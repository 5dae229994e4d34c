"""Protobuf's wire format, read with the descriptors of a schema, or without: fields are then named by their numbers.

Descriptors come from clients, and so do payloads. No class is made of them and no pool keeps them: fields are looked up while the
bytes are read."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any, NamedTuple

import msgspec
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from messaging.json_types import decoder_of
from messaging.payloads.budget import Budget, Input, PayloadError, check_depth, shown_bytes, shown_number, text_of

_Field = descriptor_pb2.FieldDescriptorProto
TYPES_MAX = 10_000
FIELDS_MAX = 100_000
_ZIGZAG = (_Field.TYPE_SINT32, _Field.TYPE_SINT64)
_SIGNED = (_Field.TYPE_INT32, _Field.TYPE_INT64, _Field.TYPE_ENUM)
_FIXED: dict[int, tuple[str, int]] = {
    _Field.TYPE_FLOAT: ("<f", 5),
    _Field.TYPE_FIXED32: ("<I", 5),
    _Field.TYPE_SFIXED32: ("<i", 5),
    _Field.TYPE_DOUBLE: ("<d", 1),
    _Field.TYPE_FIXED64: ("<Q", 1),
    _Field.TYPE_SFIXED64: ("<q", 1),
}
_IN_LENGTHS = (_Field.TYPE_STRING, _Field.TYPE_BYTES, _Field.TYPE_MESSAGE)
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class _Known(NamedTuple):
    name: str
    type: int  # of `FieldDescriptorProto`; 0: not known
    repeated: bool = False
    of: str = ""  # the full name of its message or enum


class _Message(NamedTuple):
    fields: dict[int, _Known]
    map_entry: bool


_UNKNOWN = _Message({}, map_entry=False)


class ProtobufReader:
    """Reads payloads of the message `root`. `of_descriptors`, `of_parsing_info` and `without_schema` make one."""

    def __init__(self, messages: dict[str, _Message], enums: dict[str, dict[int, str]], root: str) -> None:
        self._messages = messages
        self._enums = enums
        self._root = root

    def read(self, payload: bytes, budget: Budget) -> dict[str, Any]:
        """Raises `PayloadError`."""
        return self._message(payload, self._messages.get(self._root, _UNKNOWN), budget, 0)

    def _message(self, payload: bytes, message: _Message, budget: Budget, depth: int) -> dict[str, Any]:
        check_depth(depth)
        data, values = Input(payload), dict[str, Any]()
        while data.left:
            tag = data.varint()
            number, wire = tag >> 3, tag & 7
            if not number:
                raise PayloadError("a field has the number 0")
            known = message.fields.get(number) or _Known(str(number), 0)
            for value in self._values(known, wire, data, budget, depth):
                budget.spend()
                budget.spend_name(known.name)
                if known.type == _Field.TYPE_ENUM and isinstance(value, str):
                    budget.spend_name(value)
                _put(values, known, value, self._messages.get(known.of, _UNKNOWN).map_entry)
        return values

    def _values(self, known: _Known, wire: int, data: Input, budget: Budget, depth: int) -> list[Any]:
        if wire == _VARINT:
            return [self._number(known, data.varint())]
        if wire == _FIXED64:
            return [_fixed(known, data.take(8), "<Q")]
        if wire == _FIXED32:
            return [_fixed(known, data.take(4), "<I")]
        if wire != _LENGTH:
            raise PayloadError(f"the field {known.name} has the wire type {wire}, which is not decoded")
        inner = data.take(data.varint())
        if known.type == _Field.TYPE_STRING:
            return [text_of(inner)]
        if known.type == _Field.TYPE_MESSAGE:
            return [self._message(inner, self._messages.get(known.of, _UNKNOWN), budget, depth + 1)]
        if known.type and known.type != _Field.TYPE_BYTES:
            return self._packed(known, Input(inner), budget)
        return [_guess(inner) if not known.type else shown_bytes(inner)]

    def _packed(self, known: _Known, data: Input, budget: Budget) -> list[Any]:
        size = struct.calcsize(_FIXED[known.type][0]) if known.type in _FIXED else 0
        values: list[Any] = []
        while data.left:
            if len(values) > budget.left:
                budget.spend(len(values))
            values.append(_fixed(known, data.take(size), "") if size else self._number(known, data.varint()))
        return values

    def _number(self, known: _Known, value: int) -> Any:
        if known.type == _Field.TYPE_BOOL:
            return value != 0
        if known.type in _ZIGZAG:
            return (value >> 1) ^ -(value & 1)
        if known.type in _SIGNED and value >= 1 << 63:
            value -= 1 << 64
        return self._enums.get(known.of, {}).get(value, value) if known.type == _Field.TYPE_ENUM else value


def without_schema() -> ProtobufReader:
    return ProtobufReader({}, {}, "")


def of_parsing_info(info: str) -> ProtobufReader:
    """Of a PROTOBUF schema, whose property ``__PARSING_INFO__`` names the fields of its message. Others are numbers."""
    try:
        listed = decoder_of(list[dict[str, Any]]).decode(info)
    except (msgspec.DecodeError, RecursionError):
        listed = []
    fields = {
        field["number"]: _Known(field["name"], _Field.TYPE_STRING if field.get("type") == "STRING" else 0)
        for field in listed[:TYPES_MAX]
        if isinstance(field.get("number"), int) and isinstance(field.get("name"), str)
    }
    return ProtobufReader({"": _Message(fields, map_entry=False)}, {}, "")


def of_descriptors(schema: bytes) -> ProtobufReader:
    """Of a PROTOBUF_NATIVE schema. Raises `PayloadError`."""
    try:
        described = decoder_of(dict[str, Any]).decode(schema)
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(described["fileDescriptorSet"], validate=True))
        root = str(described["rootMessageTypeName"])
    except (msgspec.DecodeError, binascii.Error, DecodeError, RecursionError, KeyError, TypeError, ValueError):
        raise PayloadError("its schema has no descriptors that can be read") from None
    types = _Types()
    for file in files.file:
        package = f".{file.package}" if file.package else ""
        types.add(package, file.message_type, file.enum_type, 0)
    if f".{root}" not in types.messages:
        raise PayloadError(f"its schema does not describe the message {root[:80]!r}")
    return ProtobufReader(types.messages, types.enums, f".{root}")


class _Types:
    def __init__(self) -> None:
        self.messages: dict[str, _Message] = {}
        self.enums: dict[str, dict[int, str]] = {}
        self._left = Budget(FIELDS_MAX)

    def add(self, around: str, messages: Any, enums: Any, depth: int) -> None:
        check_depth(depth)
        self._left.spend(len(messages) + len(enums))
        for enum in enums:
            self._left.spend(len(enum.value))
            self.enums[f"{around}.{enum.name}"] = {value.number: value.name for value in enum.value}
        for message in messages:
            self._left.spend(len(message.field))
            name = f"{around}.{message.name}"
            fields = {
                field.number: _Known(field.name, field.type, field.label == _Field.LABEL_REPEATED, field.type_name)
                for field in message.field
            }
            self.messages[name] = _Message(fields, message.options.map_entry)
            self.add(name, message.nested_type, message.enum_type, depth + 1)


def _put(values: dict[str, Any], known: _Known, value: Any, map_entry: bool) -> None:
    before = values.get(known.name)  # of this field, or of another of its name, which a schema may have
    if map_entry and isinstance(value, dict):
        entry = {str(value.get("key", "")): value.get("value")}
        if isinstance(before, dict):
            before.update(entry)
        else:
            values[known.name] = entry
    elif known.repeated:
        if isinstance(before, list):
            before.append(value)
        else:
            values[known.name] = [value]
    elif not known.type and known.name in values:  # whether it is repeated is not known
        values[known.name] = [*before, value] if isinstance(before, list) and len(before) < 100 else [before, value]
    else:
        values[known.name] = value


def _fixed(known: _Known, data: bytes, otherwise: str) -> Any:
    form = _FIXED[known.type][0] if known.type in _FIXED and struct.calcsize(_FIXED[known.type][0]) == len(data) else otherwise
    value = struct.unpack(form, data)[0]
    return shown_number(value) if isinstance(value, float) else value


def _guess(data: bytes) -> str:
    """Of a field that no schema names: a text if it may be one."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return shown_bytes(data)
    return text if text.isprintable() else shown_bytes(data)
