"""Which schema may follow which: the compatibility strategies, and how two schemas of a type are compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from messaging.broker.core.schemas import avro, key_value, protobuf_native
from messaging.broker.core.schemas.avro import Avro, Budget, why_unreadable
from messaging.broker.core.schemas.model import AVRO_BASED, Schema, SchemaError, SchemaType

Parse = Callable[[bytes], Avro]
PARSED_KEPT = 4  # key and value of two schemas


class Strategy(StrEnum):
    UNDEFINED = "UNDEFINED"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class Rule(NamedTuple):
    """`backward`: the new schema must read data of earlier ones. `forward`: earlier ones must read data of the new one.
    `transitive`: all earlier ones count, not only the latest."""

    backward: bool
    forward: bool
    transitive: bool = False


DEFAULT = Strategy.FULL  # what UNDEFINED means, as in Pulsar
RULES: dict[Strategy, Rule] = {
    Strategy.BACKWARD: Rule(backward=True, forward=False),
    Strategy.FORWARD: Rule(backward=False, forward=True),
    Strategy.FULL: Rule(backward=True, forward=True),
    Strategy.BACKWARD_TRANSITIVE: Rule(backward=True, forward=False, transitive=True),
    Strategy.FORWARD_TRANSITIVE: Rule(backward=False, forward=True, transitive=True),
    Strategy.FULL_TRANSITIVE: Rule(backward=True, forward=True, transitive=True),
}


def check_valid(schema: Schema) -> None:
    """Raises `SchemaError` if `schema` is not a valid one of its type."""
    if schema.type in AVRO_BASED:
        if not _is_json_schema(schema) and isinstance(Avro(schema.data).root, list) and schema.type is SchemaType.AVRO:
            raise SchemaError("an AVRO schema that is a union is not supported: put it into a record")
    elif schema.type is SchemaType.PROTOBUF_NATIVE:
        protobuf_native.root_message(schema.data)
    elif schema.type is SchemaType.KEY_VALUE:
        for part in key_value.parts(schema):
            check_valid(part)


def parse_once() -> Parse:
    """For comparing one schema with many: it is parsed once, whatever the number of the others."""
    return lru_cache(PARSED_KEPT)(Avro)


def same(one: Schema, other: Schema, parse: Parse = Avro) -> bool:
    """Whether both are the same schema, so that a client gets the version that exists."""
    if one.type is not other.type:
        return False
    if one.data == other.data:
        return one.type is not SchemaType.KEY_VALUE or _same_parts(one, other, parse)
    if one.type in AVRO_BASED and not (_is_json_schema(one) or _is_json_schema(other)):
        return parse(one.data) == parse(other.data)
    return one.type is SchemaType.KEY_VALUE and _same_parts(one, other, parse)


def _same_parts(one: Schema, other: Schema, parse: Parse) -> bool:
    return all(same(mine, theirs, parse) for mine, theirs in zip(key_value.parts(one), key_value.parts(other), strict=True))


def why_bad_default(schema: Schema) -> str:
    """Why `schema`, because of a default, may not follow others under any strategy; "" if it may. Raises `SchemaError`."""
    if schema.type not in AVRO_BASED or _is_json_schema(schema):
        return ""
    return avro.why_bad_default(Avro(schema.data), Budget())


def why_incompatible(strategy: Strategy, new: Schema, earlier: list[Schema]) -> str:
    """Why `new` may not follow `earlier` (oldest first, at least one); "" if it may. Raises `SchemaError` for an invalid schema."""
    strategy = DEFAULT if strategy is Strategy.UNDEFINED else strategy
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return ""
    if strategy is Strategy.ALWAYS_INCOMPATIBLE:
        return "the compatibility strategy is ALWAYS_INCOMPATIBLE: no new version is allowed"
    rule, parse, budget = RULES[strategy], parse_once(), Budget()
    for older in reversed(earlier) if rule.transitive else earlier[-1:]:
        why = _why_pair(rule, new, older, parse, budget)
        if why:
            return f"{why} (strategy {strategy})"
    return ""


def _why_pair(rule: Rule, new: Schema, older: Schema, parse: Parse, budget: Budget) -> str:
    if new.type is not older.type:
        return f"the topic's schema is {older.type.name}, the new one is {new.type.name}"
    if new.type is SchemaType.KEY_VALUE:
        return _why_pair_of_pairs(rule, new, older, parse, budget)
    if new.type is SchemaType.PROTOBUF_NATIVE:
        now, before = protobuf_native.root_message(new.data), protobuf_native.root_message(older.data)
        return "" if now == before else f"the root message was {before}, and {now} in the new schema"
    if new.type not in AVRO_BASED or _is_json_schema(new) or _is_json_schema(older):
        return ""
    now_avro, before_avro = parse(new.data), parse(older.data)
    if rule.backward and (why := why_unreadable(now_avro, before_avro, budget)):
        return f"the new schema cannot read existing data: {why}"
    if rule.forward and (why := why_unreadable(before_avro, now_avro, budget)):
        return f"existing readers cannot read data of the new schema: {why}"
    return ""


def _why_pair_of_pairs(rule: Rule, new: Schema, older: Schema, parse: Parse, budget: Budget) -> str:
    for which, mine, theirs in zip(("key", "value"), key_value.parts(new), key_value.parts(older), strict=True):
        if why := _why_pair(rule, mine, theirs, parse, budget):
            return f"{which}: {why}"
    return ""


def _is_json_schema(schema: Schema) -> bool:
    """A JSON Schema document instead of an Avro definition, as Java clients of 2018 sent it: it is stored and not compared."""
    if schema.type is not SchemaType.JSON:
        return False
    try:
        document = json.loads(schema.data)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("type") == "object"
