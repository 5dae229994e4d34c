"""Values of JSON are counted without parsing it."""

from __future__ import annotations

import json
import time
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.errors import InvalidValue
from messaging.limits import json_values
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


@given(JSON, st.sampled_from([None, 1]), st.booleans(), st.sampled_from([1, 2, 7, 1 << 16]))
def test_the_count_is_that_of_the_parsed_values(value: Any, indent: int | None, ascii_only: bool, piece_bytes: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    values = count(value)
    with patch.object(json_values, "PIECE_BYTES", piece_bytes):
        assert not has_more_values(text, values)
        assert has_more_values(text, values - 1)


@given(st.binary(max_size=60), st.integers(1, 20))
def test_anything_may_be_counted(text: bytes, values_max: int) -> None:
    has_more_values(text, values_max)


@pytest.mark.parametrize("begin", [b'{"payload":"', b'"' * 3, b"["])
def test_texts_without_an_end_are_looked_at_once(begin: bytes) -> None:
    """20 KB of escaped quotes took six seconds of whoever counted, and four times that for twice as much."""
    text = begin + b'\\"' * 200_000 + b"," * 20_000
    started = time.thread_time()
    has_more_values(text, 10_000)
    assert time.thread_time() - started < 1


def test_too_many_are_refused_with_the_limit() -> None:
    check_values(b"[" + b"0," * 9_998 + b"0]")
    with pytest.raises(InvalidValue, match="more than 10000 values"):
        check_values(b"[" + b"0," * 9_999 + b"0]")
