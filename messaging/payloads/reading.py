"""A payload as people read it: by the schema it was written with, else by what it looks like, else in hexadecimal."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from messaging.broker.core.schemas.key_value import parts
from messaging.broker.core.schemas.model import Schema, SchemaError, SchemaType
from messaging.limits.json_values import has_more_values
from messaging.payloads.avro import AvroReader
from messaging.payloads.budget import VALUES_MAX, Budget, Input, PayloadError, text_of
from messaging.payloads.cbor import read_cbor
from messaging.payloads.msgpack import read_msgpack

Format: TypeAlias = Literal["auto", "json", "avro", "protobuf", "text", "cbor", "msgpack", "hex"]
FORMATS: tuple[Format, ...] = ("auto", "json", "avro", "protobuf", "text", "cbor", "msgpack", "hex")
_BY_SCHEMA = "auto", "avro", "protobuf"
_PRINTABLE_LOOKED_AT = 4096  # characters
ESCAPES_MAX = 500_000  # backslashes in JSON
LONG_NUMBERS_BYTES_MAX = 64 << 10  # of its numbers that have more than 64 digits
PIECE_BYTES = 64 << 10
_DIGITS_TO_0, _DIGITS = bytes.maketrans(b"123456789", b"0" * 9), b"0" * 65
_LONG_NUMBER = re.compile(rb"[\[,:\s.+\-eE][0-9]{65,}")
_NUMBERS = {
    SchemaType.INT8: ">b",
    SchemaType.INT16: ">h",
    SchemaType.INT32: ">i",
    SchemaType.INT64: ">q",
    SchemaType.FLOAT: ">f",
    SchemaType.DOUBLE: ">d",
    SchemaType.BOOLEAN: ">?",
    SchemaType.DATE: ">q",
    SchemaType.TIME: ">q",
    SchemaType.TIMESTAMP: ">q",
}


class Reading(NamedTuple):
    """`value` is one of JSON, and None where the payload is a text or only bytes: `decoded` says whether there is one. `text`: of
    format "text". `problem`: why it is not what its schema or the wanted format says.
    `spent`: values that were made, also in vain."""

    format: str
    decoded: bool = False
    value: Any = None
    text: str = ""
    problem: str = ""
    spent: int = 0


class SchemaReader(NamedTuple):
    """How payloads of a version of a schema are read."""

    format: str
    read: Callable[[bytes, Budget], Any]


def schema_reader(schema: Schema) -> SchemaReader | None:
    """None for a type that says nothing of the payload. Raises `PayloadError` for a schema that cannot be read."""
    kind = schema.type
    if kind is SchemaType.JSON:
        return SchemaReader("json", read_json)
    if kind is SchemaType.AVRO:
        return SchemaReader("avro", AvroReader(schema.data).read)
    if kind is SchemaType.PROTOBUF_NATIVE:
        return SchemaReader("protobuf", _protobuf().of_descriptors(schema.data).read)
    if kind is SchemaType.PROTOBUF:
        return SchemaReader("protobuf", _protobuf().of_parsing_info(schema.properties.get("__PARSING_INFO__", "[]")).read)
    if kind is SchemaType.STRING:
        return SchemaReader("text", lambda payload, budget: text_of(payload))
    if kind in _NUMBERS:
        return SchemaReader(kind.name.lower(), lambda payload, budget: _number(kind, payload))
    return _key_value_reader(schema) if kind is SchemaType.KEY_VALUE else None


def read_payload(
    payload: bytes, reader: SchemaReader | None = None, wanted: Format = "auto", values_max: int = VALUES_MAX
) -> Reading:
    """Never raises: what cannot be read as it should is shown as what it looks like, with the problem."""
    budget = Budget(values_max)
    reading = _as_wanted(payload, reader, wanted, budget)
    if isinstance(reading, Reading):
        return reading._replace(spent=values_max - budget.left)
    guessed = _guessed(payload, values_max)
    return guessed._replace(problem=reading, spent=guessed.spent + values_max - max(budget.left, 0))


def _as_wanted(payload: bytes, reader: SchemaReader | None, wanted: Format, budget: Budget) -> Reading | str:
    """Why it is not: "" where nothing is wanted of it."""
    if wanted == "hex":
        return Reading("hex")
    if reader is not None and wanted in _BY_SCHEMA:
        try:
            return _of(reader.format, reader.read(payload, budget))
        except (PayloadError, RecursionError) as error:
            return f"It is not what its schema says: {error}."
    elif wanted == "avro":
        return "It has no schema, without which Avro cannot be read."
    elif wanted != "auto":
        try:
            return _of(wanted, _READERS[wanted](payload, budget))
        except (PayloadError, RecursionError) as error:
            return f"It is no {wanted}: {error}."
    return ""


def read_json(payload: bytes, budget: Budget) -> Any:
    """Raises `PayloadError`. Parsing holds Python's lock from the first byte to the last: what is slow for each byte is refused."""
    if len(payload) > ESCAPES_MAX and payload.count(b"\\") > ESCAPES_MAX:
        raise PayloadError(f"it holds more than {ESCAPES_MAX} backslashes, and is not decoded")
    if has_more_values(payload, budget.left):
        raise PayloadError(f"it holds more than {VALUES_MAX} values, which are not decoded")
    if len(payload) > LONG_NUMBERS_BYTES_MAX and _long_numbers_bytes(payload) > LONG_NUMBERS_BYTES_MAX:
        raise PayloadError(f"its long numbers have more than {LONG_NUMBERS_BYTES_MAX} digits, and are not decoded")
    try:
        return msgspec.json.decode(payload)
    except RecursionError:
        raise PayloadError("it is nested too deeply") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise PayloadError(str(error)) from None


