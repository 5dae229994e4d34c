"""Times under a chart are round in the reader's zone, and stand where they are."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from admin_ui.history.ticks import TICKS_MAX, ticks_of
from messaging.history.points import DAY_MS, HOUR_MS, MINUTE_MS

BERLIN, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")


def at_ms(text: str, zone: ZoneInfo) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("begins", "zone", "width_ms", "shown"),
    [
        ("2026-11-27T16:11", BERLIN, DAY_MS, "18:00 21:00 00:00 03:00 06:00 09:00 12:00 15:00"),
        ("2026-11-27T16:11", KOLKATA, HOUR_MS, "16:20 16:30 16:40 16:50 17:00 17:10"),
        ("2026-11-27T16:00", KOLKATA, 6 * HOUR_MS, "16:00 17:00 18:00 19:00 20:00 21:00 22:00"),
        ("2026-11-27T16:11", KOLKATA, 5 * MINUTE_MS, "16:11 16:12 16:13 16:14 16:15 16:16"),
        ("2026-10-25T00:00", BERLIN, 6 * HOUR_MS, "00:00 01:00 02:00 02:00 03:00 04:00 05:00"),  # put back at 3
    ],
)
def test_within_days_they_are_hours_and_minutes(begins: str, zone: ZoneInfo, width_ms: int, shown: str) -> None:
    from_ms = at_ms(begins, zone)
    ticks = ticks_of(from_ms, from_ms + width_ms, zone)
    assert " ".join(f"{tick.at:%H:%M}" for tick in ticks) == shown
    for tick in ticks:
        assert abs(tick.percent - (tick.at.timestamp() * 1000 - from_ms) / width_ms * 100) < 0.01 and 0 <= tick.percent <= 100
    assert [tick.is_day for tick in ticks] == [f"{tick.at:%H:%M}" == "00:00" for tick in ticks]


@pytest.mark.parametrize(("days", "shown"), [(7, "21 22 23 24 25 26 27"), (30, "21 26 31 5 10 15"), (60, "21 31 10 20 30 10")])
def test_over_days_they_are_midnights_also_where_the_clock_is_put_back(days: int, shown: str) -> None:
    from_ms = at_ms("2026-10-20T16:11", BERLIN)
    ticks = ticks_of(from_ms, from_ms + days * DAY_MS, BERLIN)
    assert all(tick.is_day for tick in ticks) and len(ticks) <= TICKS_MAX
    assert " ".join(str(tick.at.day) for tick in ticks) == shown


def test_a_text_at_an_end_does_not_lie_outside() -> None:
    from_ms = at_ms("2026-11-27T16:00", BERLIN)
    ticks = ticks_of(from_ms, from_ms + 6 * HOUR_MS, BERLIN)
    assert [ticks[0].anchor, ticks[1].anchor, ticks[-1].anchor] == ["start", "middle", "end"]
