"""What a record says was changed: the state before and after, name by name. Pure."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

CHANGES_MAX = 100
LEVELS = 3  # of names within names
VALUE_LENGTH_MAX = 500


class Change(NamedTuple):
    """`path`: names, with dots between them. None: it was not there, or is not any more."""

    path: str
    before: str | None
    after: str | None


def changes(before: Any, after: Any) -> list[Change]:
    """In the order of names, `CHANGES_MAX` at most. Values as JSON, cut off when long."""
    was, is_now = _flat(before), _flat(after)
    differing = [path for path in sorted({*was, *is_now}) if was.get(path) != is_now.get(path)]
    return [Change(path, was.get(path), is_now.get(path)) for path in differing[:CHANGES_MAX]]


def _flat(value: Any, path: str = "", levels: int = LEVELS) -> dict[str, str]:
    if isinstance(value, dict) and levels and (value or not path):
        items = [_flat(item, f"{path}.{name}" if path else str(name), levels - 1) for name, item in value.items()]
        return {name: text for item in items for name, text in item.items()}
    if value is None and not path:
        return {}
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {path or "value": text if len(text) <= VALUE_LENGTH_MAX else f"{text[:VALUE_LENGTH_MAX]}..."}
