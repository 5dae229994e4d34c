"""Payloads as people read them: what other libraries wrote, and what is broken or made to take long."""

from __future__ import annotations

import base64
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pytest
from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2

from messaging.broker.core.schemas.model import Schema, SchemaType
from messaging.payloads.budget import VALUES_MAX, Budget, PayloadError
from messaging.payloads.cbor import read_cbor
from messaging.payloads.reading import Format, read_json, read_payload, schema_reader

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {
            "name": "lines",
            "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}},
        },
        {"name": "labels", "type": {"type": "map", "values": "double"}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "next", "type": ["null", "Order"]},
    ],
}
NULLS = {"type": "array", "items": "null"}


def avro(definition: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(definition), value)
    return out.getvalue()


def reader_of(kind: SchemaType, data: bytes = b"", **properties: str) -> Any:
    return schema_reader(Schema(kind, data, properties))


def test_avro_as_another_library_wrote_it() -> None:
    inner = {
        "id": 2,
        "price": Decimal("0.05"),
        "note": None,
        "kind": "OLD",
        "lines": [],
        "labels": {},
        "mark": b"\0\1",
        "next": None,
    }
    order = {
        **inner,
        "id": -4711,
        "price": Decimal("-12.5"),
        "note": "größer",
        "lines": [{"n": 1}, {"n": -1}],
        "labels": {"a": 1.5},
    }
    reading = read_payload(avro(ORDER, {**order, "next": inner}), reader_of(SchemaType.AVRO, json.dumps(ORDER).encode()))
    assert (reading.format, reading.problem) == ("avro", "")
    shown = {**inner, "price": "0.05", "mark": "0x0001"}
    assert reading.value == {**order, "price": "-12.50", "mark": "0x0001", "next": shown}


def test_avro_that_would_become_millions_of_values_is_refused() -> None:
    a_million_nulls = avro(NULLS, [None] * 1_000_000)
    assert len(a_million_nulls) < 10
    reading = read_payload(a_million_nulls, reader_of(SchemaType.AVRO, json.dumps(NULLS).encode()))
    assert not reading.decoded and f"more than {VALUES_MAX} values" in reading.problem


@pytest.mark.parametrize("cut", [1, 5, 11])
def test_avro_that_is_cut_off_says_so_and_is_shown_as_bytes(cut: int) -> None:
    whole = avro(
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "double"}, {"name": "b", "type": "int"}]},
        {"a": 1.1, "b": 300},
    )
    schema = b'{"type":"record","name":"R","fields":[{"name":"a","type":"double"},{"name":"b","type":"int"}]}'
    reading = read_payload(whole[:-cut] if cut < len(whole) else whole + b"x", reader_of(SchemaType.AVRO, schema))
    assert reading.problem.startswith("It is not what its schema says") and not reading.decoded


def native(message: Any) -> tuple[bytes, bytes]:
    """The data of the schema, as Java clients write it, and a payload."""
    files = descriptor_pb2.FileDescriptorSet()
    message.DESCRIPTOR.file.CopyToProto(files.file.add())
    root = {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": message.DESCRIPTOR.full_name,
        "rootFileDescriptorName": message.DESCRIPTOR.file.name,
    }
    return json.dumps(root).encode(), message.SerializeToString()


def test_protobuf_by_its_descriptors_with_maps_and_nested_messages() -> None:
    given = struct_pb2.Struct()
    given.update({"a": 1.5, "b": {"c": True}, "d": ["x", None]})
    schema, payload = native(given)
    reading = read_payload(payload, reader_of(SchemaType.PROTOBUF_NATIVE, schema))
    assert reading.format == "protobuf"
    fields = reading.value["fields"]
    assert fields["a"] == {"number_value": 1.5}
    assert fields["b"] == {"struct_value": {"fields": {"c": {"bool_value": True}}}}
    assert fields["d"] == {"list_value": {"values": [{"string_value": "x"}, {"null_value": "NULL_VALUE"}]}}

    schema, payload = native(timestamp_pb2.Timestamp(seconds=-5, nanos=7))
    assert read_payload(payload, reader_of(SchemaType.PROTOBUF_NATIVE, schema)).value == {"seconds": -5, "nanos": 7}


def test_protobuf_without_a_schema_has_numbers_for_names() -> None:
    payload = struct_pb2.Value(string_value="größer").SerializeToString()
    assert read_payload(payload, wanted="protobuf").value == {"3": "größer"}
    named = reader_of(SchemaType.PROTOBUF, __PARSING_INFO__='[{"number": 3, "name": "word", "type": "STRING"}]')
    assert read_payload(payload, named).value == {"word": "größer"}


