"""Limits the number of values in JSON before it is parsed.

Parsing holds Python's lock, and each value becomes an object: 1 MiB of small lists is half a million of them, and nothing else runs
for as long as they are made and freed. Bytes are counted at some GB/s.
"""

from __future__ import annotations

import re

from messaging.errors import InvalidValue
from messaging.limits.rest import BODY_VALUES_MAX

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_WHITESPACE = b" \t\r\n"
_DELIMITERS_A_VALUE = 4  # quotes around a key and a text


def has_more_values(text: str | bytes, values_max: int) -> bool:
    """Whether JSON, as a text or in UTF-8, has more values than that, each element, member, list and object counted once. What is
    no valid JSON may pass: parsing it takes no longer."""
    if len(text) < 2 * values_max:
        return False  # each but the first takes at least two bytes
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    if _separators(text) <= values_max:
        return False  # even if all of them separate values, instead of being part of a text
    if text.count(b'"') - text.count(b'\\"') > _DELIMITERS_A_VALUE * values_max:
        return True
    bare = _STRING.sub(b'"', text).translate(None, _WHITESPACE)
    return _separators(bare) - bare.count(b"[]") - bare.count(b"{}") > values_max


def check_values(text: str | bytes, what: str = "the body", values_max: int = BODY_VALUES_MAX) -> None:
    """Raises `InvalidValue`."""
    if has_more_values(text, values_max):
        raise InvalidValue(f"{what} has more than {values_max} values in its objects and lists: send fewer")


def _separators(text: bytes) -> int:
    """As many as there are values at most: one for the whole, one after each comma, the first of each list and object."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")
