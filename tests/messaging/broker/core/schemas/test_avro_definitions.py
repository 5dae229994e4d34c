"""Which definitions are valid Avro schemas, row by row, with the verdict of a Pulsar 4.0 (`schemas` REST, a topic for each row)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from messaging.broker.core.schemas.comparison import Comparison
from messaging.broker.core.schemas.model import Schema, SchemaError, SchemaType
from tests.support.avro_types import avro, enum, field, fixed, record

INTS, MAP = {"type": "array", "items": "int"}, {"type": "map", "values": "int"}
RECORD = record(field("x", "int"), name="I")


def with_default(kind: Any, default: Any) -> dict[str, Any]:
    return record(field("a", kind, default=default))


def of(kind: Any, **more: Any) -> dict[str, Any]:
    return record(field("a", kind), **more)


ACCEPTED: list[Any] = [
    # A default is not looked at: what does not fit it finds out when it is read.
    *[with_default(*pair) for pair in (("int", "x"), ("int", 1.5), ("int", None), ("int", True), ("int", 2**40), ("long", 2**70))],
    *[with_default(*pair) for pair in (("boolean", 1), ("string", None), ("bytes", 1), ("bytes", "\u0100"), ("null", "null"))],
    *[with_default(["null", "int"], default) for default in (None, 3, "x")],
    *[with_default(*pair) for pair in ((INTS, [1]), (INTS, ["x"]), (INTS, {}), (MAP, {"a": 1}), (MAP, {"a": "x"}), (MAP, []))],
    *[with_default(enum("A"), default) for default in ("A", "C", 1)],
    *[with_default(fixed(2), default) for default in ("ab", "a", 1)],
    *[with_default(RECORD, default) for default in ({"x": 1}, {}, {"x": "s"}, "s", {"x": 1, "y": 2})],
    *[
        with_default("float", default)
        for default in (1, None, "1.0", "NaN", "-Infinity", "1e3", " 1 ", "1d", "+1", ".5", "5.", "0x1p3")
    ],
    with_default(["double", "null"], "abc"),
    of(enum("A", default="A")),
    of(enum("A", default=1)),
    of({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 4}),
    of({"type": "int", "logicalType": "uuid"}),
    # names
    record(field("ä", "int")),
    record(field("a١", "int")),
    record(name=".a"),
    record(name="record"),
    {**record(name="int"), "namespace": "n"},
    {**record(), "namespace": "1.b"},
    {**record(field("a", fixed(2)), field("b", "F"), field("c", "n.F")), "namespace": "n"},
    record(field("a", fixed(2)), field("c", "n.F"), name="n.R"),
    record(field("a", fixed(2)), field("b", {**record(field("x", "F"), name="B"), "namespace": "other"})),
    record(field("a", fixed(2)), field("b", {**fixed(3), "namespace": "z"})),
    of({"type": "array", "items": "int", "aliases": ["q"]}),
    {**record(), "doc": 7},
    # shapes
    "int",
    INTS,
    enum("A"),
    fixed(2),
    {"type": "error", "name": "R", "fields": []},
    of(fixed(0)),
    of([]),
    of(enum()),
    of("R"),
    record(field("a", "int", order="Ascending")),
]

REFUSED: list[tuple[Any, str]] = [
    *[(with_default("float", text), "is not a number") for text in ("abc", "inf", "1_0", "", "١")],
    (with_default({"type": "double"}, "abc"), "is not a number"),
    (of(enum("A", default="C")), "not one of its symbols"),
    *[(record(name=name), "is not a name") for name in ("1R", "a-b", "a.", "")],
    *[(record(field(name, "int")), "is not a name") for name in ("a-b", "a$", "Ⅷ", "a²", "a𝐀", "a‿b")],
    *[(of({**enum(), "symbols": [symbol]}), "is not a name") for symbol in ("a-b", 1)],
    (record(name="int"), "is a primitive type"),
    (record(field("a", "int"), field("a", "int")), "has 'a' twice"),
    (enum("a", "a"), "has 'a' twice"),
    (record(field("a", fixed(2)), field("b", fixed(3))), "is defined twice"),
    (of("Nope"), "is not defined"),
    (record(field("a", "F"), field("b", fixed(1))), "is not defined"),
    (record(field("a", fixed(1)), field("b", "q.F")), "is not defined"),
    (of(["int", "int"]), "two of the type 'int'"),
    (of(["int", {"type": "int", "logicalType": "date"}]), "two of the type 'int'"),
    (of([INTS, {"type": "array", "items": "string"}]), "two of the type 'array'"),
    (of([record(name="Q"), "Q"]), "two of the type 'Q'"),
    (of(["int", ["null"]]), "a union has a union in it"),
    *[(of({**fixed(0), "size": size}), "has no size") for size in (-1, "2", 2.0, True, 2**31 - 1, 2**31)],
    *[(record(field("a", "int", order=order)), "the order of the field") for order in ("up", None, 1)],
    *[(record(field("a", "int", aliases=aliases)), "aliases are not") for aliases in ("x", [1], None)],
    ({**record(), "aliases": ["1x"]}, "is not a name"),
    ({"type": "record", "name": "R"}, "has no list of fields"),
    ({"type": "record", "fields": []}, "has no name"),
    (record("a"), "is not a field"),
    (record({"name": "a"}), "has no type"),
    (of(None), "is not an Avro type"),
    (of({"type": ["null", "int"]}), "no name of a type"),
    (of({"type": {"type": "int"}}), "no name of a type"),
    (of({"type": "array"}), "has no `items`"),
    (of({"type": "map", "items": "int"}), "has no `values`"),
]


@pytest.mark.parametrize("definition", ACCEPTED, ids=repr)
def test_definitions_that_pulsar_accepts_are_valid(definition: Any) -> None:
    for kind in (SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF):
        Comparison().check_valid(Schema(kind, json.dumps(definition).encode()))


@pytest.mark.parametrize(("definition", "why"), REFUSED, ids=repr)
def test_definitions_that_pulsar_refuses_are_invalid(definition: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=f"not a valid Avro definition: .*{why}"):
        avro(definition)


@pytest.mark.parametrize(("begin", "many", "end"), [("", "1", "x"), ("0x", "1", "g"), ("", " ", "x"), ("1.", "1", "e")])
def test_a_default_of_very_many_digits_is_looked_at_once(begin: str, many: str, end: str) -> None:
    """2,000 digits took half a second, and twice as many four times that."""
    started = time.thread_time()
    with pytest.raises(SchemaError, match="is not a number"):
        avro(with_default("double", begin + 300_000 * many + end))
    assert time.thread_time() - started < 1


def test_a_union_is_no_schema_of_type_avro() -> None:
    Comparison().check_valid(Schema(SchemaType.JSON, b'["null", "int"]'))
    with pytest.raises(SchemaError, match="union"):
        Comparison().check_valid(Schema(SchemaType.AVRO, b'["null", "int"]'))


@pytest.mark.parametrize("data", [b'{"__fastavro_parsed": true, "__named_schemas": {}}', b"NaN", b'"int" "int"', b""])
def test_values_that_only_look_like_definitions_are_refused(data: bytes) -> None:
    with pytest.raises(SchemaError, match="the schema is not"):
        Comparison().check_valid(Schema(SchemaType.AVRO, data))


def test_types_have_their_full_names() -> None:
    definition = avro({**record(field("a", fixed(2)), field("b", ["null", "F"]), field("c", {"type": "F"})), "namespace": "n"})
    assert set(definition.named) == {"n.R", "n.F"}
    assert [fields_of["type"] for fields_of in definition.root["fields"]][1:] == [["null", "n.F"], {"type": "n.F"}]
    assert definition.resolve({"type": "n.F"})["size"] == 2
