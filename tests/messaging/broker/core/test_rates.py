"""Rates from running totals."""

from __future__ import annotations

from messaging.broker.core.rates import WINDOW_MS, Rate


def test_the_slope_over_the_window() -> None:
    rate = Rate()
    for second in range(20):
        rate.sample(second * 1000, second * 50)
        assert rate.a_second == (50 if second else 0)


def test_what_is_older_than_the_window_does_not_count() -> None:
    rate = Rate()
    rate.sample(0, 0)
    rate.sample(1000, 10_000)
    for second in range(2, 3 + WINDOW_MS // 1000):
        rate.sample(second * 1000, 10_000)
    assert rate.a_second == 0
    assert rate.quiet


def test_a_rate_without_two_samples_is_not_quiet() -> None:
    rate = Rate()
    assert not rate.quiet
    rate.sample(5, 0)
    assert not rate.quiet
    rate.sample(5, 9)  # the clock stood still
    assert rate.a_second == 0
