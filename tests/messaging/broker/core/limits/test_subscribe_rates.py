"""How often a consumer may subscribe."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.limits.subscribe_rates import CONSUMERS_MAX, ConsumerIdentity, SubscribeRates

ONE, TWO = ConsumerIdentity("10.0.0.1", "a", 1), ConsumerIdentity("10.0.0.1", "a", 2)


def test_as_often_as_the_limit_says_within_a_period() -> None:
    rates = SubscribeRates()
    assert [rates.take("t", ONE, 2, 30, now_ms) for now_ms in (0, 10_000, 20_000, 29_999)] == [0, 0, 10_000, 1]
    assert [rates.take("t", ONE, 2, 30, 30_000) for _ in range(3)] == [0, 0, 30_000]


def test_each_consumer_is_counted_alone() -> None:
    rates = SubscribeRates()
    assert [rates.take("t", client, 1, 30, 0) for client in (ONE, TWO, TWO, ONE)] == [0, 0, 30_000, 30_000]
    assert rates.take("another", ONE, 1, 30, 0) == 0


def test_a_higher_limit_or_a_shorter_period_counts_at_once() -> None:
    rates = SubscribeRates()
    assert [rates.take("t", ONE, 1, 600, 0) for _ in range(2)] == [0, 600_000]
    assert rates.take("t", ONE, 2, 600, 1) == 0
    assert rates.take("t", ONE, 2, 600, 2) > 0
    assert rates.take("t", ONE, 2, 10, 3) == 0


def test_a_clock_that_goes_back_locks_nobody_out() -> None:
    rates = SubscribeRates()
    assert rates.take("t", ONE, 1, 30, 1_000_000) == 0
    assert rates.take("t", ONE, 1, 30, 0) == 0


def test_memory_of_the_past_is_bounded() -> None:
    rates = SubscribeRates()
    for number in range(CONSUMERS_MAX + 1):
        assert rates.take("t", ConsumerIdentity("h", str(number), 0), 1, 30, 0) == 0
    assert rates.take("t", ConsumerIdentity("h", "1", 0), 1, 30, 0) > 0
    assert rates.take("t", ConsumerIdentity("h", "0", 0), 1, 30, 0) == 0, "the first one is forgotten"


@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=80), st.integers(1, 5), st.integers(1, 20))
def test_never_more_than_twice_the_limit_within_a_period(gaps_ms: list[int], limit: int, period_s: int) -> None:
    rates, now_ms, taken = SubscribeRates(), 0, []
    for gap_ms in gaps_ms:
        now_ms += gap_ms
        wait_ms = rates.take("t", ONE, limit, period_s, now_ms)
        assert 0 <= wait_ms <= period_s * 1000
        if not wait_ms:
            taken.append(now_ms)
    for begin_ms in taken:
        assert sum(begin_ms <= at_ms < begin_ms + period_s * 1000 for at_ms in taken) <= 2 * limit
