"""Each limit of a JSON field is enforced: one over it is refused by name, exactly at it is taken."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import msgspec
import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.adminrpc.methods import request_structs
from messaging.broker.http.websocket.frames import FRAMES
from messaging.broker.http.websocket.parameters import PARAMETERS
from messaging.limits.model import Limit, violation
from messaging.limits.structs import limits_of, over_limit, rows_of
from tenants.pulsar import bodies
from tests.support.limit_values import at_and_over

KINDS: tuple[type[msgspec.Struct], ...] = (*FRAMES, *PARAMETERS, *bodies.OBJECTS, *request_structs())


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


CASES = [
    (kind, field, what, at, over)
    for kind in KINDS
    for field in msgspec.structs.fields(kind)
    if (limit := limits_of(kind).get(field.name)) is not None
    for what, at, over in at_and_over(limit, kind_of(field.type), 10_000)
]


def holding(kind: type[msgspec.Struct], name: str, value: Any) -> msgspec.Struct:
    """An object with this value, and something in every field that it must have."""
    must = {field.name: field.default for field in msgspec.structs.fields(kind) if field.required}
    return kind(**{**dict.fromkeys(must, None), name: value})


@pytest.mark.parametrize(
    ("kind", "field", "what", "at", "over"), CASES, ids=[f"{case[0].__name__}.{case[1].name}-{case[2]}" for case in CASES]
)
def test_a_value_over_its_limit_is_refused_and_exactly_at_it_is_not(
    kind: type[msgspec.Struct], field: Any, what: str, at: Any, over: Any
) -> None:
    assert over_limit(holding(kind, field.name, at)) is None
    refused = over_limit(holding(kind, field.name, over))
    assert refused is not None and field.encode_name in refused[0]
    assert any(str(number) in refused[0] for number in refused[1][1:6] if number is not None)


def test_every_row_with_numbers_is_tried() -> None:
    tried = {f"{kind.__name__}.{field.name}" for kind, field, *_ in CASES}
    for name, limit in rows_of(KINDS).items():
        numbers = any(number is not None for number in limit[1:6])
        large = (limit.count_max or 0) > 10_000
        assert not numbers or large or name == "FeedChange.state" or name in tried, name


def test_fields_of_a_nested_object_are_limited_too() -> None:
    feed = FeedApply(from_version=0, to_version=1, changes=[FeedChange(version=1, kind="k" * 65, key="", state=None)])
    over = over_limit(feed)
    assert over is not None and over[0] == "kind has 65 bytes; at most 64 are allowed: shorten it"


@pytest.mark.parametrize("value", [1e308, -1e308, 10**400, 2**70, -(2**70)])
def test_a_number_far_beyond_its_limit_is_refused_like_any_other(value: float) -> None:
    """A whole number that came as 1e308 answered 500: its bits were asked for."""
    refusal = violation("count", value, Limit("it is counted", minimum=0, maximum=10))
    assert refusal is not None and "must be 0 to 10" in refusal and len(refusal) < 400
