"""What values are as bytes, by schema: each reads what it wrote, and says what it cannot read or write."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from typing import Any

import msgspec
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, type_pb2

from messaging.client import schemas
from messaging.client.errors import InvalidValue
from messaging.client.schemas import (
    AUTO_CONSUME,
    AUTO_PRODUCE_BYTES,
    BYTES,
    STRING,
    AutoProduceBytes,
    Avro,
    Json,
    KeyValue,
    Protobuf,
    Schema,
)
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


# --- primitives

UTC = datetime.UTC
MOMENT = datetime.datetime(2026, 11, 26, 21, 50, 1, 123_456, UTC)
CUT = MOMENT.replace(microsecond=123_000)

# As Pulsar's Java client writes them: `ByteBuffer`s, which are big-endian.
PRIMITIVES: list[tuple[str, Any, str, int]] = [
    ("BOOLEAN", True, "01", 5),
    ("BOOLEAN", False, "00", 5),
    ("INT8", -2, "fe", 6),
    ("INT16", -2, "fffe", 7),
    ("INT32", 1 << 30, "40000000", 8),
    ("INT64", -(1 << 63), "8000000000000000", 9),
    ("FLOAT", 1.5, "3fc00000", 10),
    ("DOUBLE", -2.5, "c004000000000000", 11),
    ("DATE", datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "00000000000003e8", 12),
    ("DATE", datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "fffffffffffffc18", 12),
    ("TIME", datetime.time(0, 0, 1, 2_000), "00000000000003ea", 13),
    ("TIMESTAMP", datetime.datetime(1970, 1, 2, tzinfo=UTC), "0000000005265c00", 14),
    ("INSTANT", datetime.datetime(1970, 1, 1, 0, 0, 1, 5, UTC), "000000000000000100001388", 16),
    ("INSTANT", datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), "ffffffffffffffff3b9ac618", 16),
    ("LOCAL_DATE", datetime.date(1970, 1, 11), "000000000000000a", 17),
    ("LOCAL_DATE", datetime.date(1969, 12, 31), "ffffffffffffffff", 17),
    ("LOCAL_TIME", datetime.time(0, 0, 0, 1), "00000000000003e8", 18),
    ("LOCAL_DATE_TIME", datetime.datetime(1970, 1, 2, 0, 0, 0, 1), "000000000000000100000000000003e8", 19),
]


@pytest.mark.parametrize(("name", "value", "written", "number"), PRIMITIVES)
def test_primitives_have_the_bytes_of_pulsars_java_client(name: str, value: Any, written: str, number: int) -> None:
    schema: Schema[Any] = getattr(schemas, name)
    assert schema.encode(value).hex() == written
    assert schema.decode(bytes.fromhex(written)) == value
    assert (description_of(schema).type, description_of(schema).schema_data) == (number, b"")


def test_times_that_are_finer_than_a_schema_are_cut_off() -> None:
    early = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)
    for schema in (schemas.DATE, schemas.TIMESTAMP):
        assert schema.decode(schema.encode(MOMENT)) == CUT
        assert schema.decode(schema.encode(early)) == early.replace(microsecond=999_000), "towards the past, before 1970 too"
    assert schemas.TIME.decode(schemas.TIME.encode(MOMENT.time())) == CUT.time()
    assert schemas.LOCAL_TIME.decode((1_999).to_bytes(8, "big")) == datetime.time(0, 0, 0, 1), "nanoseconds of another client"
    elsewhere = MOMENT.astimezone(datetime.timezone(datetime.timedelta(hours=9)))
    assert schemas.INSTANT.decode(schemas.INSTANT.encode(elsewhere)) == MOMENT


def test_a_time_of_java_may_have_a_date_which_is_no_part_of_it() -> None:
    """`java.sql.Time` is milliseconds since 1970; in a zone east of Greenwich a time after midnight is before it."""
    assert schemas.TIME.decode((-3_600_000).to_bytes(8, "big", signed=True)) == datetime.time(23)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BOOLEAN", 1),
        ("INT8", True),
        ("INT8", 128),
        ("INT16", -(1 << 15) - 1),
        ("INT32", 1 << 31),
        ("INT64", 1 << 63),
        ("INT64", 1.0),
        ("FLOAT", 1e300),
        ("DOUBLE", "1"),
        ("DOUBLE", True),
        ("DATE", datetime.datetime(2026, 1, 1)),
        ("TIMESTAMP", datetime.date(2026, 1, 1)),
        ("TIME", datetime.time(1, tzinfo=UTC)),
        ("INSTANT", datetime.datetime(2026, 1, 1)),
        ("LOCAL_DATE", MOMENT),
        ("LOCAL_TIME", MOMENT),
        ("LOCAL_DATE_TIME", MOMENT),
    ],
)
def test_values_that_are_none_of_a_primitive_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue):
        getattr(schemas, name).encode(value)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("BOOLEAN", "02"),
        ("BOOLEAN", ""),
        ("INT32", "000000"),
        ("INT32", "0000000000"),
        ("DATE", "7fffffffffffffff"),
        ("INSTANT", "00000000000000003b9aca00"),
        ("INSTANT", "7fffffffffffffff00000000"),
        ("LOCAL_DATE", "7fffffffffffffff"),
        ("LOCAL_TIME", "00004e94914f0000"),
        ("LOCAL_TIME", "ffffffffffffffff"),
        ("LOCAL_DATE_TIME", "0000000000000000ffffffffffffffff"),
    ],
)
def test_bytes_that_are_none_of_a_primitive_are_refused(name: str, written: str) -> None:
    with pytest.raises(InvalidValue):
        getattr(schemas, name).decode(bytes.fromhex(written))


# --- schemas of topics


POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
TYPE = type_pb2.Type(name="acme.Order", oneofs=["kind"])
READ: list[tuple[Schema[Any], Any, Any]] = [
    (STRING, "ö", "ö"),
    (schemas.INT32, 7, 7),
    (schemas.LOCAL_DATE, datetime.date(2026, 11, 26), datetime.date(2026, 11, 26)),
    (Json(Part), Part("wheel"), {"name": "wheel"}),
    (Avro(Part), Part("wheel"), {"name": "wheel"}),
    (Avro(POINT), {"x": 3}, {"x": 3}),
    (KeyValue(schemas.INT64, Avro(Part)), (5, Part("wheel")), (5, {"name": "wheel"})),
    (KeyValue(STRING, Json(Part), "inline"), ("k", Part("wheel")), ("k", {"name": "wheel"})),
    (KeyValue(BYTES, BYTES, "inline"), (b"k", None), (b"k", None)),
]


@pytest.mark.parametrize(("schema", "value", "read"), READ)
def test_auto_consume_reads_by_the_schema_of_the_message(schema: Schema[Any], value: Any, read: Any) -> None:
    payload, key = schema.encode_with_key(value, None)
    assert AUTO_CONSUME.decode_written(payload, key, description_of(schema)) == read
    assert AUTO_CONSUME.resolves and AUTO_CONSUME.description is None


def test_auto_consume_makes_a_class_for_messages_of_protocol_buffers() -> None:
    read: Any = AUTO_CONSUME.decode_written(TYPE.SerializeToString(), None, description_of(Protobuf(type_pb2.Type)))
    assert (read.name, list(read.oneofs), type(read).DESCRIPTOR.full_name) == ("acme.Order", ["kind"], "google.protobuf.Type")


def test_auto_consume_of_no_schema_is_bytes_and_of_no_value_none() -> None:
    assert AUTO_CONSUME.decode(b"x") == b"x"
    assert AUTO_CONSUME.decode_written(b"x", None, pb.Schema(name="", schema_data=b"", type=0)) == b"x"
    assert AUTO_CONSUME.decode_written(None, "k", description_of(Avro(Part))) is None


@pytest.mark.parametrize(
    "writer",
    [
        pb.Schema(name="", schema_data=b"[]", type=4),
        pb.Schema(name="", schema_data=b'{"type": "nonsense"}', type=4),
        pb.Schema(name="", schema_data=b"{}", type=20),
        pb.Schema(name="", schema_data=b'{"fileDescriptorSet": "AA==", "rootMessageTypeName": "x"}', type=20),
        pb.Schema(name="", schema_data=b"\0", type=15),
        pb.Schema(name="", schema_data=bytes(8), type=15, properties=[pb.KeyValue(key="key.schema.type", value="KEY_VALUE")]),
        pb.Schema(name="", schema_data=b"", type=3),
    ],
)
def test_a_schema_of_a_topic_that_cannot_be_read_is_said(writer: pb.Schema) -> None:
    with pytest.raises(InvalidValue):
        AUTO_CONSUME.decode_written(b"x", None, writer)


def test_auto_produce_takes_bytes_that_the_schema_of_the_topic_reads() -> None:
    assert isinstance(AUTO_PRODUCE_BYTES, AutoProduceBytes)
    bound = AUTO_PRODUCE_BYTES.bound_to(description_of(Avro(Part)))
    written = Avro(Part).encode(Part("wheel"))
    assert bound.encode_with_key(written, "k") == (written, "k") and bound.encode_with_key(None, "k") == (None, "k")
    assert bound.description == description_of(Avro(Part))
    with pytest.raises(InvalidValue, match="not a Part"):
        bound.encode_with_key(b"\x08no", None)
    with pytest.raises(InvalidValue, match="is bytes, not Part"):
        bound.encode_with_key(Part("wheel"), None)  # type: ignore[arg-type]
    assert AUTO_PRODUCE_BYTES.bound_to(None) is BYTES
    separated = AUTO_PRODUCE_BYTES.bound_to(description_of(KeyValue(schemas.INT64, STRING)))
    assert separated.encode_with_key(b"v", bytes(8)) == (b"v", bytes(8))
    with pytest.raises(InvalidValue):
        separated.encode_with_key(b"v", "no number")


def test_automatic_schemas_have_one_direction() -> None:
    with pytest.raises(InvalidValue, match="for consumers"):
        AUTO_CONSUME.encode("x")
    with pytest.raises(InvalidValue, match="for producers"):
        AUTO_PRODUCE_BYTES.decode(b"x")
    for schema in (AUTO_CONSUME, AUTO_PRODUCE_BYTES):
        with pytest.raises(InvalidValue, match="for the whole message"):
            KeyValue(schema, STRING)
