"""Whether data of one Avro schema can be read with another: every rule of schema resolution in the specification, row by row, with
the verdict of a Pulsar 4.0 (compatibility BACKWARD, each pair as the type of a field)."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.core.schemas.avro import Budget, why_unreadable
from tests.support.avro_types import avro, enum, field, fixed, record

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
PROMOTED = {("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double")}
PROMOTED |= {("string", "bytes"), ("bytes", "string")}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def map_of(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def decimal(precision: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


LIST = record(field("v", "int"), field("next", ["null", "R"], default=None))
LONGER = record(field("v", "long"), field("next", ["null", "R"], default=None), field("w", "string", default="x"))

# (reader, writer, whether it can be read)
ROWS: list[tuple[Any, Any, bool]] = [
    # arrays, maps
    (array("long"), array("int"), True),
    (array("int"), array("string"), False),
    (array(["null", "long"]), array("int"), True),
    (map_of("long"), map_of("int"), True),
    (map_of("int"), map_of("long"), False),
    (array("int"), "int", False),
    # unions: every branch of the writer needs one of the reader
    (["int", "string"], ["string", "int"], True),
    (["int", "string"], ["int", "string", "boolean"], False),
    (["long", "bytes"], ["int", "string"], True),
    ("double", ["int", "long", "float"], True),
    ("float", ["int", "double"], False),
    (["null"], "null", True),
    (["float"], "int", True),
    (["null", "string"], "int", False),
    ([record(field("a", "int"), name="A"), record(field("b", "int"), name="B")], record(field("b", "int"), name="B"), True),
    ([record(field("a", "int"), name="A")], record(field("a", "int"), name="B"), True),
    # enums: a symbol that the reader does not know is an error of single messages, with a default or without
    (enum("a", "b", default="a"), enum("a", "b", "c"), True),
    (enum("a", "b"), enum("a", "b", "c"), True),
    (enum("a", default="a"), enum("b"), True),
    (enum("a"), enum("b"), True),
    ({**enum("a"), "name": "G"}, enum("a"), False),
    ({**enum("a"), "name": "G", "aliases": ["E"]}, enum("a"), True),
    ({**enum("a"), "namespace": "a"}, {**enum("a"), "namespace": "b"}, True),
    # fixed
    (fixed(4), fixed(8), False),
    (fixed(4, "G"), fixed(4), False),
    ({**fixed(4, "G"), "aliases": ["F"]}, fixed(4), True),
    ({**fixed(4, "G"), "aliases": ["X"]}, fixed(4), False),
    ({**fixed(4), "namespace": "a"}, {**fixed(4), "namespace": "b"}, True),
    (fixed(4), "bytes", False),
    ("bytes", fixed(4), False),
    # records: names do not count, fields do
    (record(field("a", "int"), name="A"), record(field("a", "int"), name="B"), True),
    ({**record(field("a", "int"), name="A"), "aliases": ["B"]}, record(field("a", "int"), name="B"), True),
    (record(field("a", "int", default=1)), record(), True),
    (record(field("a", ["null", "int"], default=None)), record(), True),
    (record(field("a", ["null", "int"])), record(), False),
    (record(), record(field("a", "int")), True),
    (record(field("a", "long")), record(field("a", "int")), True),
    (record(field("a", "string")), record(field("a", "int")), False),
    (record(field("b", "long", aliases=["a", "c"])), record(field("a", "int")), True),
    (record(field("b", "int", aliases=["c"])), record(field("a", "int")), False),
    (record(field("b", "string", aliases=["a"])), record(field("a", "int")), False),
    (record(field("a", "int")), "int", False),
    # types that refer to themselves
    (LONGER, LIST, True),
    (LIST, LONGER, False),
    # logical types are their underlying ones
    (decimal(8), decimal(4), True),
    ({"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}, True),
    ({"type": "long", "logicalType": "timestamp-millis"}, "int", True),
    ({"type": "string", "logicalType": "uuid"}, "string", True),
]


@pytest.mark.parametrize(("reader", "writer", "fits"), ROWS)
def test_pulsar_says_the_same(reader: Any, writer: Any, fits: bool) -> None:
    reason = why_unreadable(
        avro(record(field("v", reader), name="Outer")), avro(record(field("v", writer), name="Outer")), Budget()
    )
    assert (not reason) == fits, reason


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_primitive_types_are_promoted(reader: str, writer: str) -> None:
    reason = why_unreadable(avro(reader), avro(writer), Budget())
    assert (not reason) == (reader == writer or (writer, reader) in PROMOTED), reason
