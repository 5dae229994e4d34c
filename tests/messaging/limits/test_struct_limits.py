"""Each limit of a JSON field is enforced: one over it is refused by name, exactly at it is taken."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import msgspec
import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.methods import request_structs
from messaging.broker.http.websocket import frames, parameters
from messaging.limits import websocket
from messaging.limits.model import Limit
from messaging.limits.structs import TABLES, limits_of, over_limit, rows_of
from tenants.pulsar import bodies
from tests.support.limit_values import at_and_over

KINDS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "websocket": (
        frames.ProducerFrame,
        frames.ConsumerCommand,
        parameters.ProducerParameters,
        parameters.ConsumerParameters,
        parameters.ReaderParameters,
    ),
    "": (*bodies.OBJECTS, *request_structs()),
}


def kind_of(hint: Any) -> str:
    """text, number, list or map: what of the hint is not None."""
    for part in (hint, *get_args(hint)):
        origin = get_origin(part) or part
        if origin in (list, dict, str, int):
            return {list: "list", dict: "map", str: "text", int: "number"}[origin]
        for inner in get_args(part):
            if inner in (str, int):
                return {str: "text", int: "number"}[inner]
    return ""


def limit_of(table: str, kind: type[msgspec.Struct], name: str) -> Limit | None:
    rows = TABLES.get(table, {})
    return limits_of(kind).get(name) or rows.get(f"{kind.__name__}.{name}") or rows.get(name)


CASES = [
    (table, kind, field, what, at, over)
    for table, kinds in KINDS.items()
    for kind in kinds
    for field in msgspec.structs.fields(kind)
    if (limit := limit_of(table, kind, field.name)) is not None
    for what, at, over in at_and_over(limit, kind_of(field.type))
    if (limit.count_max or 0) <= 10_000 or what != "count"
]


def holding(kind: type[msgspec.Struct], name: str, value: Any) -> msgspec.Struct:
    """An object with this value, and something in every field that it must have."""
    must = {field.name: field.default for field in msgspec.structs.fields(kind) if field.required}
    return kind(**{**dict.fromkeys(must, None), name: value})


@pytest.mark.parametrize(
    ("table", "kind", "field", "what", "at", "over"),
    CASES,
    ids=[f"{case[0]}-{case[1].__name__}.{case[2].name}-{case[3]}" for case in CASES],
)
def test_a_value_over_its_limit_is_refused_and_exactly_at_it_is_not(
    table: str, kind: type[msgspec.Struct], field: Any, what: str, at: Any, over: Any
) -> None:
    assert over_limit(holding(kind, field.name, at), table) is None
    refused = over_limit(holding(kind, field.name, over), table)
    assert refused is not None and field.encode_name in refused[0]
    assert any(str(number) in refused[0] for number in refused[1][1:6] if number is not None)


def test_every_row_with_numbers_is_tried() -> None:
    tried = {f"{kind.__name__}.{field.name}" for _, kind, field, *_ in CASES}
    rows = websocket.WEBSOCKET | rows_of([*bodies.OBJECTS, *request_structs()])
    for name, limit in rows.items():
        numbers = any(number is not None for number in limit[1:6])
        large = (limit.count_max or 0) > 10_000
        assert (
            not numbers or large or name in ("FeedChange.state", "PolicyChange.state", "MessageId.batch_index") or name in tried
        ), name


def test_fields_of_a_nested_object_are_limited_too() -> None:
    feed = FeedApply(from_version=0, to_version=1, changes=[FeedChange(version=1, kind="k" * 65, key="", state=None)])
    over = over_limit(feed)
    assert over is not None and over[0] == "kind has 65 bytes; at most 64 are allowed: shorten it"
