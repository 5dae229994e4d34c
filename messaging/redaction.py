"""What may be logged of a value: no secrets, and no more than a bounded amount of text, whoever sent it. Pure.

`loggable` turns any value into plain data. Fields that are named like a secret are replaced; whatever looks like a token, a private
key or a password in a URL is, wherever it stands in a text. A text is cut before it is searched, so that the work is bounded, and
searched a little further than it is shown, so that no secret escapes for being cut: each form is known by its beginning, and takes
everything up to its end or to the end of what is left. No pattern can begin again within what another try has skipped.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

REDACTED = "[redacted]"
FIELD_CHARS_MAX = 1024  # of one text
TRACE_CHARS_MAX = 32 << 10  # of a traceback, which is made of our own source
NESTED_CHARS_MAX = 4096  # of all texts in one field that is a mapping or a sequence
NESTED_ITEMS_MAX = 100
NESTED_LEVELS_MAX = 6
SEARCHED_BEYOND = 256  # characters: as many as the beginning of a secret needs to be known as one
_NUMBER_BITS_MAX = 256

_SECRET_WORDS = frozenset(
    {
        *("token", "tokens", "password", "passwords", "passphrase", "secret", "secrets", "authorization", "bearer", "jwt", "pem"),
        *("cookie", "cookies", "credential", "credentials"),
    }
)
_SECRET_PAIRS = (("private", "key"), ("signing", "key"), ("api", "key"), ("auth", "data"))
# As the last word: token_file, key_id, token_expires_ms say something about a secret and are none.
_NOT_THE_SECRET = frozenset(
    {"file", "files", "path", "id", "ids", "count", "name", "type", "kind", "s", "ms", "expires", "expired", "bytes"}
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def _patterns(password_ends: str) -> re.Pattern[str]:
    return re.compile(
        r"(?P<jwt>\beyJ[\w-]{8,}(?:\.[\w-]*){0,2})"
        r"|(?P<pem>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z))"
        rf"|(?<=://)(?P<user>[^\s/:@\"']*):(?P<password>[^\s/@\"']+)(?={password_ends})"
        r"|(?P<scheme>\b(?:Bearer|Basic)\s+)(?P<credential>[\w.~+/=-]{8,})",
        re.DOTALL | re.IGNORECASE,
    )


_IN_TEXT = _patterns("@")
_IN_CUT_TEXT = _patterns(r"@|\Z")  # the @ may have been cut off


def secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: ``password``, ``adminToken``, ``private_key``; not ``token_file``."""
    words = [word.lower() for word in _WORDS.findall(name[:FIELD_CHARS_MAX])]
    if not words or words[-1] in _NOT_THE_SECRET:
        return False
    return any(word in _SECRET_WORDS for word in words) or any(pair in itertools.pairwise(words) for pair in _SECRET_PAIRS)


def _replacement(match: re.Match[str]) -> str:
    if match["user"] is not None:
        return f"{match['user']}:{REDACTED}"
    return (match["scheme"] or "") + REDACTED


def redact_text(text: str, chars_max: int = FIELD_CHARS_MAX) -> str:
    """`text` without tokens, private keys and passwords in URLs; where it is longer than `chars_max`, its beginning."""
    if len(text) <= chars_max:
        return _IN_TEXT.sub(_replacement, text)
    searched = _IN_CUT_TEXT.sub(_replacement, text[: chars_max + SEARCHED_BEYOND])
    return f"{searched[:chars_max]}... ({len(text)} characters)"


def loggable(value: Any, name: str = "") -> Any:
    """Plain data for a log line: None, bool, numbers, texts, lists and dicts of them. `name`: of the field it stands in."""
    return _Cut(TRACE_CHARS_MAX if name == "exception" else FIELD_CHARS_MAX).of(value, name, 0)


class _Cut:
    """The making of one field: how much text may still come."""

    def __init__(self, text_chars_max: int) -> None:
        self.text_chars_max = text_chars_max
        self.chars_left = max(text_chars_max, NESTED_CHARS_MAX)
        self.items_left = NESTED_ITEMS_MAX

    def of(self, value: Any, name: str, level: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if name and secret_name(name):
            return REDACTED
        if isinstance(value, float):
            return value
        if isinstance(value, int):
            return value if value.bit_length() <= _NUMBER_BITS_MAX else f"a number of {value.bit_length()} bits"
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes | bytearray | memoryview):
            size, shown = len(value), bytes(value[: self.text_chars_max + SEARCHED_BEYOND + 1])
            text = self._text(shown.decode("utf-8", errors="replace"))
            return text if size <= self.text_chars_max else f"{text.partition('... (')[0]}... ({size} bytes)"
        if level == NESTED_LEVELS_MAX and isinstance(value, Mapping | list | tuple | set | frozenset):
            return "..."
        if isinstance(value, Mapping):
            return {self._text(str(key)): self.of(item, str(key), level + 1) for key, item in self._some(value.items())}
        if isinstance(value, list | tuple | set | frozenset):
            return self._sequence(list(itertools.islice(value, NESTED_ITEMS_MAX)), level)
        return self._text(_as_text(value))

    def _sequence(self, items: list[Any], level: int) -> list[Any]:
        # Header pairs, as ASGI has them: [(b"authorization", b"..."), ...]
        if len(items) == 2 and isinstance(items[0], str | bytes) and isinstance(items[1], str | bytes):
            key = items[0].decode("latin-1") if isinstance(items[0], bytes) else items[0]
            return [self.of(items[0], "", level + 1), self.of(items[1], key, level + 1)]
        return [self.of(item, "", level + 1) for item in self._some(items)]

    def _some(self, items: Any) -> Any:
        """As many as there is room for."""
        for item in items:
            if self.items_left <= 0 or self.chars_left <= 0:
                return
            self.items_left -= 1
            yield item

    def _text(self, text: str) -> str:
        shown = redact_text(text, max(0, min(self.text_chars_max, self.chars_left)))
        self.chars_left -= len(shown)
        return shown


def _as_text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # of a library's class, perhaps: a line is more than its worst field
        return f"a {type(value).__name__} that cannot be shown"
