"""Random lives of accounts against double-entry books; and that the books notice what went wrong before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.billing.account_lives import live
from tests.support.billing.pure_account import PureAccount
from workers.rating import credit, credit_note, months
from workers.rating.credit import Totals, tax_on
from workers.rating.rate import Line
from workers.rating.statement import LineBalance, Statement, balance_key

LIVES_TO_NOTICE = 60
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("seed", range(3))
def test_books_of_random_lives_balance(seed: int) -> None:
    """A part of `make accounts`."""
    for number in range(10):
        live(f"{seed}/{number}")


class OneCurrency(PureAccount):
    """Corrections stand on the month's invoice, whatever they are of."""

    def late(self, before: datetime) -> dict[str, list[Line]]:
        lines = [line for of_currency in super().late(before).values() for line in of_currency]
        own = [draft["currency"] for draft in self.drafts()] or ["EUR"]
        return {own[-1]: lines} if lines else {}


class HoursOfTheFirstDraft(PureAccount):
    def hours_missing(self, start: datetime, until: datetime) -> list[datetime]:
        return []


def notes_are_forgotten(patch: Patch) -> None:
    patch.setattr(LineBalance, "take_back", lambda self, amount: None)


def notes_do_not_see_corrections(patch: Patch) -> None:
    def left(self: Statement, number: str) -> dict[str, int]:
        return {line: amount for (invoice, line), amount in self.lines.items() if balance_key(invoice, line)[0] == number}

    patch.setattr(Statement, "left", left)


def notes_of_parts_are_money(patch: Patch) -> None:
    def totals(invoice: Any, lines: list[Line], earlier: list[Any]) -> Totals:
        taken = sum(line.amount for line in lines)
        tax = tax_on(taken, credit.Tax(invoice["tax"]["label"], invoice["tax"]["rate"]))
        return Totals(taken, (), tax, taken + tax)

    patch.setattr(credit_note, "note_totals", totals)


def what_is_carried_over_is_paid_too(patch: Patch) -> None:
    real = credit.totals_of

    def totals(*arguments: Any, **options: Any) -> Totals:
        summed = real(*arguments, **options)
        return Totals(summed.subtotal, summed.credits, summed.tax, summed.subtotal) if summed.subtotal < 0 else summed

    patch.setattr(credit, "totals_of", totals)


def credits_expire_a_day_early(patch: Patch) -> None:
    real = credit.credits_left
    patch.setattr(credit, "credits_left", lambda credits, documents, day: real(credits, documents, day + timedelta(days=1)))


def months_are_those_of_usage(patch: Patch) -> None:
    real = months.open_months
    patch.setattr(months, "open_months", lambda since, last, drafts, finals: real(None, last, (), finals))


@pytest.mark.parametrize(
    "fault",
    [
        notes_are_forgotten,
        notes_do_not_see_corrections,
        notes_of_parts_are_money,
        what_is_carried_over_is_paid_too,
        credits_expire_a_day_early,
        months_are_those_of_usage,
    ],
)
def test_the_books_notice(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError, match="life "):
        for number in range(LIVES_TO_NOTICE):
            live(f"fault/{number}")


@pytest.mark.parametrize("account", [OneCurrency, HoursOfTheFirstDraft])
def test_the_books_notice_an_account(account: type[PureAccount]) -> None:
    with pytest.raises(AssertionError, match="life "):
        for number in range(LIVES_TO_NOTICE):
            live(f"fault/{number}", account)