@pytest.mark.parametrize(
    ("data", "value"),  # of RFC 8949, appendix A
    [
        ("1903e8", 1000),
        ("3863", -100),
        ("f93c00", 1.0),
        ("f97c00", "inf"),
        ("fb3ff199999999999a", 1.1),
        ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
        ("4401020304", "0x01020304"),
        ("826161a161626163", ["a", {"b": "c"}]),
        ("5f42010243030405ff", "0x0102030405"),
        ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
        ("bf6346756ef563416d7421ff", {"Fun": True, "Amt": -2}),
    ],
)
def test_cbor(data: str, value: Any) -> None:
    assert read_cbor(bytes.fromhex(data), Budget()) == value


@pytest.mark.parametrize("data", ["", "82", "ff", "1c", "9bffffffffffffffff", "0000", "61ff", "81" * 100 + "00"])
def test_cbor_that_is_broken_or_too_deep_is_refused(data: str) -> None:
    with pytest.raises(PayloadError):
        read_cbor(bytes.fromhex(data), Budget())


def test_msgpack_as_another_library_wrote_it() -> None:
    value = {"a": [1, -1, 2**40, -(2**40), 1.5, None, True, "x" * 300], "b": {"c": "ü"}, "many": list(range(40))}
    payload = msgspec.msgpack.encode({**value, "raw": b"\1\2"})
    for wanted in ("auto", "msgpack"):
        assert read_payload(payload, wanted=wanted).value == {**value, "raw": "0x0102"}


@pytest.mark.parametrize(
    ("payload", "form", "value"),
    [
        (b'{"a": [1, 2]}', "json", {"a": [1, 2]}),
        (b" [1]", "json", [1]),
        ("grüße\n".encode(), "text", None),
        (b"4711", "text", None),
        (b'{"a": ', "text", None),
        (b"\x00\x01\xfe", "hex", None),
        (b"\x81\xa1a\x01", "msgpack", {"a": 1}),
        (b"\xa1\x61\x61\xf5", "cbor", {"a": True}),
    ],
)
def test_without_a_schema_it_is_what_it_looks_like(payload: bytes, form: str, value: Any) -> None:
    reading = read_payload(payload)
    assert (reading.format, reading.value, reading.problem) == (form, value, "")


@pytest.mark.parametrize(
    ("kind", "payload", "value"),
    [
        (SchemaType.INT64, b"\xff" * 8, -1),
        (SchemaType.BOOLEAN, b"\1", True),
        (SchemaType.DOUBLE, b"\x3f\xf0" + b"\0" * 6, 1.0),
        (SchemaType.JSON, b'"x"', "x"),
    ],
)
def test_schemas_without_a_definition(kind: SchemaType, payload: bytes, value: Any) -> None:
    reading = read_payload(payload, reader_of(kind))
    assert (reading.value, reading.problem) == (value, "")
    assert read_payload(payload[:-1] or b"\0\0", reader_of(kind)).problem


def test_key_and_value_in_one_payload() -> None:
    data = b"\0\0\0\0" + len(json.dumps(ORDER["fields"]).encode()).to_bytes(4, "big")  # no valid definition behind it
    with pytest.raises(PayloadError):
        reader_of(SchemaType.KEY_VALUE, data)
    schema = (0).to_bytes(4, "big") * 2
    reader = reader_of(SchemaType.KEY_VALUE, schema, **{"key.schema.type": "STRING", "value.schema.type": "INT32"})
    payload = b"\0\0\0\1k" + b"\0\0\0\4" + b"\0\0\0\7"
    assert read_payload(payload, reader).value == {"key": "k", "value": 7}


@pytest.mark.parametrize("wanted", ["json", "avro", "protobuf", "text", "cbor", "msgpack"])
def test_what_is_not_of_the_wanted_format_is_shown_with_the_reason(wanted: Format) -> None:
    reading = read_payload(b"\xff\x00\xfe", wanted=wanted)
    assert reading.format == "hex" and reading.problem


def test_whatever_it_is_can_be_shown_as_bytes() -> None:
    assert read_payload(b'{"a": 1}', reader_of(SchemaType.JSON), wanted="hex") == ("hex", False, None, "", "", 0)


def test_json_with_too_many_values_or_levels_is_not_decoded() -> None:
    for payload in (b"[" + b"1," * (2 * VALUES_MAX) + b"1]", b"[" * 5_000 + b"]" * 5_000):
        reading = read_payload(payload, wanted="json")
        assert not reading.decoded and reading.problem


