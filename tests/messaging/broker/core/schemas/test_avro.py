"""Avro definitions against the rules of the specification, and against data written and read with the library."""

from __future__ import annotations

import io
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.schemas.avro import PORTION_STEPS, STEPS_MAX, VALUES_MAX, Avro, Budget, why_unreadable
from messaging.broker.core.schemas.model import SchemaError
from tests.support.avro_types import avro, enum, field, fixed, record

TREE = record(field("value", "int"), field("children", {"type": "array", "items": "R"}))
TREE_LONG = record(field("value", "long"), field("children", {"type": "array", "items": "R"}))

# (reader, writer, why not)
TABLE: list[tuple[Any, Any, str]] = [
    ("int", "int", ""),
    *[(wider, "int", "") for wider in ("long", "float", "double")],
    ("float", "long", ""),
    ("double", "float", ""),
    ("bytes", "string", ""),
    ("string", "bytes", ""),
    ("int", "long", "long cannot be read as int"),
    ("string", "int", "int cannot be read as string"),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, ""),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "string cannot be read as int"),
    ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "map cannot be read as array"),
    (["null", "int"], "int", ""),
    (["null", "long"], ["null", "int"], ""),
    ("int", ["null", "int"], "null cannot be read as int"),
    (["null", "string"], "int", "cannot be read as any of null, string"),
    (enum("a", "b"), enum("a"), ""),
    (enum("a"), enum("a", "b"), ""),  # an error only of messages with b
    ({**enum("a"), "name": "G"}, enum("a"), "enum E cannot be read as enum G"),
    (fixed(4), fixed(4), ""),
    (fixed(4), fixed(8), "has 8 bytes, the reader wants 4"),
    (fixed(4), fixed(4, "G"), "fixed G cannot be read as fixed F"),
    (record(field("a", "int"), name="A"), record(field("a", "int"), name="B"), ""),  # names of records do not count
    (record(field("a", "int")), record(field("a", "int"), field("b", "int")), ""),
    (record(field("a", "int"), field("b", "int")), record(field("a", "int")), "b: the field is missing in the data"),
    (record(field("a", "int"), field("b", "int", default=1)), record(field("a", "int")), ""),
    (record(field("b", "int", aliases=["a"])), record(field("a", "int")), ""),
    (record(field("a", record(field("x", "int"), name="I"))), record(field("a", record(name="I"))), "a.x: the field is missing"),
    (TREE_LONG, TREE, ""),
    (TREE, TREE_LONG, "value: long cannot be read as int"),
    # A record that refers to itself, in a union: whether the branch fits is known only after its fields were compared.
    (
        record(field("next", ["null", "R"]), field("v", "int")),
        record(field("next", ["null", "R"]), field("v", "string")),
        "cannot be read",
    ),
    ({"type": "int", "logicalType": "date"}, "int", ""),
    # The branch that fits is not the first one of its kind.
    ([record(field("a", fixed(4)), name="A"), record(field("a", "int"), name="B")], record(field("a", "int"), name="W"), ""),
]


@pytest.mark.parametrize(("reader", "writer", "why"), TABLE)
def test_the_rules_of_resolution(reader: Any, writer: Any, why: str) -> None:
    reason = why_unreadable(avro(reader), avro(writer), Budget())
    assert why in reason if why else not reason, reason


VALUES: dict[str, Any] = {"int": 7, "long": 2**40, "float": 1.5, "double": 2.5, "string": "s", "bytes": b"b", "boolean": True}
kinds = st.sampled_from(sorted(VALUES))
fields = st.dictionaries(st.sampled_from("abcde"), kinds, min_size=1)


