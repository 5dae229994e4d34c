"""The versions of a topic's schema: every strategy, equality, deletion, and every type."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from messaging.broker.core.schemas import comparison, registry
from messaging.broker.core.schemas.avro import Avro
from messaging.broker.core.schemas.comparison import Comparison
from messaging.broker.core.schemas.model import Schema, SchemaType, SchemaVersion
from messaging.broker.core.schemas.registry import VERSIONS_MAX, has_schema, latest
from messaging.broker.core.schemas.strategies import Strategy
from messaging.errors import IncompatibleSchema


def avro(*fields: Any, kind: SchemaType = SchemaType.AVRO, **more: Any) -> Schema:
    return Schema(kind, json.dumps({"type": "record", "name": "R", "fields": list(fields), **more}).encode())


def field(name: str, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


ONE = avro(field("a"))
ADDED = avro(field("a"), field("b"))  # reads no old data, and old readers read it
DEFAULTED = avro(field("a"), field("b", default=0))  # both
REMOVED = avro()  # reads old data; old readers miss the field
OTHER = Schema(SchemaType.STRING)

ALLOWED = {
    Strategy.ALWAYS_COMPATIBLE: {"added", "defaulted", "removed", "other"},
    Strategy.ALWAYS_INCOMPATIBLE: set[str](),
    Strategy.BACKWARD: {"defaulted", "removed"},
    Strategy.FORWARD: {"added", "defaulted"},
    Strategy.FULL: {"defaulted"},
    Strategy.UNDEFINED: {"defaulted"},
    Strategy.BACKWARD_TRANSITIVE: {"defaulted", "removed"},
    Strategy.FORWARD_TRANSITIVE: {"added", "defaulted"},
    Strategy.FULL_TRANSITIVE: {"defaulted"},
}
NEXT = {"added": ADDED, "defaulted": DEFAULTED, "removed": REMOVED, "other": OTHER}


def find(versions: list[SchemaVersion], schema: Schema) -> SchemaVersion | None:
    return registry.find(versions, schema, Comparison())


def check_new(versions: list[SchemaVersion], schema: Schema, strategy: Strategy, *, may_update: bool = True) -> None:
    registry.check_new(versions, schema, strategy, Comparison(), may_update=may_update)


def check_consumer(versions: list[SchemaVersion], schema: Schema, strategy: Strategy) -> None:
    registry.check_consumer(versions, schema, strategy, Comparison())


def history(*schemas: Schema | None) -> list[SchemaVersion]:
    return [SchemaVersion(number, number, schema) for number, schema in enumerate(schemas)]


def allowed(versions: list[SchemaVersion], schema: Schema, strategy: Strategy) -> bool:
    try:
        check_new(versions, schema, strategy)
    except IncompatibleSchema:
        return False
    return True


@pytest.mark.parametrize("strategy", Strategy)
def test_each_strategy_against_each_kind_of_change(strategy: Strategy) -> None:
    assert {name for name, schema in NEXT.items() if allowed(history(ONE), schema, strategy)} == ALLOWED[strategy]


@pytest.mark.parametrize("strategy", Strategy)
def test_the_first_schema_is_always_allowed(strategy: Strategy) -> None:
    assert allowed([], ONE, strategy)
    assert allowed(history(ONE, None), OTHER, strategy), "after a deletion as well"


@pytest.mark.parametrize(
    ("strategy", "fits"),
    [
        (Strategy.BACKWARD, True),
        (Strategy.BACKWARD_TRANSITIVE, False),
        (Strategy.FULL, True),
        (Strategy.FULL_TRANSITIVE, False),
    ],
)
def test_transitive_strategies_compare_with_all_versions(strategy: Strategy, fits: bool) -> None:
    """The third reads the data of the second, and not of the first, whose field has another type."""
    versions = history(avro(field("a", "string")), avro(field("b", default=0)), avro(field("b", default=0), field("c", default=0)))
    assert allowed(versions, avro(field("a", default=0), field("b", default=0), field("c", default=0)), strategy) is fits


def test_the_latest_version_is_the_one_that_counts_otherwise() -> None:
    versions = history(ADDED, ONE)
    assert allowed(versions, REMOVED, Strategy.BACKWARD)
    assert not allowed(versions, ADDED, Strategy.BACKWARD)


def test_equal_schemas_share_a_version() -> None:
    versions = history(ONE, DEFAULTED)
    spaced = Schema(SchemaType.AVRO, ONE.data.replace(b",", b" ,  "))
    version = find(versions, spaced)
    assert version is not None and version.version == 0
    assert find(versions, Schema(SchemaType.JSON, ONE.data)) is None
    assert find(history(ONE, None), ONE) is None, "a deleted version is not used again"
    assert latest(history(ONE, None)) is None


def test_clients_may_be_kept_from_updating() -> None:
    check_new([], ONE, Strategy.FULL, may_update=False)
    with pytest.raises(IncompatibleSchema, match="schema_auto_update"):
        check_new(history(ONE), DEFAULTED, Strategy.FULL, may_update=False)


def test_a_topic_has_a_limited_number_of_versions() -> None:
    versions = history(*[ONE] * VERSIONS_MAX)
    with pytest.raises(IncompatibleSchema, match="1000 versions"):
        check_new(versions, DEFAULTED, Strategy.FULL)
    with pytest.raises(IncompatibleSchema, match="bytes in all"):
        check_new(history(*[Schema(SchemaType.STRING, bytes(1 << 20))] * 4), DEFAULTED, Strategy.ALWAYS_COMPATIBLE)


def test_consumers_are_readers_of_the_latest_version() -> None:
    versions = history(ONE, DEFAULTED)
    for strategy in (Strategy.BACKWARD, Strategy.FORWARD, Strategy.FULL, Strategy.UNDEFINED):
        check_consumer(versions, REMOVED, strategy)
        with pytest.raises(IncompatibleSchema, match="consumer"):
            check_consumer(versions, avro(field("z")), strategy)
    check_consumer(versions, ONE, Strategy.ALWAYS_INCOMPATIBLE)  # a known one
    with pytest.raises(IncompatibleSchema):
        check_consumer(versions, REMOVED, Strategy.FULL_TRANSITIVE)
    check_consumer(versions, OTHER, Strategy.ALWAYS_COMPATIBLE)


def key_value(key: Schema, value: Schema, encoding: str = "INLINE") -> Schema:
    data = b"".join(len(part.data).to_bytes(4, "big") + part.data for part in (key, value))
    properties = {"kv.encoding.type": encoding}
    for which, part in (("key", key), ("value", value)):
        properties |= {f"{which}.schema.name": "", f"{which}.schema.type": part.type.name, f"{which}.schema.properties": "{}"}
    return Schema(SchemaType.KEY_VALUE, data, properties)


@pytest.mark.parametrize("encoding", ["INLINE", "SEPARATED"])
def test_both_parts_of_a_key_value_schema_count(encoding: str) -> None:
    versions = history(key_value(OTHER, ONE, encoding))
    assert allowed(versions, key_value(OTHER, DEFAULTED, encoding), Strategy.FULL)
    assert not allowed(versions, key_value(OTHER, ADDED, encoding), Strategy.FULL)
    assert not allowed(versions, key_value(Schema(SchemaType.INT32), ONE, encoding), Strategy.FULL)
    version = find(versions, key_value(OTHER, Schema(SchemaType.AVRO, ONE.data + b" "), encoding))
    assert version is not None and version.version == 0


def native(*messages: str, root: str = "pkg.M", file: str = "m.proto") -> Schema:
    described = descriptor_pb2.FileDescriptorSet()
    descriptor = described.file.add(name="m.proto", package="pkg")
    for name in messages:
        descriptor.message_type.add(name=name).nested_type.add(name="Inner")
    content = base64.b64encode(described.SerializeToString()).decode()
    document = {"fileDescriptorSet": content, "rootMessageTypeName": root, "rootFileDescriptorName": file}
    return Schema(SchemaType.PROTOBUF_NATIVE, json.dumps(document).encode())


def test_protobuf_native_schemas_keep_their_root_message() -> None:
    versions = history(native("M"))
    assert allowed(versions, native("M", "N"), Strategy.FULL)
    assert not allowed(versions, native("M", "N", root="pkg.N"), Strategy.FULL)
    Comparison().check_valid(native("M", root="pkg.M.Inner"))
    for broken in (native("N"), native("M", file="n.proto"), Schema(SchemaType.PROTOBUF_NATIVE, b"{}")):
        assert not allowed([], broken, Strategy.FULL)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0\5ab", b"\0\0\0\0", b"\xff\xff\xff\xfe", b"\0\0\0\0\0\0\0\0more"], ids=lambda data: repr(data)
)
def test_broken_key_value_schemas_are_refused(data: bytes) -> None:
    with pytest.raises(IncompatibleSchema, match="key-value"):
        check_new([], Schema(SchemaType.KEY_VALUE, data), Strategy.FULL)


@pytest.mark.parametrize(
    "kind", [schema_type for schema_type in SchemaType if schema_type.name.startswith(("INT", "LOCAL", "DATE", "BOOL", "STR"))]
)
def test_primitive_types_have_one_version(kind: SchemaType) -> None:
    versions = history(Schema(kind))
    version = find(versions, Schema(kind, properties={"anything": "else"}))
    assert version is not None and version.version == 0
    assert not allowed(versions, Schema(SchemaType.DOUBLE), Strategy.FULL)


def test_json_definitions_are_avro_or_very_old() -> None:
    old = Schema(SchemaType.JSON, b'{"type": "object", "id": "urn:jsonschema:R", "properties": {}}')
    assert allowed([], old, Strategy.FULL)
    assert allowed(history(old), avro(field("a"), kind=SchemaType.JSON), Strategy.FULL)
    assert not allowed([], Schema(SchemaType.AVRO, old.data), Strategy.FULL)
    assert not allowed([], Schema(SchemaType.JSON, b"nonsense"), Strategy.FULL)


def test_bytes_are_no_schema() -> None:
    assert not has_schema(None) and not has_schema(Schema(SchemaType.NONE)) and not has_schema(Schema(SchemaType.AUTO_CONSUME))
    assert has_schema(OTHER)


@pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.FULL_TRANSITIVE])
def test_a_schema_is_parsed_once_however_many_versions_it_is_compared_with(
    strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one request with a large schema keeps a thread busy for a quarter of a minute."""
    parsed: list[bytes] = []

    def counted(data: bytes) -> Avro:
        parsed.append(data)
        return Avro(data)

    monkeypatch.setattr(comparison, "Avro", counted)
    versions = history(*(avro(field("a", default=number)) for number in range(20)))
    large = avro(field("a", default=99), field("b", default=0))
    check_consumer(versions, large, strategy)
    assert parsed.count(large.data) <= 2  # for its validity and form, and for its compatibility


