"""One bucket for everything that has a rate: it counts in the caller's unit of time."""

from __future__ import annotations

import pytest

from messaging.token_bucket import TokenBucket


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(0.01, 3, 1_000)
    assert [round(bucket.take(1_000)) for _ in range(4)] == [0, 0, 0, 100]
    assert [round(bucket.take(now)) for now in (1_050, 1_100, 1_100)] == [50, 0, 100]
    assert [round(bucket.take(60_000)) for _ in range(4)] == [0, 0, 0, 100]  # no more than the burst is saved up


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    bucket = TokenBucket(0.001, 1, 5_000)
    assert bucket.take(5_000) == 0
    assert bucket.take(1_000) == 1_000
    assert bucket.take(2_000) == 0


def test_a_bucket_in_debt_waits_until_it_is_paid() -> None:
    bucket = TokenBucket(10, 1.5, 0.0)
    assert bucket.spend(101) == 10.1
    assert bucket.tokens(0.0) == -99.5
    assert bucket.wait(0.0) == pytest.approx(9.95)
    assert bucket.tokens(9.96) > 0
    assert bucket.wait(9.96) == 0.0


def test_tokens_beyond_the_burst_spill_and_an_earlier_time_gives_none() -> None:
    bucket = TokenBucket(1000, 150, 0.0)
    assert bucket.tokens(3600.0) == 150
    assert bucket.spilled == 3_600_000
    bucket.spend(150)
    assert bucket.tokens(3000.0) == 0.0


def test_a_change_keeps_the_debt_and_no_more_than_the_new_burst() -> None:
    bucket = TokenBucket(10, 20, 0.0)
    bucket.change(1, 5, 1.0)
    assert bucket.tokens(1.0) == 5
    bucket.spend(10)
    bucket.change(100, 50, 1.0)
    assert bucket.wait(1.0) == pytest.approx(0.05)
