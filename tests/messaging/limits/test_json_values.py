"""Values of JSON are counted without parsing it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.errors import InvalidValue
from messaging.limits.json_values import check_values, has_more_values

TEXTS = st.text(alphabet='ab",[]{}:\\ \n/é', max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=40,
)


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_the_count_is_that_of_the_parsed_values(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    values = count(value)
    assert not has_more_values(text, values)
    assert has_more_values(text, values - 1)


@given(st.binary(max_size=60), st.integers(1, 20))
def test_anything_may_be_counted(text: bytes, values_max: int) -> None:
    has_more_values(text, values_max)


def test_too_many_are_refused_with_the_limit() -> None:
    check_values(b"[" + b"0," * 9_998 + b"0]")
    with pytest.raises(InvalidValue, match="more than 10000 values"):
        check_values(b"[" + b"0," * 9_999 + b"0]")
