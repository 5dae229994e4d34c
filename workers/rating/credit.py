"""From the lines of an invoice to what is due: credits first, then tax on what is left. Minor units throughout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from workers.rating.money import exact


@dataclass(frozen=True)
class Credit:
    """`left`: what is not used yet. `expires`: a date as text (2026-12-31), "" for never."""

    id: str
    title: str
    left: int
    expires: str = ""


@dataclass(frozen=True)
class UsedCredit:
    id: str
    title: str
    amount: int


@dataclass(frozen=True)
class Tax:
    """`rate` in per cent, as text. An empty label: no tax."""

    label: str = ""
    rate: str = "0"


@dataclass(frozen=True)
class Totals:
    """`subtotal` of the lines; `total` = subtotal - credits + tax. Negative: the customer's."""

    subtotal: int
    credits: tuple[UsedCredit, ...]
    tax: int
    total: int


def totals_of(amounts: Iterable[int], credits: Sequence[Credit], tax: Tax) -> Totals:
    """Credits that expire first are used first."""
    subtotal = sum(amounts)
    left = max(0, subtotal)
    used = []
    for credit in sorted(credits, key=lambda one: (one.expires or "9999", one.id)):
        amount = min(left, credit.left)
        if amount > 0:
            used.append(UsedCredit(credit.id, credit.title, amount))
            left -= amount
    taxable = subtotal - sum(one.amount for one in used)
    taxed = tax_on(taxable, tax)
    return Totals(subtotal, tuple(used), taxed, taxable + taxed)


def tax_on(amount: int, tax: Tax) -> int:
    """Rounded once; half a unit goes away from zero."""
    due = abs(amount) * exact(tax.rate, "the tax rate") / 100 if tax.label else Fraction(0)
    rounded = (2 * due.numerator + due.denominator) // (2 * due.denominator)
    return rounded if amount >= 0 else -rounded
