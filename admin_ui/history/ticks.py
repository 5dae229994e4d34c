"""Times under a chart: round ones in the reader's zone, each where it is in the span. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from messaging.history.points import DAY_MS, MINUTE_MS

TICKS_MAX = 8
_STEPS_MS = tuple(minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720))
_STEPS_DAYS = (1, 2, 5, 10)
_EDGE_PERCENT = 3.0  # so near to an end of the chart, a text would lie outside it


class Tick(NamedTuple):
    """`anchor`: which end of the text is at its place, as SVG calls it. `is_day`: it is a midnight, of which the day is told."""

    at: datetime
    percent: float
    anchor: str
    is_day: bool


def ticks_of(from_ms: int, until_ms: int, zone: tzinfo) -> list[Tick]:
    """The finest that are no more than `TICKS_MAX`."""
    begins, width_ms = datetime.fromtimestamp(from_ms / 1000, zone), until_ms - from_ms
    step_ms = next((step for step in _STEPS_MS if width_ms <= step * TICKS_MAX), None)
    times = _midnights(begins, width_ms) if step_ms is None else _within_days(begins, width_ms, step_ms)
    return [_tick(at, (at.timestamp() * 1000 - from_ms) / width_ms * 100) for at in times]


def _within_days(begins: datetime, width_ms: int, step_ms: int) -> list[datetime]:
    """By the clock of the zone as it was when the span began; where it is put forward or back, hours stay whole."""
    since_midnight_ms = (begins - datetime.combine(begins.date(), time(), tzinfo=begins.tzinfo)) // timedelta(milliseconds=1)
    return [_later(begins, after_ms) for after_ms in range(-since_midnight_ms % step_ms, width_ms + 1, step_ms)]


def _midnights(begins: datetime, width_ms: int) -> list[datetime]:
    count = -(-width_ms // DAY_MS)
    step = next((days for days in _STEPS_DAYS if count <= days * TICKS_MAX), count)
    first = 0 if begins.time() == time() else 1
    days = (begins.date() + timedelta(days=day) for day in range(first, count + 1, step))
    found = [datetime.combine(day, time(), tzinfo=begins.tzinfo) for day in days]
    return [at for at in found if at.timestamp() * 1000 <= begins.timestamp() * 1000 + width_ms]


def _later(begins: datetime, by_ms: int) -> datetime:
    """So much time later, whatever the clock of the zone does meanwhile."""
    return (begins.astimezone(UTC) + timedelta(milliseconds=by_ms)).astimezone(begins.tzinfo)


def _tick(at: datetime, percent: float) -> Tick:
    anchor = "start" if percent < _EDGE_PERCENT else "end" if percent > 100 - _EDGE_PERCENT else "middle"
    return Tick(at, round(percent, 2), anchor, at.time() == time())