def test_all_versions_share_one_budget_of_comparisons() -> None:
    """Each pair alone was allowed as many, so that a registration could take minutes."""

    def wide(letter: str) -> Schema:
        inner = [
            {
                "type": "record",
                "name": f"{letter}{n}",
                "fields": [field("x", {"type": "fixed", "name": f"{letter}F{n}", "size": 4})],
            }
            for n in range(150)
        ]
        return avro(field("u", inner))

    check_new(history(wide("A")), wide("A"), Strategy.FULL_TRANSITIVE)
    with pytest.raises(IncompatibleSchema, match="takes too long"):
        check_new(history(*[wide("A")] * 40), wide("A"), Strategy.FULL_TRANSITIVE)


def test_properties_and_names_count_as_what_a_topic_keeps() -> None:
    """A version of a few bytes carried 1 MiB of properties, and a topic might have a thousand of them."""
    schemas = [Schema(SchemaType.STRING, properties={"p": "x" * (1 << 20)})] * 4
    with pytest.raises(IncompatibleSchema, match="properties included"):
        check_new(history(*schemas), DEFAULTED, Strategy.ALWAYS_COMPATIBLE)
    for too_large in (
        Schema(SchemaType.STRING, bytes(1 << 19), {"p": "x" * (1 << 19)}),
        Schema(SchemaType.STRING, name="x" * (1 << 21)),
    ):
        with pytest.raises(IncompatibleSchema, match="with its name and properties"):
            check_new([], too_large, Strategy.FULL)


def test_versions_are_found_by_their_form_without_parsing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a producer parsed all that the topic had ever had."""
    parsed: list[bytes] = []

    def counted(data: bytes) -> Avro:
        parsed.append(data)
        return Avro(data)

    monkeypatch.setattr(comparison, "Avro", counted)
    versions: list[SchemaVersion] = []
    for number in range(50):
        following = avro(field("a", default=number))
        versions.append(registry.next_version(versions, following, number, "", Comparison()))
    parsed.clear()
    spaced = Schema(SchemaType.AVRO, avro(field("a", default=3)).data.replace(b",", b" ,  "))
    known = find(versions, spaced)
    assert known is not None and known.version == 3
    assert parsed == [spaced.data]
    without_forms = history(*(version.schema for version in versions))
    assert find(without_forms, spaced) == without_forms[3], "versions that were stored before"


def test_an_old_version_that_is_no_longer_valid_is_no_obstacle() -> None:
    broken = SchemaVersion(0, 0, Schema(SchemaType.AVRO, b"[" + b"1," * 20_000 + b"1]"))
    assert find([broken], ONE) is None
