"""Forecasts and thresholds, by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.rating.forecast import Forecast, crossed, forecast


def test_even_days_leave_no_doubt() -> None:
    assert forecast(100, [10] * 10, 20) == Forecast(100, 300, 300, 300, 10)


def test_uneven_days_do() -> None:
    ahead = forecast(100, [5, 15] * 5, 20)
    assert ahead.likely == 300 and 200 < ahead.low < 270 and 330 < ahead.high < 400
    assert forecast(100, [5, 15] * 14, 20).high < ahead.high  # more days, less doubt


def test_a_month_without_a_day_behind_it_is_what_it_is() -> None:
    assert forecast(7, [], 20) == Forecast(7, 7, 7, 7, 0)
    assert forecast(7, [1, 2], 0) == Forecast(7, 7, 7, 7, 2)


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**13), max_size=60), st.integers(0, 31))
def test_bounds_are_in_order_and_nothing_is_taken_back(so_far: int, days: list[int], days_left: int) -> None:
    ahead = forecast(so_far, days, days_left)
    assert so_far <= ahead.low <= ahead.likely <= ahead.high


def test_thresholds_are_reached_at_their_edge() -> None:
    assert crossed([100, 50, 80], 799, 1000) == [50]
    assert crossed([100, 50, 80], 800, 1000) == [50, 80]
    assert crossed([100], 1, 0) == []


def test_a_forecast_without_whole_days_is_none() -> None:
    """On the first day a month was said to end nearly always between 7.25 and 7.25."""
    assert (forecast(7, [], 20).known, forecast(7, [], 20).bounded) == (False, False)
    assert (forecast(7, [5], 20).known, forecast(7, [5], 20).bounded) == (True, False)
    assert (forecast(7, [5, 5], 20).known, forecast(7, [5, 5], 20).bounded) == (True, True)
