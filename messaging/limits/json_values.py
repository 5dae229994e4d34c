"""Limits the number of values in JSON before it is parsed.

Parsing holds Python's lock, and each value becomes an object: 1 MiB of small lists is half a million of them, and nothing else runs
for as long as they are made and freed. Bytes are counted at some GB/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from messaging.errors import InvalidValue
from messaging.limits.rest import BODY_VALUES_MAX

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)  # possessive: what has no end is given up at once
_WHITESPACE = b" \t\r\n"
_SEPARATORS = b",", b"[", b"{"
_DELIMITERS_A_VALUE = 4  # quotes around a key and a text
PIECE_BYTES = 64 << 10  # looked at at a time: what has far too many values is known by its beginning


def has_more_values(text: str | bytes, values_max: int) -> bool:
    """Whether JSON, as a text or in UTF-8, has more values than that, each element, member, list and object counted once. What is
    no valid JSON may pass: parsing it takes no longer."""
    if len(text) < 2 * values_max:
        return False  # each but the first takes at least two bytes
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    if 1 + sum(_count_up_to(text, separator, values_max) for separator in _SEPARATORS) <= values_max:
        return False  # even if all of them separate values, instead of being part of a text
    if text.count(b'"') - text.count(b'\\"') > _DELIMITERS_A_VALUE * values_max:
        return True
    count = 1
    for begin, end in _between_texts(text):
        opened = b""  # a list or an object, of which the next piece says whether it is empty
        for first in range(begin, end, PIECE_BYTES):
            bare = opened + text[first : min(first + PIECE_BYTES, end)].translate(None, _WHITESPACE)
            opened = bare[-1:] if bare.endswith((b"[", b"{")) else b""
            count += sum(map(bare.count, _SEPARATORS)) - bare.count(b"[]") - bare.count(b"{}") - len(opened)
            if count > values_max:
                return True
        count += len(opened)
    return count > values_max


def _between_texts(text: bytes) -> Iterator[tuple[int, int]]:
    """Ends at a text without an end: no parser comes further. Each byte is looked at once, whatever the texts hold."""
    position = 0
    while (begin := text.find(b'"', position)) >= 0:
        yield position, begin
        match = _STRING.match(text, begin)
        if match is None:
            return
        position = match.end()
    yield position, len(text)


def _count_up_to(text: bytes, what: bytes, count_max: int) -> int:
    """As `bytes.count`, many times as fast where there are few."""
    count, at = 0, text.find(what)
    while at >= 0 and count < count_max:
        count, at = count + 1, text.find(what, at + 1)
    return count


def check_values(text: str | bytes, what: str = "the body", values_max: int = BODY_VALUES_MAX) -> None:
    """Raises `InvalidValue`."""
    if has_more_values(text, values_max):
        raise InvalidValue(f"{what} has more than {values_max} values in its objects and lists: send fewer")
