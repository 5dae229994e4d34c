"""Which span of history is asked for: the last so many hours, or from one time until another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from messaging.errors import InvalidValue
from messaging.history.points import DAY_MS, HOUR_MS, MINUTE_MS
from messaging.times import time_text
from tenants.history.reading import HOURS_KEPT_MS, STEPS_MS, step_of

SPANS_MS = {"1h": HOUR_MS, "6h": 6 * HOUR_MS, "24h": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS}
DEFAULT = "24h"
SHOWN_LENGTH_MAX = 80


class AskedSpan(NamedTuple):
    """`name`: of `SPANS_MS`, or "" for one with bounds. The bounds are multiples of the step."""

    from_ms: int
    until_ms: int
    step_ms: int
    name: str = ""

    @property
    def width_ms(self) -> int:
        return self.until_ms - self.from_ms

    def earlier(self, by_ms: int, now_ms: int) -> AskedSpan:
        """The same so much earlier, with the finest step that is kept of both."""
        step_ms = max(self.step_ms, step_of(self.from_ms - by_ms, self.until_ms - by_ms, now_ms))
        return aligned(self.from_ms - by_ms, self.until_ms - by_ms, step_ms)


def asked_span(query: Mapping[str, str], now_ms: int) -> AskedSpan:
    """`span`, or `from` and `until`, which are times in ISO 8601, UTC if they have no zone. Raises `InvalidValue`."""
    name, begin, end = query.get("span", ""), query.get("from", ""), query.get("until", "")
    if name and (begin or end):
        raise InvalidValue("give either span, or from and until")
    if not begin and not end:
        name = name or DEFAULT
        if name not in SPANS_MS:
            raise InvalidValue(f"span {name[:SHOWN_LENGTH_MAX]!r} is unknown: use one of {', '.join(SPANS_MS)}")
        from_ms, until_ms = now_ms - SPANS_MS[name], now_ms
    else:
        until_ms = _ms("until", end) if end else now_ms
        from_ms = _ms("from", begin) if begin else until_ms - DAY_MS
    if until_ms <= from_ms:
        raise InvalidValue(f"from {time_text(from_ms)} is not before until {time_text(until_ms)}")
    if from_ms >= now_ms:
        raise InvalidValue(f"from {time_text(from_ms)} is still to come: there is history up to {time_text(now_ms)}")
    if from_ms < now_ms - HOURS_KEPT_MS:
        kept = f"{HOURS_KEPT_MS // DAY_MS} days"
        raise InvalidValue(f"from {time_text(from_ms)} is too long ago: history is kept for {kept}")
    until_ms = min(until_ms, now_ms)  # what is still to come has as many steps as somebody likes, all of them unknown
    return aligned(from_ms, until_ms, step_of(from_ms, until_ms, now_ms), name)


def with_step(span: AskedSpan, step_s: str, now_ms: int) -> AskedSpan:
    """With a coarser step that the caller asks for. Raises `InvalidValue`."""
    allowed = [step // 1000 for step in STEPS_MS if step >= step_of(span.from_ms, span.until_ms, now_ms)]
    if not step_s.isdecimal() or int(step_s[:9]) not in allowed:
        offered = ", ".join(map(str, allowed))
        raise InvalidValue(f"step_seconds {step_s[:SHOWN_LENGTH_MAX]!r} is not kept of this span: use one of {offered}")
    return aligned(span.from_ms, span.until_ms, int(step_s) * 1000, span.name)


def aligned(from_ms: int, until_ms: int, step_ms: int, name: str = "") -> AskedSpan:
    """Outwards, to whole steps."""
    return AskedSpan(from_ms // step_ms * step_ms, -(-until_ms // step_ms) * step_ms, step_ms, name)


def _ms(name: str, text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(f"{name} {text[:SHOWN_LENGTH_MAX]!r} is not a time: use one such as 2026-03-01T14:00:00Z") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    try:
        return max(0, int(at.timestamp() * 1000)) // MINUTE_MS * MINUTE_MS
    except (OverflowError, ValueError):
        raise InvalidValue(f"{name} {text[:SHOWN_LENGTH_MAX]!r} is outside the calendar") from None