def _long_numbers_bytes(payload: bytes) -> int:
    """How many digits numbers of more than 64 have, about: in pieces, so that other threads go on."""
    total = 0
    for begin in range(0, len(payload), PIECE_BYTES):
        piece = payload[begin : begin + PIECE_BYTES]
        if _DIGITS in piece.translate(_DIGITS_TO_0):
            total += sum(map(len, _LONG_NUMBER.findall(piece)))
    return total


def _protobuf() -> ModuleType:
    """The web process has no other use for Protocol Buffers, and loads them when somebody reads such a payload."""
    from messaging.payloads import protobuf

    return protobuf


def _of(form: str, value: Any) -> Reading:
    return Reading("text", text=value) if form == "text" else Reading(form, decoded=True, value=value)


_READERS: dict[str, Callable[[bytes, Budget], Any]] = {
    "json": read_json,
    "protobuf": lambda payload, budget: _protobuf().without_schema().read(payload, budget),
    "text": lambda payload, budget: text_of(payload),
    "cbor": read_cbor,
    "msgpack": read_msgpack,
}


def _guessed(payload: bytes, values_max: int) -> Reading:
    """Formats that say of themselves what they are; only lists and objects count, since nearly any bytes are a number in one."""
    if payload[:64].lstrip()[:1] in (b"{", b"["):
        try:
            return _of("json", read_json(payload, Budget(values_max)))
        except PayloadError:
            pass
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        pass
    else:
        if _readable(text[:_PRINTABLE_LOOKED_AT]):
            return Reading("text", text=text)
    spent = 0
    for form, read in (("msgpack", read_msgpack), ("cbor", read_cbor)):
        budget = Budget(values_max)
        try:
            value = read(payload, budget)
        except (PayloadError, RecursionError):
            value = None
        spent += values_max - max(budget.left, 0)
        if isinstance(value, dict | list) and value:
            return _of(form, value)._replace(spent=spent)
    return Reading("hex", spent=spent)


def _readable(text: str) -> bool:
    return all(character.isprintable() or character in "\t\n\r" for character in text)


def _number(kind: SchemaType, payload: bytes) -> Any:
    form = _NUMBERS[kind]
    if len(payload) != struct.calcsize(form):
        raise PayloadError(f"a {kind.name} has {struct.calcsize(form)} bytes, and this has {len(payload)}")
    value = struct.unpack(form, payload)[0]
    return value if value == value and abs(value) != float("inf") else str(value)


def _key_value_reader(schema: Schema) -> SchemaReader | None:
    try:
        key, value = parts(schema)
    except SchemaError as error:
        raise PayloadError(f"its schema cannot be read: {error}") from None
    if SchemaType.KEY_VALUE in (key.type, value.type):
        return None
    readers = schema_reader(key), schema_reader(value)
    if schema.properties.get("kv.encoding.type") == "SEPARATED":
        return readers[1]

    def read(payload: bytes, budget: Budget) -> Any:
        data, values = Input(payload), dict[str, Any]()
        for name, reader in zip(("key", "value"), readers, strict=True):
            size = int.from_bytes(data.take(4), "big", signed=True)
            inner = data.take(size) if size >= 0 else None
            if inner is None:
                values[name] = None
            elif reader is not None:
                values[name] = reader.read(inner, budget)
            else:
                reading = _guessed(inner, budget.left)
                values[name] = reading.value if reading.decoded else reading.text or f"0x{inner.hex()}"
        return values

    return SchemaReader("key-value", read)
