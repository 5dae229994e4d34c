"""Defaults that are not values of their types, row by row, with the verdicts of a Pulsar 4.0 (strategy FULL, after a schema without
fields), but for unions: of a producer, whose schema would be the next version, and of a consumer, who reads the version before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from messaging.broker.core.schemas.avro import Budget, why_bad_default, why_unreadable
from messaging.broker.core.schemas.comparison import Comparison
from messaging.broker.core.schemas.model import Schema, SchemaError, SchemaType, SchemaVersion
from messaging.broker.core.schemas.registry import check_consumer, check_new, find
from messaging.broker.core.schemas.strategies import Strategy
from messaging.errors import IncompatibleSchema
from tests.support.avro_types import avro, enum, field, fixed, record

INTS, TEXTS = {"type": "array", "items": "int"}, {"type": "map", "values": ["null", "string"]}
POINT = record(field("x", "int"), name="P")
POINT_AT_1 = record(field("x", "int", default=1), name="P")

# (type, default, may a producer register it, may a consumer read with it)
ROWS: list[tuple[Any, Any, bool, bool]] = [
    ("int", 3, True, True),
    ("int", "x", False, False),
    ("int", None, False, False),
    ("int", True, False, False),
    ("int", 1.0, False, True),
    ("int", 2**31, False, True),
    ("long", 2**40, True, True),
    ("long", 2**70, False, True),
    ("long", "1", False, False),
    ("float", 1, True, True),
    ("float", "1.5", True, True),
    ("float", True, False, False),
    ("double", "NaN", True, True),
    ("double", None, False, False),
    ("boolean", False, True, True),
    ("boolean", 1, False, False),
    ("string", "", True, True),
    ("string", 1, False, False),
    ("bytes", "\u0100", True, True),
    ("bytes", 1, False, False),
    ("null", None, True, True),
    ("null", "null", False, False),
    ({"type": "int", "logicalType": "date"}, "2020-01-01", False, False),
    # a union: any of its types, where Avro for Java 1.11 and so Pulsar takes only the first
    (["null", "int"], None, True, True),
    (["null", "int"], 3, True, True),
    (["null", "int"], "x", False, False),
    (["int", "null"], None, True, True),
    (["null", POINT], {"x": 1}, True, True),
    (["null", POINT], {"x": "s"}, False, False),
    (["float", "double"], 1.5, True, True),
    (["int", "long"], 2**40, True, True),
    ([], None, False, False),
    # containers
    (INTS, [1], True, True),
    (INTS, ["x"], False, False),
    (INTS, {}, False, True),
    (TEXTS, {"a": None}, True, True),
    (TEXTS, {"a": 1}, False, False),
    (TEXTS, [], False, True),
    # named types
    (enum("A"), "A", True, True),
    (enum("A"), "C", False, False),
    (enum("A"), 1, False, False),
    (fixed(2), "abc", True, True),
    (fixed(2), 1, False, False),
    (POINT, {"x": 1, "y": 2}, True, True),
    (POINT, {"x": "s"}, False, False),
    (POINT, {}, False, False),
    (POINT, "s", False, False),
    (POINT_AT_1, {}, True, True),
    (record(field("x", "int", default="s"), name="P"), {"x": 1}, False, True),
    ({"type": "array", "items": POINT}, [{"x": None}], False, False),
    (["null", "R"], {"a": None}, True, True),
    (["null", "R"], {"a": {"a": 1}}, False, False),
]


def schema(definition: Any) -> Schema:
    return Schema(SchemaType.AVRO, json.dumps(definition).encode())


@pytest.mark.parametrize(("kind", "default", "producer", "consumer"), ROWS)
def test_pulsar_says_the_same(kind: Any, default: Any, producer: bool, consumer: bool) -> None:
    empty, new = SchemaVersion(0, 0, schema(record())), schema(record(field("a", kind, default=default)))
    for check, fine in ((check_new, producer), (check_consumer, consumer)):
        if fine:
            check([empty], new, Strategy.FULL, Comparison())
        else:
            with pytest.raises(IncompatibleSchema, match="default"):
                check([empty], new, Strategy.FULL, Comparison())
    check_new([], new, Strategy.FULL, Comparison())  # Pulsar does not look at the defaults of a first version
    assert find([SchemaVersion(0, 0, new)], new, Comparison()) is not None


def test_a_default_may_be_bad_where_it_is_not_needed() -> None:
    bad = record(field("a", "int", default="x"))
    assert not why_unreadable(avro(bad), avro(record(field("a", "int"))), Budget())
    with pytest.raises(IncompatibleSchema, match="field a of R"):
        check_new([SchemaVersion(0, 0, schema(record(field("a", "int"))))], schema(bad), Strategy.ALWAYS_COMPATIBLE, Comparison())


def test_work_is_bounded() -> None:
    """Defaults that take their values from defaults: a million values, and without an end."""
    doubling = record(field("a", "int", default=1), name="R0")
    for number in range(1, 20):
        parts = field("a", doubling, default={}), field("b", f"R{number - 1}", default={})
        doubling = record(*parts, name=f"R{number}")
    for definition in (doubling, record(field("a", {"type": "array", "items": "R"}, default=[{}]))):
        with pytest.raises(SchemaError, match=r"takes too long|nested too deeply"):
            why_bad_default(avro(definition), Budget())
