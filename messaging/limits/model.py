"""A row of the limits table, and the comparison of values with it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from messaging.errors import InvalidValue, MagnetarError

SHOWN_CHARACTERS = 40  # of a refused value, in the error


class Limit(NamedTuple):
    """`why` is the reason for the limits. A limit that is None does not apply to the field.

    For a list or a map, `bytes_max` applies to each text in it and `total_bytes_max` to all of them together. `setting` names the
    setting that contains the limit, if an operator can change it. `error` is the error for a request over the limit.
    """

    why: str
    bytes_max: int | None = None  # of a text, in UTF-8, or of bytes
    count_max: int | None = None  # of the elements of a list, or the pairs of a map
    total_bytes_max: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    setting: str = ""
    error: type[MagnetarError] = InvalidValue


def violation(field: str, value: object, limit: Limit) -> str | None:
    """What is wrong with `value`, with its name, size and limit, or None. The schema has already checked its type."""
    if isinstance(value, str | bytes):
        return _text(field, value, limit)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _number(field, value, limit)
    if isinstance(value, Mapping):
        return _pairs(field, value, limit)
    if isinstance(value, list | tuple | set | frozenset):
        return _elements(field, list(value), limit)
    return None


def check(field: str, value: object, limit: Limit) -> None:
    """Raises the error of the limit."""
    wrong = violation(field, value, limit)
    if wrong is not None:
        raise limit.error(wrong)


def size_bytes(value: object) -> int:
    """Size of a text in UTF-8 (lone surrogates, which JSON allows, count as three bytes), of bytes, or of a container's
    contents."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(size_bytes(key) + size_bytes(item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return sum(map(size_bytes, value))
    return 0


def too_long(field: str, size: int, limit_bytes: int) -> str:
    return f"{field} has {size} bytes; at most {limit_bytes} are allowed: shorten it"


def too_many(field: str, count: int, count_max: int) -> str:
    return f"{field} has {count} elements; at most {count_max} are allowed: send fewer"


def too_large(field: str, size: int, limit_bytes: int) -> str:
    return f"{field} has {size} bytes in total; at most {limit_bytes} are allowed: send less"


def _text(field: str, value: str | bytes, limit: Limit) -> str | None:
    if limit.bytes_max is not None and 4 * len(value) > limit.bytes_max and (size := size_bytes(value)) > limit.bytes_max:
        return too_long(field, size, limit.bytes_max)
    return None


def _number(field: str, value: int | float, limit: Limit) -> str | None:
    low, high = limit.minimum, limit.maximum
    if (low is None or value >= low) and (high is None or value <= high):
        return None
    short = isinstance(value, float) or abs(value) < 1 << 70
    shown = str(value) if short else f"a number of {len(f'{value:x}') * 4} bits"
    bounds = f"{low} to {high}" if low is not None and high is not None else f"at most {high}" if low is None else f"at least {low}"
    return f"{field} is {shown}; it must be {bounds}"


def _pairs(field: str, value: Mapping[object, object], limit: Limit) -> str | None:
    if limit.count_max is not None and len(value) > limit.count_max:
        return too_many(field, len(value), limit.count_max)
    for key, item in value.items():
        name = f"{field}[{str(key)[:SHOWN_CHARACTERS]!r}]"
        wrong = _text(f"a key of {field}", key, limit) if isinstance(key, str | bytes) else None
        wrong = wrong or (_text(name, item, limit) if isinstance(item, str | bytes) else None)
        if wrong is not None:
            return wrong
    return _total(field, value, limit)


def _elements(field: str, value: list[object], limit: Limit) -> str | None:
    if limit.count_max is not None and len(value) > limit.count_max:
        return too_many(field, len(value), limit.count_max)
    for index, element in enumerate(value):
        wrong = _text(f"{field}[{index}]", element, limit) if isinstance(element, str | bytes) else None
        if wrong is not None:
            return wrong
    return _total(field, value, limit)


def _total(field: str, value: object, limit: Limit) -> str | None:
    if limit.total_bytes_max is not None and (size := size_bytes(value)) > limit.total_bytes_max:
        return too_large(field, size, limit.total_bytes_max)
    return None
