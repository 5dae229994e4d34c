"""Whether a backlog grows."""

from __future__ import annotations

import pytest

from messaging.broker.core.backlog.trend import SPACING_MS, BacklogTrend


@pytest.mark.parametrize(
    ("backlogs", "grows"),
    [
        ([], False),
        ([10, 20, 30], False),  # too short a time
        ([0, 5, 10, 15, 20, 25, 30, 35], True),
        ([35, 30, 25, 20, 15, 10, 5, 0], False),
        ([7] * 12, False),  # large or not, it stands
        ([0, 9, 0, 8, 0, 9, 0, 7, 0, 9, 0, 8], False),  # every message is taken a moment later
        ([0, 0, 0, 0, 0, 0, 0, 900], False),  # a burst
        ([50, 60, 55, 70, 65, 80, 90, 85, 95, 99, 105, 110], True),  # up and down, but up
        ([0, 0, 0, 100, 200, 300, 400, 500, 600, 500, 400, 300, 200, 100, 0, 0, 0, 0], False),  # it was worked off
    ],
)
def test_trends(backlogs: list[int], grows: bool) -> None:
    trend = BacklogTrend()
    for index, backlog in enumerate(backlogs):
        trend.sample(index * SPACING_MS, backlog)
        trend.sample(index * SPACING_MS + 1, 10**9)  # too soon after: passed over
    assert trend.grows == grows


def test_samples_older_than_the_window_do_not_count() -> None:
    trend = BacklogTrend()
    for index in range(12):
        trend.sample(index * SPACING_MS, index)
    assert trend.grows
    trend.sample(3_600_000, 100)  # nothing was seen for an hour
    assert not trend.grows