def maps_as_keys(levels: int) -> tuple[bytes, bytes]:
    """In MessagePack and CBOR: {{{0: 0}: 0}: 0}."""
    return b"\x81" * levels + b"\0" * (levels + 1), b"\xa1" * levels + b"\0" * (levels + 1)


@pytest.mark.parametrize("form", ["msgpack", "cbor"])
def test_a_map_as_a_key_is_not_written_out_which_doubles_it_with_each_level(form: Format) -> None:
    payload = maps_as_keys(20)[form == "cbor"]  # a megabyte once written out, and of 60 levels more than there is memory
    reading = read_payload(payload, wanted=form)
    assert not reading.decoded and "a key in it is a map or a list" in reading.problem
    assert read_payload(payload).format in ("text", "hex")


LONG = "n" * 100_000


@pytest.mark.parametrize(
    ("definition", "item"),
    [
        ({"type": "record", "name": "R", "fields": [{"name": LONG, "type": "null"}]}, b""),
        ({"type": "enum", "name": "E", "symbols": [LONG]}, b"\0"),
    ],
)
def test_long_names_of_an_avro_definition_are_not_repeated_without_end(definition: Any, item: bytes) -> None:
    schema = json.dumps({"type": "array", "items": definition}).encode()
    reader = reader_of(SchemaType.AVRO, schema)
    once, often = b"\x02" + item + b"\0", b"\xd0\x0f" + 1_000 * item + b"\0"
    assert read_payload(once, reader).decoded
    reading = read_payload(often, reader)
    assert not reading.decoded and f"more than {VALUES_MAX} values" in reading.problem


def described(*fields: dict[str, Any], enum: str = "") -> bytes:
    """The data of a schema of a message with such fields; ".M.E" is an entry of a map."""
    file = descriptor_pb2.FileDescriptorProto(name="f")
    message = file.message_type.add(name="M")
    for field in fields:
        message.field.add(**field)
    entry = message.nested_type.add(name="E")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    if enum:
        file.enum_type.add(name="Kind").value.add(name=enum, number=0)
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return json.dumps({"fileDescriptorSet": base64.b64encode(files).decode(), "rootMessageTypeName": "M"}).encode()


def test_long_names_of_protobuf_are_not_repeated_without_end() -> None:
    nested = described({"name": LONG, "number": 1, "type": 11, "label": 3, "type_name": ".M"})
    reading = read_payload(b"\x0a\0" * 1_000, reader_of(SchemaType.PROTOBUF_NATIVE, nested))
    assert not reading.decoded and f"more than {VALUES_MAX} values" in reading.problem
    symbols = described({"name": "kinds", "number": 1, "type": 14, "label": 3, "type_name": ".Kind"}, enum=LONG)
    packed = b"\x0a\xe8\x07" + bytes(1_000)
    reading = read_payload(packed, reader_of(SchemaType.PROTOBUF_NATIVE, symbols))
    assert not reading.decoded and f"more than {VALUES_MAX} values" in reading.problem


@pytest.mark.parametrize("payload", [b"\x0a\0\x10\1", b"\x10\1\x0a\0", b"\x18\1\x0a\0", b"\x18\1\x10\1"])
def test_fields_of_one_name_in_a_descriptor_do_not_break_reading(payload: bytes) -> None:
    fields = [
        {"name": "m", "number": 1, "type": 11, "label": 3, "type_name": ".M.E"},
        {"name": "m", "number": 2, "type": 5, "label": 3},
        {"name": "m", "number": 3, "type": 5, "label": 1},
    ]
    assert read_payload(payload, reader_of(SchemaType.PROTOBUF_NATIVE, described(*fields))).decoded


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b'["' + b'\\"' * 500_001 + b'"]', "backslashes"),
        (b"[" + b",".join([b"0." + b"1" * 700] * 100) + b"]", "long numbers"),
        (b"[" + b",".join([b"1" * 4_000] * 20) + b"]", "long numbers"),
    ],
    ids=["escapes", "fractions", "integers"],
)
def test_json_of_which_each_byte_takes_long_is_not_decoded(payload: bytes, why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        read_json(payload, Budget())


def test_json_with_many_digits_in_texts_and_some_long_numbers_is_decoded() -> None:
    value = ["1" * 200_000, 10**100, "\\" * 1_000]
    assert read_payload(json.dumps(value).encode()).value == value


def test_what_was_decoded_in_vain_counts_too() -> None:
    broken = b"\xdd" + (4_000).to_bytes(4, "big") + b"\x80" * 4_000 + b"\x80"
    reading = read_payload(broken)
    assert not reading.decoded and reading.spent > 4_000
