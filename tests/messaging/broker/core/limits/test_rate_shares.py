"""How brokers divide a rate limit that holds over all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.limits.rate_shares import RateDemand, parts

IDLE, WAITS = RateDemand(0.0, False), RateDemand(0.5, True)
demands = st.builds(RateDemand, st.floats(0, 1.5), st.booleans())


@given(st.lists(demands, min_size=1, max_size=8))
def test_together_they_are_the_whole_limit(given_demands: list[RateDemand]) -> None:
    divided = parts(given_demands)
    assert sum(divided) == pytest.approx(1.0)
    assert all(part > 0 for part in divided)


@given(st.lists(demands, min_size=1, max_size=8))
def test_who_wants_more_gets_no_less_than_anybody(given_demands: list[RateDemand]) -> None:
    divided = parts(given_demands)
    for demand, part in zip(given_demands, divided, strict=True):
        if demand.waits:
            assert part == pytest.approx(max(divided))


@pytest.mark.parametrize(
    ("given_demands", "divided"),
    [
        ([WAITS], [1.0]),
        ([WAITS, WAITS], [0.5, 0.5]),
        ([WAITS, IDLE], [0.95, 0.05]),
        ([WAITS, RateDemand(0.25, False)], [0.65, 0.35]),
        ([IDLE, IDLE], [0.5, 0.5]),
        ([WAITS, WAITS, RateDemand(0.1, False)], [0.415, 0.415, 0.17]),
    ],
)
def test_what_one_does_not_use_the_others_have(given_demands: list[RateDemand], divided: list[float]) -> None:
    assert parts(given_demands) == pytest.approx(divided)


def test_two_brokers_that_always_want_more_settle_at_halves_whatever_they_begin_with() -> None:
    first, second = 0.95, 0.05
    for _ in range(2):
        first, second = parts([RateDemand(first, True), RateDemand(second, True)])
    assert (first, second) == pytest.approx((0.5, 0.5))
