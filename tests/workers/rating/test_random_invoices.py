"""Random invoices: lines, splits and totals add up, and every price agrees with a reference that counts unit by unit."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.billing.random_invoices import RandomInvoice, check
from workers.rating.split import split


@pytest.mark.parametrize("seed", range(20))
def test_random_invoices_add_up(seed: int) -> None:
    """A part of `make invoices`."""
    for number in range(100):
        random = Random(f"{seed}/{number}")
        check(RandomInvoice(random), random)


@given(st.integers(-(10**12), 10**12), st.dictionaries(st.text(max_size=3), st.integers(0, 10**15), min_size=1, max_size=8))
def test_a_split_sums_to_its_amount_and_each_part_is_less_than_one_off(amount: int, weights: dict[str, int]) -> None:
    parts = split(amount, weights)
    assert sum(parts.values()) == amount and set(parts) == set(weights)
    total = sum(weights.values())
    if total:
        assert all(abs(parts[name] * total - amount * weight) < total for name, weight in weights.items())


@given(st.integers(0, 10**6), st.dictionaries(st.text(max_size=3), st.integers(0, 10**6), min_size=1, max_size=8))
def test_a_split_does_not_depend_on_order(amount: int, weights: dict[str, int]) -> None:
    assert split(amount, weights) == split(amount, dict(reversed(weights.items())))


def test_a_remainder_goes_to_the_largest_fractions() -> None:
    assert split(100, {"a": 1, "b": 1, "c": 1}) == {"a": 34, "b": 33, "c": 33}
    assert split(-100, {"a": 1, "b": 1, "c": 1}) == {"a": -34, "b": -33, "c": -33}
    assert split(10, {"a": 17, "b": 18, "c": 65}) == {"a": 2, "b": 2, "c": 6}
    assert split(5, {"b": 0, "a": 0}) == {"a": 5, "b": 0}
    assert split(5, dict[str, int]()) == {}
