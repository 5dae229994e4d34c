"""Which messages somebody looks for: by key, property, text, time and a value in what they hold. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from messaging.errors import InvalidValue
from messaging.payloads.paths import Path, parse_path, values_at

Comparison: TypeAlias = Literal["eq", "ne", "contains", "gt", "lt", "exists"]
COMPARISONS: tuple[Comparison, ...] = ("eq", "ne", "contains", "gt", "lt", "exists")
PIECE_BYTES = 256 << 10  # that are looked through at a time
_Compare: TypeAlias = Callable[[Any, str], bool]


class MessageFilter(NamedTuple):
    """All that are given must match. Times are of publishing, in milliseconds, [from, until); 0: open. `text`: of the payload as it
    was published, uncompressed; large and small letters differ. `path`: leads to values, one of which compares so with `value`.
    """

    key: str | None = None
    property_name: str = ""
    property_value: str | None = None
    text: bytes = b""
    path: Path = ()
    comparison: Comparison = "eq"
    value: str = ""
    from_ms: int = 0
    until_ms: int = 0

    def published_in_time(self, publish_time_ms: int) -> bool:
        return publish_time_ms >= self.from_ms and (not self.until_ms or publish_time_ms < self.until_ms)

    def names(self, key: str | None, properties: Mapping[str, str]) -> bool:
        """Whether what stands beside the payload matches."""
        if self.key is not None and key != self.key:
            return False
        if not self.property_name:
            return True
        value = properties.get(self.property_name)
        return value is not None and self.property_value in (None, value)

    def holds_text(self, payload: bytes) -> bool:
        return not self.text or _is_in(self.text, payload)

    def value_matches(self, decoded: Any) -> bool:
        compare = _COMPARISONS[self.comparison]
        return any(compare(value, self.value) for value in values_at(decoded, self.path))


def message_filter(
    *,
    key: str | None = None,
    property_name: str = "",
    property_value: str | None = None,
    text: str = "",
    path: str = "",
    comparison: str = "eq",
    value: str = "",
    from_ms: int = 0,
    until_ms: int = 0,
) -> MessageFilter:
    """Raises `InvalidValue`."""
    if comparison not in COMPARISONS:
        raise InvalidValue(f"the comparison {comparison[:20]!r} is unknown: use one of {', '.join(COMPARISONS)}")
    if until_ms and until_ms <= from_ms:
        raise InvalidValue(f"the end of the time, {until_ms}, is not after its beginning, {from_ms}")
    if comparison in ("gt", "lt") and _number(value) is None:
        raise InvalidValue(f"{value[:40]!r} is not a number: {comparison} compares numbers")
    return MessageFilter(
        key,
        property_name,
        property_value,
        text.encode("utf-8", "surrogatepass"),
        parse_path(path) if path else (),
        comparison,
        value,
        from_ms,
        until_ms,
    )


def _is_in(text: bytes, payload: bytes) -> bool:
    """In pieces: other threads, such as the one that serves everybody, wait for each."""
    return any(
        payload.find(text, begin, begin + PIECE_BYTES + len(text) - 1) >= 0 for begin in range(0, max(len(payload), 1), PIECE_BYTES)
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return ""  # no value of its own to compare
    return msgspec.json.encode(value).decode()


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value) if len(str(value)) < 400 else None
    except (ValueError, OverflowError):
        return None


def _equal(value: Any, wanted: str) -> bool:
    if isinstance(value, dict | list):
        return False
    if _text(value) == wanted:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    number = _number(wanted)
    return number is not None and value == number


def _beyond(value: Any, wanted: str, sign: int) -> bool:
    number, other = _number(value), _number(wanted)
    return number is not None and other is not None and (number - other) * sign > 0


_COMPARISONS: dict[str, _Compare] = {
    "eq": _equal,
    "ne": lambda value, wanted: not isinstance(value, dict | list) and not _equal(value, wanted),
    "contains": lambda value, wanted: wanted in _text(value),
    "gt": lambda value, wanted: _beyond(value, wanted, 1),
    "lt": lambda value, wanted: _beyond(value, wanted, -1),
    "exists": lambda value, wanted: True,
}
