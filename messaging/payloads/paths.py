"""Paths to values in decoded payloads, a small part of JSONPath: ``$.order.items[*].sku``, ``order.id``, ``$['odd name'][0]``.

``*`` stands for every element of a list and every member of an object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from messaging.errors import InvalidValue

STEPS_MAX = 32
LOOKED_AT_MAX = 10_000  # values that are looked at for one path
ANY = "*"
_STEP = re.compile(r"""\.?([^.\[\]'"*\s][^.\[\]'"*]*)|\.?(\*)|\[(\*)\]|\[(\d{1,9})\]|\['([^']{1,200})'\]|\["([^"]{1,200})"\]""")


class Every:
    """Every element or member."""

    def __repr__(self) -> str:
        return ANY


EVERY = Every()
Step: TypeAlias = str | int | Every
Path: TypeAlias = tuple[Step, ...]


def parse_path(text: str) -> Path:
    """Raises `InvalidValue`."""
    steps: list[Step] = []
    position = 1 if text.startswith("$") else 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise InvalidValue(
                f"the path {text[:100]!r} is not understood at {text[position : position + 20]!r}: use $.order.items[*].id"
            )
        name, star, starred, index, single, double = match.groups()
        steps.append(EVERY if star or starred else int(index) if index else name or single or double)
        position = match.end()
    if not steps or len(steps) > STEPS_MAX:
        raise InvalidValue(f"the path {text[:100]!r} has {len(steps)} steps: use 1 to {STEPS_MAX}, such as $.order.id")
    return tuple(steps)


def values_at(value: Any, path: Path) -> Iterator[Any]:
    """The values that the path leads to, of the first `LOOKED_AT_MAX` that it passes."""
    left = LOOKED_AT_MAX
    level = [value]
    for step in path:
        following: list[Any] = []
        for outer in level:
            inner = _inner(outer, step)
            left -= len(inner)
            if left < 0:
                break
            following += inner
        level = following
    yield from level


def _inner(value: Any, step: Step) -> list[Any]:
    if isinstance(step, Every):
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if isinstance(value, dict):
        name = str(step)
        return [value[name]] if name in value else []
    return [value[step]] if isinstance(value, list) and isinstance(step, int) and step < len(value) else []
