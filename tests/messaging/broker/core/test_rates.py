"""Rates from running totals."""

from __future__ import annotations

from messaging.broker.core.rates import WINDOW_MS, Rate, Rates


def test_the_slope_over_the_window() -> None:
    rate = Rate()
    for second in range(20):
        rate.sample(second * 1000, second * 50)
        assert rate.a_second == (50 if second else 0)


def test_samples_older_than_the_window_do_not_count() -> None:
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


def test_several_totals_of_one_thing() -> None:
    rates = Rates()
    assert rates.all(2) == [0.0, 0.0] and not rates.quiet
    for second in range(8):
        rates.sample(second * 1000, (second * 3, 7))
    assert rates.all(2) == [3.0, 0.0] and not rates.quiet
    for second in range(8, 16):
        rates.sample(second * 1000, (21, 7))
    assert rates.all(2) == [0.0, 0.0] and rates.quiet


def test_a_rate_sampled_rarely_is_the_mean_since_the_last_time() -> None:
    rates = Rates()
    rates.sample(0, (0,))
    rates.sample(60_000, (600,))
    rates.sample(120_000, (600,))
    assert rates.all(1) == [0.0]
    rates.sample(180_000, (1_800,))
    assert rates.all(1) == [20.0]
