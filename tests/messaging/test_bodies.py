"""Bodies: each error names the field, what is wrong and what to do; what may be written in two ways means the same."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from messaging.bodies import AS_SENT, Text, Time, convert, decode, one_of, sent_fields
from messaging.errors import InvalidValue
from messaging.limits.model import Limit


class Part(msgspec.Struct):
    size: int = 0


class Order(msgspec.Struct, kw_only=True):
    name: Annotated[Text, Limit("a test", bytes_max=10)]
    tags: Annotated[list[Text], Limit("a test", count_max=2)] | UnsetType = UNSET
    count: Annotated[int, Limit("a test", minimum=1, maximum=9)] = 1
    urgent: bool = False
    level: Literal["owner", "member"] = "owner"
    kind: Annotated[str, one_of(["a", "b"])] = "a"
    at: Time | None = None
    day: date | None = None
    key: Annotated[str, AS_SENT] = ""
    parts: list[Part] = []
    labels: dict[str, Text] = {}


class Camel(msgspec.Struct, rename="camel"):
    ledger_id: int
    mode: Literal["x", "y"] = "x"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "name is missing"),
    ({"name": 5}, "name must be a text, not a whole number"),
    ({"name": None}, "name must be a text, not null"),
    ({"name": ""}, "name is empty: give it a value"),
    ({"name": " \t"}, "name is empty: give it a value"),
    ({"name": "a\x00b"}, "name has a NUL character: leave it out"),
    ({"name": "x" * 11}, "name has 11 bytes; at most 10 are allowed: shorten it"),
    (
        {"name": "n", "colour": 1},
        "field 'colour' is unknown: use name, tags, count, urgent, level, kind, at, day, key, parts, labels",
    ),
    ({"name": "n", "tags": "t"}, "tags must be a list, not a text"),
    ({"name": "n", "tags": None}, "tags must be a list, not null"),
    ({"name": "n", "tags": ["a", " "]}, "tags[1] is empty: give it a value"),
    ({"name": "n", "tags": ["a\x00"]}, "tags[0] has a NUL character: leave it out"),
    ({"name": "n", "tags": ["a", "b", "c"]}, "tags has 3 elements; at most 2 are allowed: send fewer"),
    ({"name": "n", "count": "many"}, "count must be a whole number, not a text"),
    ({"name": "n", "count": 1.5}, "count must be a whole number, not a number"),
    ({"name": "n", "count": 10}, "count is 10; it must be 1 to 9"),
    ({"name": "n", "count": "10"}, "count is 10; it must be 1 to 9"),
    ({"name": "n", "urgent": []}, "urgent must be true or false, not a list"),
    ({"name": "n", "level": "boss"}, "level 'boss' is not valid: use owner or member"),
    ({"name": "n", "level": "x" * 1000}, f"level '{'x' * 40}' is not valid: use owner or member"),
    ({"name": "n", "kind": "c"}, "kind 'c' is not valid: use a or b"),
    ({"name": "n", "at": "tomorrow"}, "at is not a time: give one such as 2026-11-01T12:00:00Z"),
    ({"name": "n", "at": 10**15}, "at is not a time: give one such as 2026-11-01T12:00:00Z"),
    ({"name": "n", "at": "1893456000"}, "at is not a time: give one such as 2026-11-01T12:00:00Z"),
    ({"name": "n", "day": "2026-02-30"}, "day is not a day: give one such as 2026-11-01"),
    ({"name": "n", "parts": [{"size": {}}]}, "parts[0].size must be a whole number, not an object"),
    ({"name": "n", "labels": {"team": 5}}, "labels[...] must be a text, not a whole number"),
    ({"name": "n", "labels": {"a\x00": "b"}}, "a key of labels has a NUL character: leave it out"),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG, ids=[sentence[:40] for _, sentence in WRONG])
def test_a_malformed_body_is_refused_in_a_single_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        convert(given, Order)
    assert refused.value.message == sentence


def test_numbers_and_truth_values_may_be_in_quotes() -> None:
    order = convert({"name": "n", "count": "5", "urgent": "true"}, Order)
    assert (order.count, order.urgent) == (5, True)
    assert decode(b'{"ledgerId": "7"}', Camel).ledger_id == 7


def test_spaces_at_the_ends_of_a_text_are_left_out_unless_they_mean_something() -> None:
    order = convert({"name": " n ", "tags": [" a "], "labels": {"team ": " x "}, "key": " k "}, Order)
    assert (order.name, order.tags, order.labels, order.key) == ("n", ["a"], {"team ": "x"}, " k ")


def test_a_time_without_a_zone_is_utc() -> None:
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    for text in ("2026-11-01T12:00:00", "2026-11-01T12:00:00Z", "2026-11-01T13:00:00+01:00"):
        assert convert({"name": "n", "at": text}, Order).at == noon


def test_a_field_that_was_not_sent_is_told_from_one_that_was() -> None:
    assert "tags" not in sent_fields(convert({"name": "n"}, Order))
    assert sent_fields(convert({"name": "n", "tags": []}, Order))["tags"] == []


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"{", "the request body is not valid JSON: Input data was truncated"),
        (b"{}", "the request body is not valid: ledgerId is missing"),
        (b'{"ledgerId": []}', "the request body is not valid: ledgerId must be a whole number, not a list"),
        (b'{"ledgerId": 1, "mode": "z"}', "the request body is not valid: mode 'z' is not valid: use x or y"),
        (b"[1]", "the request body is not valid: it must be an object, not a list"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_with_the_field_as_it_was_sent(raw: bytes, sentence: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        decode(raw, Camel)
    assert refused.value.message == sentence


def test_fields_that_a_peer_of_another_release_sends_are_passed_over() -> None:
    assert decode(b'{"ledgerId": 1, "later": true}', Camel) == Camel(ledger_id=1)
