"""How deep JSON may be nested: objects and lists within each other."""

from __future__ import annotations

from messaging.errors import InvalidValue
from messaging.limits.rest import BODY_DEPTH_MAX


def too_deep() -> str:
    return f"the body is nested deeper than {BODY_DEPTH_MAX} objects and lists within each other: send it flatter"


def check_depth(value: object) -> None:
    """Raises `InvalidValue`. Goes down level by level, so that no depth is too much for this."""
    level = [value]
    for _ in range(BODY_DEPTH_MAX + 1):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        level = [one for one in inner if isinstance(one, dict | list)]
        if not level:
            return
    raise InvalidValue(too_deep())
