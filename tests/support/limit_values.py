"""Values exactly at a limit of the table and one over it, as JSON has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from messaging.limits.model import Limit


def at_and_over(limit: Limit, kind: str, count_max: int | None = None) -> Iterator[tuple[str, Any, Any]]:
    """What is tried, a value at the limit, and one over it. `kind`: text, number, list, numbers or
    objects (lists of them) or map. `count_max`: what may hold more is not tried with so many."""
    if kind == "number":
        if limit.maximum is not None:
            yield "maximum", limit.maximum, limit.maximum + 1
        if limit.minimum is not None:
            yield "minimum", limit.minimum, limit.minimum - 1
        return
    if limit.bytes_max is not None:
        yield "size", _in(kind, "x" * limit.bytes_max), _in(kind, "x" * (limit.bytes_max + 1))
        if limit.bytes_max % 2 == 0:
            yield "size in bytes", _in(kind, "é" * (limit.bytes_max // 2)), _in(kind, "é" * (limit.bytes_max // 2) + "x")
    count = limit.count_max if kind in ("list", "numbers", "objects", "map") else None
    if count is not None and (count_max is None or count <= count_max):
        many = [f"{number:x}" for number in range(count + 1)]
        yield "count", _of(kind, many[:-1]), _of(kind, many)
    if limit.total_bytes_max is not None and limit.bytes_max is not None and limit.bytes_max < limit.total_bytes_max:
        part = limit.total_bytes_max // 8
        many = [f"{number}".ljust(part, "x") for number in range(8)]
        yield "total", _of(kind, many), _of(kind, [*many, "x"])


def _in(kind: str, text: str) -> Any:
    return {"list": [text], "map": {text: ""}}.get(kind, text)


def _of(kind: str, texts: list[str]) -> Any:
    if kind == "objects":
        return [{} for _ in texts]
    if kind == "numbers":
        return list(range(len(texts)))
    return texts if kind == "list" else dict.fromkeys(texts, "")
