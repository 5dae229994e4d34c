"""From the lines of an invoice to what is due: credits first, then tax on what is left. Minor units throughout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any

from workers.rating.money import exact, minor_of

CARRIED_OVER = "carried_over"


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
    """`subtotal` of the lines; `total` = subtotal - credits + tax. Negative: the customer's. `credits` below 0 are what later
    invoices have to their credit instead."""

    subtotal: int
    credits: tuple[UsedCredit, ...]
    tax: int
    total: int


def credits_left(credits: Sequence[Credit], documents: Iterable[Mapping[str, Any]], last_day: date) -> list[Credit]:
    """Those that are valid on the last day of a period, less what final `documents` used of them and credit notes gave back.
    `credits`: as they were granted, in the currency of the documents."""
    left = {credit.id: credit.left for credit in credits}
    for document in documents:
        for used in document["credits"]:
            if used["id"] in left:
                left[used["id"]] -= minor_of(used["amount"], document["currency"], "credit")
    return [
        replace(credit, left=left[credit.id]) for credit in credits if not credit.expires or credit.expires >= last_day.isoformat()
    ]


def totals_of(amounts: Iterable[int], credits: Sequence[Credit], tax: Tax, *, carried_over: bool = False) -> Totals:
    """Credits that expire first are used first. `carried_over`: what is below 0 is a credit for the next invoices, before tax;
    otherwise it is paid to the customer."""
    subtotal = sum(amounts)
    if subtotal < 0 and carried_over:
        return Totals(subtotal, (UsedCredit(CARRIED_OVER, "carried over to the next invoice", subtotal),), 0, 0)
    left = max(0, subtotal)
    used = []
    for credit in sorted(credits, key=lambda credit: (credit.expires or "9999", credit.id)):
        amount = min(left, credit.left)
        if amount > 0:
            used.append(UsedCredit(credit.id, credit.title, amount))
            left -= amount
    taxable = subtotal - sum(credit.amount for credit in used)
    taxed = tax_on(taxable, tax)
    return Totals(subtotal, tuple(used), taxed, taxable + taxed)


def tax_on(amount: int, tax: Tax) -> int:
    """Rounded once; half a unit goes away from zero."""
    due = abs(amount) * exact(tax.rate, "the tax rate") / 100 if tax.label else Fraction(0)
    rounded = (2 * due.numerator + due.denominator) // (2 * due.denominator)
    return rounded if amount >= 0 else -rounded
