"""Random lives of an account, of 18 months, held against double-entry books: `python -m tests.support.billing.account_lives`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Protocol

from tests.support.billing.account_books import HOUR, Books, Terms, Truth, minor
from tests.support.billing.pure_account import PureAccount
from workers.rating.errors import RatingError
from workers.rating.rate import month_of

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MONTHS = 18
CLOSE_AFTER = timedelta(hours=72)
LATE = timedelta(days=35)


class Account(Protocol):
    """Billing of one account. Documents are those of `workers.rating.document`."""

    def assign(self, terms: Terms, starts_at: datetime) -> None: ...

    def use(self, hour: datetime, quantity: int, run: str) -> None: ...

    def grant(self, amount: str, currency: str, expires: str) -> str:
        """The id of the credit."""

    def take_back(self, number: str, amounts: dict[str, str] | None, now: datetime) -> bool:
        """False: it was refused."""

    def bill(self, now: datetime) -> None:
        """Drafts, and closes what is due."""

    def finals(self) -> list[dict[str, Any]]:
        """In the order of their numbers."""

    def drafts(self) -> list[dict[str, Any]]: ...


class Life:
    """What happens to one account, drawn from `random`, and the truth that its books are held against."""

    def __init__(self, account: Account, random: Random, tax_rate: str, forgiven: int, months: int = MONTHS) -> None:
        self.account, self.random, self.months = account, random, months
        self.tax_rate, self.forgiven = tax_rate, forgiven
        self.books = Books()
        self.posted = 0
        self.terms: dict[datetime, Terms] = {}
        self.used: dict[datetime, int] = {}
        self.granted: dict[str, tuple[int, str, str]] = {}
        self.told: list[str] = []
        self.runs = 0

    def live(self) -> None:
        """Raises `AssertionError`, with what led to it in `told`."""
        terms: Terms | None = None
        for start in months_from(BEGIN, self.months):
            if terms is None or self.random.random() < 0.15:
                terms = self._new_terms(len(self.terms))
                self._tell(f"{start:%Y-%m} pays by {terms}")
                self.account.assign(terms, start)
            self.terms[start] = terms
            self._month(start)
        assert terms is not None
        *_, after, end = months_from(BEGIN, self.months + 3)
        self.terms[after] = self.terms[month_of(after - HOUR)[0]] = terms
        self._bill(end)
        before = [self.account.finals(), self.account.drafts()]
        self.account.bill(end)
        assert [self.account.finals(), self.account.drafts()] == before, "a second run changed something"

    def _month(self, start: datetime) -> None:
        end = month_of(start)[1]
        empty = self.random.random() < 0.3
        moments = sorted(
            start + timedelta(hours=self.random.randrange((end - start) // HOUR)) for _ in range(self.random.randint(2, 7))
        )
        for now in moments:
            what = self.random.random()
            if what < 0.35 and not empty:
                self._use(max(start, now - HOUR), self.random.choice((0, 1, 17, 400, 3000)))
            elif what < 0.55:
                self._use_late(now)
            elif what < 0.65:
                self._grant(end)
            elif what < 0.8:
                self._take_back(now)
            else:
                self._bill(now)
        if self.random.random() < 0.85:
            self._bill(max([*moments, start + CLOSE_AFTER]))

    def _use(self, hour: datetime, quantity: int) -> None:
        self.runs += 1
        self._tell(f"{hour:%Y-%m-%dT%H} uses {quantity}, run {self.runs}")
        self.used[hour] = quantity
        self.account.use(hour, quantity, f"run-{self.runs}")

    def _use_late(self, now: datetime) -> None:
        hours = [hour for hour in self.used if hour > now - LATE]
        if hours:
            hour = self.random.choice(hours)
            self._use(hour, self.random.choice((0, self.used[hour] // 2, self.used[hour] + 40, 1000)))

    def _grant(self, end: datetime) -> None:
        last_day = (end - HOUR).date()
        expires = self.random.choice(
            ("", last_day.isoformat(), (last_day + timedelta(days=40)).isoformat(), last_day.replace(day=5).isoformat())
        )
        currency = self.random.choice(("EUR", "EUR", "JPY"))
        amount = str(self.random.randint(1, 60))
        name = self.account.grant(amount, currency, expires)
        self.granted[name] = minor(amount, currency), currency, expires
        self._tell(f"is granted {amount} {currency} until {expires or 'ever'}: {name}")

    def _take_back(self, now: datetime) -> None:
        invoices = [invoice for invoice in self.account.finals() if invoice["kind"] == "invoice"][-4:]
        if not invoices:
            return
        invoice = self.random.choice(invoices)
        amounts: dict[str, str] | None = None
        lines = [line for line in invoice["lines"] if minor(line["amount"], invoice["currency"]) > 0]
        if self.random.random() < 0.6 and lines:
            line = self.random.choice(lines)
            part = self.random.randint(1, minor(line["amount"], invoice["currency"]))
            amounts = {line["id"]: str(part) if invoice["currency"] == "JPY" else f"{part // 100}.{part % 100:02}"}
        done = self.account.take_back(invoice["number"], amounts, now)
        self._tell(f"{now:%Y-%m-%d} note on {invoice['number']}: {amounts or 'all'}{'' if done else ', refused'}")
        self._post()

    def _bill(self, now: datetime) -> None:
        self._tell(f"{now:%Y-%m-%dT%H} is billed")
        self.account.bill(now)
        closed = self._post()
        due = [start for start in self.terms if now >= month_of(start)[1] + CLOSE_AFTER]
        self.books.check_closed(due)
        if closed:
            self.books.check_months(self._truth())

    def _post(self) -> bool:
        """Whether there are new documents."""
        documents = self.account.finals()
        new = documents[self.posted :]
        self.posted = len(documents)
        for document in new:
            told = ", ".join(f"{line['id']} {line['amount']}" for line in document["lines"])
            self._tell(
                f"  {document['kind']} {document['number']} of {document['period']['start'][:7]}: {told}; {document['total']}"
            )
            self.books.post(document, self._truth())
        return bool(new)

    def _truth(self) -> Truth:
        quantities: dict[datetime, int] = {}
        hours: dict[datetime, int] = {}
        for hour, quantity in self.used.items():
            start, _ = month_of(hour)
            quantities[start] = quantities.get(start, 0) + quantity
            hours[start] = hours.get(start, 0) + 1
        return Truth(self.terms, quantities, hours, self.granted, self.tax_rate, self.forgiven)

    def _new_terms(self, index: int) -> Terms:
        currency = self.random.choice(("EUR", "EUR", "EUR", "JPY"))
        fee, minimum = self.random.choice((("0", "0"), ("9.99", "0"), ("5", "20"), ("0", "12.50")))
        if currency == "JPY":
            fee, minimum = (str(int(float(amount) * 100)) for amount in (fee, minimum))
        price = self.random.choice(("0.013", "0.0375", "0.1"))
        return Terms(f"plan-{index}", currency, fee, minimum, price, self.random.choice((0, 10)))

    def _tell(self, what: str) -> None:
        self.told.append(what)


def months_from(begin: datetime, count: int) -> Sequence[datetime]:
    months = [begin]
    while len(months) < count:
        months.append(month_of(months[-1])[1])
    return months


def draw(seed: str) -> tuple[Random, str, int]:
    """The random numbers of a life, its tax rate, and what is forgiven."""
    random = Random(seed)
    return random, random.choice(("19", "7.7", "0")), random.choice((0, 0, 100))


def live(seed: str, account: Callable[[str, int], Account] = PureAccount, months: int = MONTHS) -> Life:
    """`account`: made from a tax rate and what is forgiven. Raises `AssertionError` with the whole story."""
    random, tax_rate, forgiven = draw(seed)
    life = Life(account(tax_rate, forgiven), random, tax_rate, forgiven, months)
    try:
        life.live()
    except (AssertionError, RatingError, KeyError) as error:
        raise AssertionError("\n".join([f"life {seed}: {error!r}", *life.told])) from error
    return life


def main() -> None:
    parser = argparse.ArgumentParser(description="Live random lives of accounts and hold their documents against books.")
    parser.add_argument("--lives", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.monotonic()
    documents = 0
    for number in range(asked.lives):
        try:
            documents += live(f"{asked.seed}/{number}").posted
        except AssertionError as error:
            raise SystemExit(str(error)) from error
    print(f"{asked.lives} lives with {documents} documents: all books balance ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
