"""Invoices for people: one number is written in one way, wherever it stands."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from workers.billing.present import plain, quantity_text
from workers.rating.money import decimal_text
from workers.rating.units import UNITS


@given(st.integers(0, 2**63), st.sampled_from(["GiB", "million messages", "GiB-month", "connection-hour", "byte"]))
def test_a_quantity_and_the_tier_that_took_it_agree_to_the_last_digit(quantity: int, unit: str) -> None:
    """A line of 1.234567 GiB was said to be about 1.234568 at its price."""
    of_tier = plain(decimal_text(Fraction(quantity, UNITS[unit].size)))
    assert f"{of_tier.removeprefix('about ')} {unit}" == quantity_text(quantity, unit)


def test_a_number_that_is_cut_is_shown_as_about() -> None:
    assert (plain("1.2345678"), plain("1.234567"), plain("1200"), plain("0.30")) == ("about 1.234567", "1.234567", "1,200", "0.3")
