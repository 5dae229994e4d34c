"""Limits of the fields of a struct: a field carries its `Limit` in its annotation.

    class NewKey(msgspec.Struct):
        name: Annotated[str, NAME]

One declaration is the type, the limit that requests are held against, the row of docs/limits.md and the bounds in the OpenAPI
document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from messaging.limits.model import Limit, violation

Row = tuple[str, str, Limit | None]  # attribute, name in JSON, limit


@cache
def hints_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The annotations of the fields, by attribute, with what `Annotated` adds to their types."""
    return get_type_hints(kind, include_extras=True)


@cache
def limits_of(kind: type[msgspec.Struct]) -> dict[str, Limit]:
    """By attribute, for those that have a limit."""
    hints = hints_of(kind)
    limits = {field.name: limit_in(hints[field.name]) for field in msgspec.structs.fields(kind)}
    return {name: limit for name, limit in limits.items() if limit is not None}


def limit_in(hint: Any) -> Limit | None:
    """That of the value itself, which may be one of several types; not that of what is in it."""
    if get_origin(hint) is Annotated:
        return next((extra for extra in hint.__metadata__ if isinstance(extra, Limit)), None) or limit_in(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        return next((limit for limit in map(limit_in, get_args(hint)) if limit is not None), None)
    return None


def structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """It, and those in its fields."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
        for inner in hints_of(hint).values():
            yield from structs_in(inner)
    for part in get_args(hint):
        yield from structs_in(part)


def rows_of(kinds: Iterable[type[msgspec.Struct]]) -> dict[str, Limit]:
    """Limits by ``Type.field``, as docs/limits.md has them."""
    return {f"{kind.__name__}.{name}": limit for kind in kinds for name, limit in limits_of(kind).items()}


@cache
def _rows(kind: type[msgspec.Struct]) -> tuple[Row, ...]:
    limits = limits_of(kind)
    return tuple((field.name, field.encode_name, limits.get(field.name)) for field in msgspec.structs.fields(kind))


def over_limit(value: msgspec.Struct) -> tuple[str, Limit] | None:
    """What is wrong with the first field over its limit, in this object or a nested one, and that limit; None if nothing is."""
    for attribute, name, limit in _rows(type(value)):
        content: Any = getattr(value, attribute)
        if content is None or content is msgspec.UNSET:
            continue
        if limit is not None and (wrong := violation(name, content, limit)) is not None:
            return wrong, limit
        for part in content if isinstance(content, list) else (content,):
            if isinstance(part, msgspec.Struct) and (inner := over_limit(part)) is not None:
                return inner
    return None


def check(value: msgspec.Struct) -> None:
    """Raises the error of the limit."""
    over = over_limit(value)
    if over is not None:
        wrong, limit = over
        raise limit.error(wrong)


def check_fields(kind: type[msgspec.Struct], given: Mapping[str, Any]) -> None:
    """Holds some values against the limits of the fields of a body. Raises the error of the limit."""
    for name, limit in limits_of(kind).items():
        if name in given and (wrong := violation(name, given[name], limit)) is not None:
            raise limit.error(wrong)
