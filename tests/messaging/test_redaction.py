"""What of a value may stand in a log, and that the search for secrets in it is bounded whoever wrote it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging import redaction
from messaging.redaction import FIELD_CHARS_MAX, NESTED_CHARS_MAX, NESTED_ITEMS_MAX, REDACTED, loggable, redact_text, secret_name


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("token", True),
        ("admin_token", True),
        ("adminToken", True),
        ("HTTP_AUTHORIZATION", True),
        ("Set-Cookie", True),
        ("private_key", True),
        ("signing_key_pem", True),
        ("token_file", False),
        ("token_expires_ms", False),
        ("key_id", False),
        ("key", False),
        ("topic", False),
        ("tokens_count", False),
        ("passed", False),
    ],
)
def test_which_names_announce_a_secret(name: str, secret: bool) -> None:
    assert secret_name(name) is secret


@given(st.text() | st.binary().map(repr))
def test_text_without_a_secret_is_left_alone(text: str) -> None:
    if (
        "eyJ" not in text
        and "://" not in text
        and "PRIVATE" not in text
        and "earer" not in text.lower()
        and "asic" not in text.lower()
    ):
        assert redact_text(text) == text


SECRETS = {
    "token": "eyJhbGciOiJFUzI1NiJ9." + "p4yl0ad" * 300 + ".s1gn4ture",
    "token without a payload yet": "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9" + "h34d3r" * 300,
    "private key": "-----BEGIN RSA PRIVATE KEY-----\n" + "k3y" * 700 + "\n-----END RSA PRIVATE KEY-----",
    "password": "postgresql://magnetar:" + "hunter22" * 200 + "@db:5432/x",
    "bearer": "Bearer " + "cr3d3nt1al" * 200,
    "basic": "Authorization: Basic " + "YWRtaW46" * 200,
}
SHOWN = {"token": "p4yl0ad", "token without a payload yet": "h34d3r", "private key": "k3yk3y", "password": "hunter22"}


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("before", [0, 10, FIELD_CHARS_MAX - 60, FIELD_CHARS_MAX - 40, FIELD_CHARS_MAX - 20, FIELD_CHARS_MAX - 1])
def test_a_secret_that_the_cut_goes_through_is_still_known(name: str, before: int) -> None:
    secret = SECRETS[name]
    body = SHOWN.get(name, secret.split()[-1][:8])
    for text in ("x " * (before // 2) + secret, "x " * (before // 2) + secret + " and on" * 500):
        assert body not in redact_text(text)
        assert body not in str(loggable({"nested": [text, text.encode()]}))


class Counted:
    """A pattern that says how much it was given to search."""

    def __init__(self, pattern: re.Pattern[str], searched: list[int]) -> None:
        self.pattern = pattern
        self.searched = searched

    def sub(self, replacement: Any, text: str) -> str:
        self.searched.append(len(text))
        return self.pattern.sub(replacement, text)


def test_no_more_is_searched_than_is_shown_and_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is bounded because the input is: a megabyte of what patterns like least costs as much as a kilobyte."""
    searched: list[int] = []
    for name in ("_IN_TEXT", "_IN_CUT_TEXT"):
        monkeypatch.setattr(redaction, name, Counted(getattr(redaction, name), searched))
    for text in ("eyJ" * 350_000, "eyJ-" * 250_000, "-----BEGIN " * 100_000, "://a:" * 200_000, "Bearer  " * 120_000):
        loggable(text, "client")
        loggable([text] * 1000)
        loggable({text: {text: text}})
    assert max(searched) <= FIELD_CHARS_MAX + redaction.SEARCHED_BEYOND
    assert len(searched) <= 5 * (1 + NESTED_ITEMS_MAX + 4)


def test_nested_values_are_bounded_too() -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = [deep, 1, 2]
    assert len(str(loggable(deep))) < 200
    assert len(str(loggable(["y" * 5000] * 1000))) < NESTED_CHARS_MAX + 200
    assert len(loggable(list(range(100_000)))) == NESTED_ITEMS_MAX
    assert loggable(2**100_000) == "a number of 100001 bits"


def test_a_value_that_cannot_be_shown_does_not_break_the_line() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert loggable(Broken()) == "a Broken that cannot be shown"
    assert loggable({"password": "p", "pairs": [("token", "t"), (b"cookie", b"c")], "secret": True, "ms": 0.5}) == {
        "password": REDACTED,
        "pairs": [["token", REDACTED], ["cookie", REDACTED]],
        "secret": True,
        "ms": 0.5,
    }
