"""Which messages somebody looks for."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.errors import InvalidValue
from messaging.payloads.filters import PIECE_BYTES, message_filter
from messaging.payloads.paths import LOOKED_AT_MAX, parse_path, values_at

ORDER: Any = {
    "id": 4711,
    "who": {"name": "Ada", "tags": ["a", "b"]},
    "lines": [{"sku": "x"}, {"sku": "y"}],
    "odd name": True,
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$.id", [4711]),
        ("id", [4711]),
        ("$.who.tags[1]", ["b"]),
        ("$.lines[*].sku", ["x", "y"]),
        ("lines.*.sku", ["x", "y"]),
        ("$['odd name']", [True]),
        ("$.who.*", ["Ada", ["a", "b"]]),
        ("$.none", [None]),
        ("$.absent.deeper", []),
        ("$.lines[7]", []),
        ("$.id.deeper", []),
    ],
)
def test_a_path_leads_to_values(path: str, values: list[Any]) -> None:
    assert list(values_at(ORDER, parse_path(path))) == values


@pytest.mark.parametrize("path", ["$", "", "$..id", "$.a[", "$.a[-1]", "a..b", ".".join("a" * 40)])
def test_a_path_that_is_not_understood_is_refused(path: str) -> None:
    with pytest.raises(InvalidValue, match=r"path|steps"):
        parse_path(path)


def test_a_path_looks_at_so_many_values() -> None:
    wide = [[0] * 200] * 200
    assert len(list(values_at(wide, parse_path("*.*")))) <= LOOKED_AT_MAX


@pytest.mark.parametrize(
    ("path", "comparison", "value", "matches"),
    [
        ("id", "eq", "4711", True),
        ("id", "eq", "4711.0", True),
        ("id", "eq", "471", False),
        ("id", "ne", "471", True),
        ("id", "gt", "4710", True),
        ("id", "lt", "4711", False),
        ("id", "contains", "71", True),
        ("who.name", "eq", "Ada", True),
        ("who.name", "gt", "1", False),
        ("who", "eq", "", False),
        ("who", "exists", "", True),
        ("none", "eq", "null", True),
        ("['odd name']", "eq", "true", True),
        ("['odd name']", "gt", "0", False),
        ("lines[*].sku", "eq", "y", True),
        ("absent", "ne", "x", False),
    ],
)
def test_values_are_compared(path: str, comparison: str, value: str, matches: bool) -> None:
    wanted = message_filter(path=path, comparison=comparison, value=value)
    assert wanted.value_matches(ORDER) is matches


def test_key_property_time_and_text() -> None:
    wanted = message_filter(key="k", property_name="a", property_value="1", text="ü", from_ms=5, until_ms=7)
    assert wanted.names("k", {"a": "1", "b": "2"})
    assert not wanted.names(None, {"a": "1"}) and not wanted.names("k", {"a": "2"}) and not wanted.names("k", {})
    assert message_filter(property_name="a").names(None, {"a": "anything"})
    assert message_filter(key="").names("", {}) and not message_filter(key="").names(None, {})
    assert [wanted.published_in_time(at) for at in (4, 5, 6, 7)] == [False, True, True, False]
    assert wanted.holds_text("grün".encode()) and not wanted.holds_text(b"gruen")


@pytest.mark.parametrize(
    "given", [{"comparison": "like"}, {"from_ms": 7, "until_ms": 7}, {"path": "a", "comparison": "gt", "value": "much"}]
)
def test_a_filter_that_makes_no_sense_is_refused(given: Any) -> None:
    with pytest.raises(InvalidValue):
        message_filter(**given)


def test_text_is_found_wherever_it_lies_in_a_large_payload() -> None:
    wanted = message_filter(text="needle")
    for at in (0, PIECE_BYTES - 6, PIECE_BYTES - 3, PIECE_BYTES, 2 * PIECE_BYTES - 1):
        payload = bytes(at) + b"needle" + bytes(10)
        assert wanted.holds_text(payload), at
    assert not wanted.holds_text(bytes(2 * PIECE_BYTES)) and not wanted.holds_text(b"")
