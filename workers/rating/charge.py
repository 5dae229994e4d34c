"""What a quantity costs by one price: exact, not rounded.

A month is rated from its first byte to its last. `before` is what the month had used when the quantity began, `total` what it used
altogether: a price that changes in the middle of a month goes on where the old one stopped, so that tiers and included amounts
count once a month and not once for each price.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from workers.rating.plan import GRADUATED, PACKAGE, VOLUME, Price


class TierCharge(NamedTuple):
    """The part of a quantity that one tier took. `units`: packages where the model is a package, else the unit of the price."""

    units: Fraction
    price: Fraction
    flat: Fraction

    @property
    def amount(self) -> Fraction:
        return self.units * self.price + self.flat


def charges(price: Price, before: int, quantity: int, total: int) -> list[TierCharge]:
    """By tiers, without those that took nothing. Quantities in base units, 0 <= `before`, `before + quantity` <= `total`."""
    start, end = _beyond(price, before), _beyond(price, before + quantity)
    if end == start:
        return []
    if price.model == GRADUATED:
        return _graduated(price, start, end)
    if price.model == VOLUME:
        return _volume(price, start, end, _beyond(price, total))
    tier = price.tiers[0]
    if price.model == PACKAGE:
        packages = -(-end // price.package) - -(-start // price.package)
        return [TierCharge(Fraction(packages), tier.price, Fraction(0))] if packages else []
    return [TierCharge(Fraction(end - start, price.unit_size), tier.price, Fraction(0))]


def amount_of(price: Price, before: int, quantity: int, total: int) -> Fraction:
    return sum((part.amount for part in charges(price, before, quantity, total)), Fraction(0))


def _beyond(price: Price, quantity: int) -> int:
    """What of a month's first `quantity` is not included."""
    return max(0, quantity - price.included)


def _graduated(price: Price, start: int, end: int) -> list[TierCharge]:
    """Each tier takes what lies between its edges; its flat fee is due when the first unit enters it."""
    parts, lower = [], 0
    for tier in price.tiers:
        upper = end if tier.up_to is None else min(end, tier.up_to)
        inside = upper - max(start, lower)
        if inside > 0:
            parts.append(TierCharge(Fraction(inside, price.unit_size), tier.price, tier.flat if start <= lower else Fraction(0)))
        if tier.up_to is None or tier.up_to >= end:
            break
        lower = tier.up_to
    return parts


def _volume(price: Price, start: int, end: int, total: int) -> list[TierCharge]:
    """Everything at the price of the tier that the whole month falls in; the edge belongs to the tier below it. The flat fee is due
    with the month's first unit."""
    tier = next(tier for tier in price.tiers if tier.up_to is None or total <= tier.up_to)
    return [TierCharge(Fraction(end - start, price.unit_size), tier.price, tier.flat if start == 0 else Fraction(0))]