@given(fields, fields)
def test_data_said_to_be_readable_is_readable(reads: dict[str, str], wrote: dict[str, str]) -> None:
    """The other way round the library is more generous: it converts what the specification does not."""
    writer = record(*(field(name, kind) for name, kind in wrote.items()))
    reader = record(*(field(name, kind) for name, kind in reads.items()))
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(writer), {name: VALUES[kind] for name, kind in wrote.items()})
    if why_unreadable(avro(reader), avro(writer), Budget()):
        return
    stream.seek(0)
    data = schemaless_reader(stream, parse_schema(writer), parse_schema(reader))
    assert isinstance(data, dict) and set(data) == set(reads)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"[]x",
        b'{"type": "unknown"}',
        b'{"type": "record", "fields": []}',
        b'{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
        b'{"type": "record", "name": "R", "fields": 7}',
        b'{"type": "enum", "name": "E", "symbols": 1}',
        b'{"type": {"type": ["null", "int"]}}',
        b'{"type": []}',
        b"7",
        b"null",
        b'{"type": "array"}',
        b"[" * 100_000,
        b"\xff\xfe",
        rb'"\ud800"',  # half a surrogate pair: no text
        b'"\xed\xa0\x80"',
        rb'{"type": "enum", "name": "E", "symbols": ["\ud800"]}',
    ],
)
def test_schemas_that_are_not_avro_are_refused(data: bytes) -> None:
    with pytest.raises(SchemaError, match="schema") as refused:
        Avro(data)
    assert str(refused.value).encode()  # it can be sent


def test_work_is_bounded() -> None:
    deep: Any = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    with pytest.raises(SchemaError, match="nested more than"):
        avro(deep)
    with pytest.raises(SchemaError, match="more than 10000 parts"):
        avro(record(*(field(f"f{number}", "int") for number in range(10_000))))
    with pytest.raises(SchemaError, match="takes too long"):
        why_unreadable(many_records(range(800)), many_records(range(799, -1, -1)), Budget())
    assert not why_unreadable(many_records(range(200)), many_records(range(199, -1, -1)), Budget())


def many_records(numbers: range) -> Avro:
    """A union; what is written with one of its records only that one reads."""
    return avro([record(field("x", fixed(4, f"F{number}")), name=f"R{number}") for number in numbers])


def test_equal_but_for_documentation() -> None:
    documented = record(field("a", "int", doc="how many", default=1))
    assert avro(documented).canonical == avro(record(field("a", "int", default=1), name="R")).canonical
    assert avro(documented).canonical != avro(record(field("a", "int", default=2))).canonical
    assert avro(record(field("doc", "int"))).canonical != avro(record(field("text", "int"))).canonical


@pytest.mark.parametrize("element", [b"[]", b"{}", b"[[]]", b'""', b'"\\\\"', b"1", b'{"":0}'], ids=repr)
def test_json_with_too_many_values_is_refused_before_it_is_parsed(element: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 MiB of small lists kept everybody waiting for a quarter of a second, and was then found to be no schema."""
    monkeypatch.setattr("json.loads", lambda *given, **options: pytest.fail("parsed"))
    data = b"[" + b",".join([element] * (VALUES_MAX + 1)) + b"]"
    with pytest.raises(SchemaError, match="more than 10000 parts"):
        Avro(data)


def test_documentation_may_have_any_number_of_commas() -> None:
    documented = record(field("a", "int", doc=', "[{\\' * 50_000))
    assert avro(documented).canonical == avro(record(field("a", "int"))).canonical


def test_comparing_rests_after_each_portion_of_its_work() -> None:
    """It held Python's lock to the end, 300 ms for the whole budget: meanwhile others had a quarter of their throughput."""
    left: list[int] = []
    budget = Budget(rest=lambda: left.append(budget.left))
    with pytest.raises(SchemaError, match="takes too long"):
        while True:
            why_unreadable(many_records(range(200)), many_records(range(199, -1, -1)), budget)
    portions = [before - after for before, after in zip([STEPS_MAX, *left], [*left, 0], strict=True)]
    assert max(portions) <= PORTION_STEPS and len(left) >= STEPS_MAX // PORTION_STEPS - 1
