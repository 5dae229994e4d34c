"""Limits how deeply objects and lists may be nested in JSON."""

from __future__ import annotations

from messaging.errors import InvalidValue
from messaging.limits.rest import BODY_DEPTH_MAX


def too_deep() -> str:
    return f"the body has more than {BODY_DEPTH_MAX} levels of nested objects and lists: use fewer levels"


def check_depth(value: object) -> None:
    """Raises `InvalidValue`. Works level by level instead of recursively, so that no depth can overflow the stack."""
    level = [value]
    for _ in range(BODY_DEPTH_MAX + 1):
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return
    raise InvalidValue(too_deep())
