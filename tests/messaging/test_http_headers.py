from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.http_headers import FIELDS_BYTES_MAX, FIELDS_MAX, OMITTED, header_fields, header_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("plain, with %0D and signs!", "plain, with %0D and signs!"),
        ("a\r\nSet-Cookie: x=1", "a%0D%0ASet-Cookie: x=1"),
        ("\0\t\x7f", "%00%09%7F"),
        ("grün", "gr%C3%BCn"),
        (" both ends ", "%20both ends%20"),
        ("  ", "%20%20"),
    ],
)
def test_a_value_is_one_line_of_ascii(text: str, value: str) -> None:
    assert header_value(text) == value


def test_fields_that_cannot_be_headers_are_left_out_and_counted() -> None:
    fields = {"X-A": "1", "X-\r\nB": "2", "X C": "3", "X:D": "4", "X-ä": "5", "": "6", "X-Long": "x" * 10_000}
    assert header_fields(fields) == {"X-A": "1", OMITTED: "6"}
    assert header_fields({"X-A": "1"}) == {"X-A": "1"}


def test_no_client_has_to_refuse_the_whole_answer() -> None:
    fields = header_fields({f"X-{index}": "y" * 1000 for index in range(1000)})
    assert sum(len(name) + len(value) for name, value in fields.items()) < FIELDS_BYTES_MAX + 100
    assert len(header_fields({f"X-{index}": "" for index in range(1000)})) == FIELDS_MAX + 1


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=80))
def test_a_server_can_send_whatever_comes_out(fields: dict[str, str]) -> None:
    h11.Response(status_code=200, headers=list(header_fields(fields).items()))
