"""What values are as bytes, by schema: each reads what it wrote, and says what it cannot read or write."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any

import msgspec
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, type_pb2

from messaging.client.errors import InvalidValue
from messaging.client.schemas import BYTES, STRING, Avro, Json, KeyValue, Protobuf, Schema
from messaging.client.schemas.records import record_of
from messaging.protocol import pulsar_pb2 as pb


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Part:
    name: str


@dataclasses.dataclass
class Order:
    number: int
    parts: list[Part]
    colour: Colour
    note: str | None = None


@dataclasses.dataclass
class Newer:
    """What an `Order` became: without parts, with a discount."""

    number: int
    colour: Colour
    note: str | None = None
    discount: float = 0.5


class Struct(msgspec.Struct, rename="camel"):
    unit_price: float
    tags: dict[str, bytes]


def test_json_of_a_dataclass_and_of_a_struct() -> None:
    order = Order(1, [Part("wheel")], Colour.RED)
    assert Json(Order).decode(Json(Order).encode(order)) == order
    fields = {field["name"]: field for field in record_of(Order)["fields"]}
    assert fields["number"]["type"] == "long" and fields["note"] == {
        "name": "note",
        "type": ["null", "string"],
        "default": None,
    }
    assert fields["parts"]["type"]["items"]["name"] == "Part"
    assert [field["name"] for field in record_of(Struct)["fields"]] == ["unitPrice", "tags"]
    description = Json(Struct).description
    assert description is not None and (description.name, description.type) == ("Struct", 2)


def test_values_that_do_not_fit_a_schema_are_refused() -> None:
    with pytest.raises(InvalidValue, match="is a Order, not Part"):
        Json(Order).encode(Part("wheel"))  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="not a Order"):
        Json(Order).decode(b"{}")
    with pytest.raises(InvalidValue, match="is bytes, not str"):
        BYTES.encode("text")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        STRING.decode(b"\xff")
    with pytest.raises(InvalidValue, match="no counterpart"):
        Json(complex)


# --- Avro


def description_of(schema: Schema[Any]) -> pb.Schema:
    assert schema.description is not None
    return schema.description


def test_avro_of_a_dataclass_of_a_struct_and_of_a_definition() -> None:
    order = Order(1, [Part("wheel")], Colour.RED, "soon")
    assert Avro(Order).decode(Avro(Order).encode(order)) == order
    struct = Struct(1.5, {"a": b"\xff"})
    assert Avro(Struct).decode(Avro(Struct).encode(struct)) == struct
    definition = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
    assert Avro(definition).decode(Avro(definition).encode({"x": 7})) == {"x": 7}
    assert (description_of(Avro(Order)).name, description_of(Avro(Order)).type) == ("Order", 4)
    assert json.loads(description_of(Avro(definition)).schema_data) == definition


def test_a_message_of_avro_is_read_by_the_schema_it_was_written_with() -> None:
    """Whatever its record was called: a field that the writer did not know has its default, one that the reader does not, goes."""
    written = Avro(Order).encode(Order(3, [Part("wheel")], Colour.RED, "soon"))
    assert Avro(Newer).decode_written(written, None, description_of(Avro(Order))) == Newer(3, Colour.RED, "soon", 0.5)
    assert Avro(Newer).resolves
    with pytest.raises(InvalidValue, match="number 2"):
        Avro(Newer).decode_written(written, None, description_of(Json(Order)))
    with pytest.raises(InvalidValue, match="not a record of Avro"):
        Avro(Newer).decode_written(written, None, pb.Schema(name="", schema_data=b"[", type=4))


def test_what_is_no_avro_is_said() -> None:
    with pytest.raises(InvalidValue, match="is a Order, not Part"):
        Avro(Order).encode(Part("wheel"))
    with pytest.raises(InvalidValue, match="not a Order"):
        Avro(Order).encode(Order("many", [], Colour.RED))  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="not a Order"):
        Avro(Order).decode(b"\x02")
    with pytest.raises(InvalidValue, match="definition of Avro"):
        Avro({"type": "nonsense"})
    with pytest.raises(InvalidValue, match="is a record"):
        Avro({"type": "enum", "name": "E", "symbols": ["A"]})


def test_defaults_are_part_of_the_description() -> None:
    fields = {field["name"]: field for field in record_of(Newer)["fields"]}
    assert fields["discount"]["default"] == 0.5 and fields["note"]["default"] is None and "default" not in fields["number"]


# --- Protocol Buffers


def test_protobuf_is_described_with_all_that_it_imports() -> None:
    schema = Protobuf(type_pb2.Type)
    value = type_pb2.Type(name="acme.Order", oneofs=["kind"])
    assert schema.decode(schema.encode(value)) == value
    described = json.loads(description_of(schema).schema_data)
    files = descriptor_pb2.FileDescriptorSet.FromString(msgspec.convert(described["fileDescriptorSet"], bytes))
    names = [file.name for file in files.file]
    assert described["rootMessageTypeName"] == "google.protobuf.Type" and described["rootFileDescriptorName"] == names[-1]
    assert {"google/protobuf/any.proto", "google/protobuf/source_context.proto"} <= {*names} and len({*names}) == len(names)
    assert description_of(schema).type == 20


def test_what_is_no_protobuf_is_said() -> None:
    with pytest.raises(InvalidValue, match="not a generated class"):
        Protobuf(Order)  # type: ignore[type-var]
    with pytest.raises(InvalidValue, match="is a Type, not Timestamp"):
        Protobuf(type_pb2.Type).encode(timestamp_pb2.Timestamp())  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="not a Type"):
        Protobuf(type_pb2.Type).decode(b"\xff")
    with pytest.raises(InvalidValue, match="not complete"):
        Protobuf(pb.Send).encode(pb.Send(producer_id=1))


# --- keys and values


def test_a_pair_is_inside_the_payload_or_has_its_key_outside() -> None:
    inline, separated = KeyValue(STRING, BYTES, "inline"), KeyValue(STRING, BYTES)
    assert inline.encode_with_key(("k", b"v"), None) == (b"\0\0\0\1k\0\0\0\1v", None)
    assert inline.encode_with_key(("k", None), "other") == (b"\0\0\0\1k\xff\xff\xff\xff", "other")
    assert separated.encode_with_key(("k", b"v"), None) == (b"v", b"k")
    for pair in (("k", b"v"), ("k", None), (None, b"v"), ("", b"")):
        payload, key = inline.encode_with_key(pair, None)
        assert inline.decode_with_key(payload, key) == pair
        payload, key = separated.encode_with_key(pair, None)
        assert separated.decode_with_key(payload, key) == pair
    assert separated.decode_with_key(b"v", "k") == ("k", b"v"), "a key that another client sent as text"


def test_the_description_of_a_pair_names_both() -> None:
    described = description_of(KeyValue(STRING, Json(Part), "inline"))
    assert (described.name, described.type) == ("KeyValue", 15)
    properties = {pair.key: pair.value for pair in described.properties}
    assert properties["key.schema.type"] == "STRING" and properties["value.schema.type"] == "JSON"
    assert properties["kv.encoding.type"] == "INLINE" and properties["value.schema.name"] == "Part"
    definition = description_of(Json(Part)).schema_data
    assert described.schema_data == b"\0\0\0\0" + len(definition).to_bytes(4, "big") + definition


@pytest.mark.parametrize("encoding", ["inline", "separated"])
def test_parts_of_a_pair_are_read_by_what_they_were_written_with(encoding: Any) -> None:
    before, now = KeyValue(STRING, Avro(Order), encoding), KeyValue(STRING, Avro(Newer), encoding)
    payload, key = before.encode_with_key(("k", Order(3, [], Colour.RED)), None)
    assert now.resolves
    assert now.decode_written(payload, key, description_of(before)) == ("k", Newer(3, Colour.RED))


def test_what_is_no_pair_is_said() -> None:
    schema = KeyValue(STRING, BYTES)
    with pytest.raises(InvalidValue, match="a tuple of key and value"):
        schema.encode_with_key(b"v", None)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="sets the message's key"):
        schema.encode_with_key(("k", b"v"), "k")
    for payload in (b"", b"\0\0\0\2k", b"\xff\xff\xff\xfe", b"\0\0\0\1k\0\0\0\2v"):
        with pytest.raises(InvalidValue, match="each with its size"):
            KeyValue(STRING, BYTES, "inline").decode(payload)
    with pytest.raises(InvalidValue, match="inline or separated"):
        KeyValue(STRING, BYTES, "both")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="cannot be a KeyValue"):
        KeyValue(schema, BYTES)
