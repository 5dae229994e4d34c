"""What comes due when, as columns for SVG: the next hour by minutes, the rest of a day by hours, later by days. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from admin_ui.formatting import exact
from messaging.adminrpc.delayed import DelayedBucket
from messaging.times import time_text

WIDTH, HEIGHT = 1000.0, 80.0
GAP_PART = 0.18  # of a column, between it and the next
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Span:
    """`entries`: of all columns; `highest`: what the top edge stands for."""

    title: str
    columns: tuple[Bar, ...]
    entries: int
    highest: int


def spans(buckets: Sequence[DelayedBucket]) -> list[Span]:
    """Those that have something."""
    minutes = [one for one in buckets if one.until_ms is not None and one.until_ms - one.from_ms <= MINUTE_MS]
    hours = [one for one in buckets if one.until_ms is not None and MINUTE_MS < one.until_ms - one.from_ms <= HOUR_MS]
    later = [one for one in buckets if one not in minutes and one not in hours]
    parts = (("The next hour, by minutes", minutes), ("The rest of a day, by hours", hours), ("Later, by days", later))
    return [_span(title, part) for title, part in parts if any(one.entries for one in part)]


def _span(title: str, buckets: Sequence[DelayedBucket]) -> Span:
    highest, width = max(one.entries for one in buckets), WIDTH / len(buckets)
    columns = tuple(
        Bar(
            x=round((at + GAP_PART / 2) * width, 2),
            y=round(HEIGHT - HEIGHT * one.entries / highest, 2),
            width=round(width * (1 - GAP_PART), 2),
            height=round(HEIGHT * one.entries / highest, 2),
            title=f"{_when(one)}: {exact(one.entries)}",
        )
        for at, one in enumerate(buckets)
        if one.entries
    )
    return Span(title, columns, sum(one.entries for one in buckets), highest)


def _when(bucket: DelayedBucket) -> str:
    """In UTC, as far as it matters."""
    begin = time_text(bucket.from_ms)[:16].replace("T", " ")
    return f"{begin} UTC" if bucket.until_ms is not None else f"after {begin} UTC"
