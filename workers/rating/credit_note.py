"""What a credit note says: which lines of an invoice it takes back, and what of that is credit, tax and money.

All notes of an invoice together never give back more than it had: not of a line, not of its credits, not of its tax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.rating.credit import Totals, UsedCredit
from workers.rating.document import CREDIT_NOTE, time_of
from workers.rating.errors import RatingError
from workers.rating.money import minor_of, money_text
from workers.rating.rate import Line

Document = Mapping[str, Any]


def note_lines(
    invoice: Document, left: Mapping[str, int], amounts: Mapping[str, int] | None, earlier: Sequence[Document]
) -> list[Line]:
    """`left`: of each line (`Statement.left`). `amounts`: to take back, by line; None: all of it. `earlier`: notes of this invoice.

    Raises `RatingError` for more than is left of a line, or of the invoice as a whole."""
    currency = invoice["currency"]
    if amounts is None and earlier:
        raise RatingError("a part of this invoice was taken back before: name the lines to take back now")
    asked = left if amounts is None else amounts
    if amounts is not None:
        for name, amount in amounts.items():
            if not 0 < amount <= left[name]:
                raise RatingError(f"{name}: {money_text(max(0, left[name]), currency)} {currency} are left to take back")
    whole_left = _subtotal(invoice) + sum(_subtotal(note) for note in earlier)
    total = sum(asked.values())
    if total > whole_left or total <= 0:
        raise RatingError(
            f"{money_text(max(0, whole_left), currency)} {currency} are left to take back of the whole invoice, "
            "with its corrections of others"
        )
    lines = {line["id"]: line for line in invoice["lines"]}
    return [
        Line(name, CREDIT_NOTE, lines[name]["title"], time_of(lines[name]["start"]), time_of(lines[name]["end"]), -amount)
        for name, amount in asked.items()
        if amount
    ]


def note_totals(invoice: Document, lines: Sequence[Line], earlier: Sequence[Document]) -> Totals:
    """Credits and tax come back in proportion to what of the subtotal is taken back by now, so that the last note gives back what
    is left of them to the cent."""
    subtotal = _subtotal(invoice)
    taken = -sum(line.amount for line in lines)
    by_now = taken - sum(_subtotal(note) for note in earlier)
    used = {credit["id"]: minor_of(credit["amount"], invoice["currency"], "credit") for credit in invoice["credits"]}
    given = dict.fromkeys(used, 0)
    for note in earlier:
        for returned in note["credits"]:
            given[returned["id"]] -= minor_of(returned["amount"], note["currency"], "credit")
    credit = max(0, _part(sum(used.values()), by_now, subtotal) - sum(given.values()))
    titles = {credit["id"]: credit["title"] for credit in invoice["credits"]}
    coming_back = _from_the_last(used, given, min(credit, taken))
    credits = tuple(UsedCredit(name, titles[name], -amount) for name, amount in coming_back.items() if amount)
    credit_by_now = sum(given.values()) - sum(credit.amount for credit in credits)
    taxed = minor_of(invoice["tax"]["amount"], invoice["currency"], "tax")
    tax_by_now = _part(taxed, by_now - credit_by_now, subtotal - sum(used.values()))
    tax = -max(0, tax_by_now + sum(minor_of(note["tax"]["amount"], note["currency"], "tax") for note in earlier))
    return Totals(-taken, credits, tax, -taken - sum(credit.amount for credit in credits) + tax)


def _from_the_last(used: Mapping[str, int], given: Mapping[str, int], amount: int) -> dict[str, int]:
    """Credits that expire first were used first: what comes back goes to those that are valid longest."""
    taken = {}
    for name in reversed(list(used)):
        taken[name] = min(amount, used[name] - given[name])
        amount -= taken[name]
    return taken


def _part(amount: int, of: int, whole: int) -> int:
    """`amount` in the proportion of `of` to `whole`, half a unit up; none of them is below 0."""
    return (2 * amount * of + whole) // (2 * whole) if whole else 0


def _subtotal(document: Document) -> int:
    return minor_of(document["subtotal"], document["currency"], "subtotal")
