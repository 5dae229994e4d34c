"""Which schema may follow which: the compatibility strategies, and how two schemas of a type are compared."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from messaging.broker.core.schemas import avro, key_value, protobuf_native
from messaging.broker.core.schemas.avro import why_unreadable
from messaging.broker.core.schemas.comparison import Comparison
from messaging.broker.core.schemas.model import AVRO_BASED, Schema, SchemaType


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


def why_bad_default(schema: Schema, comparison: Comparison) -> str:
    """Why `schema`, because of a default, may not follow others under any strategy; "" if it may. Raises `SchemaError`."""
    definition = comparison.definition(schema) if schema.type in AVRO_BASED else None
    return "" if definition is None else avro.why_bad_default(definition, comparison.budget)


def why_incompatible(strategy: Strategy, new: Schema, earlier: list[Schema], comparison: Comparison) -> str:
    """Why `new` may not follow `earlier` (oldest first, at least one); "" if it may. Raises `SchemaError` for an invalid schema."""
    strategy = DEFAULT if strategy is Strategy.UNDEFINED else strategy
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return ""
    if strategy is Strategy.ALWAYS_INCOMPATIBLE:
        return "the compatibility strategy is ALWAYS_INCOMPATIBLE: no new version is allowed"
    rule = RULES[strategy]
    for older in reversed(earlier) if rule.transitive else earlier[-1:]:
        why = _why_pair(rule, new, older, comparison)
        if why:
            return f"{why} (strategy {strategy})"
    return ""


def _why_pair(rule: Rule, new: Schema, older: Schema, comparison: Comparison) -> str:
    if new.type is not older.type:
        return f"the topic's schema is {older.type.name}, the new one is {new.type.name}"
    if new.type is SchemaType.KEY_VALUE:
        return _why_pair_of_pairs(rule, new, older, comparison)
    if new.type is SchemaType.PROTOBUF_NATIVE:
        now, before = protobuf_native.root_message(new.data), protobuf_native.root_message(older.data)
        return "" if now == before else f"the root message was {before}, and {now} in the new schema"
    if new.type not in AVRO_BASED:
        return ""
    now_avro, before_avro = comparison.definition(new), comparison.definition(older)
    if now_avro is None or before_avro is None:
        return ""
    if rule.backward and (why := why_unreadable(now_avro, before_avro, comparison.budget)):
        return f"the new schema cannot read existing data: {why}"
    if rule.forward and (why := why_unreadable(before_avro, now_avro, comparison.budget)):
        return f"existing readers cannot read data of the new schema: {why}"
    return ""


def _why_pair_of_pairs(rule: Rule, new: Schema, older: Schema, comparison: Comparison) -> str:
    for which, mine, theirs in zip(("key", "value"), key_value.parts(new), key_value.parts(older), strict=True):
        if why := _why_pair(rule, mine, theirs, comparison):
            return f"{which}: {why}"
    return ""
