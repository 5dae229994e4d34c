"""Double-entry books of one account, kept from its final documents alone, and what must hold of them.

The reference for billing: it rates a month by a formula of its own, and knows nothing of how corrections and notes are computed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

HOUR = timedelta(hours=1)
RECEIVABLE, REVENUE, TAX, CREDITS = "receivable", "revenue", "tax", "credits"
CARRIED = "Carried over from "
MONTHS_CORRECTED = 3


@dataclass(frozen=True)
class Terms:
    """A price plan: a fee and a minimum a month, and one price for messages."""

    plan: str
    currency: str
    base_fee: str
    minimum: str
    price: str
    included: int

    @property
    def digits(self) -> int:
        return 0 if self.currency == "JPY" else 2

    def rated(self, quantity: int) -> int:
        """Minor units of a whole month."""
        fee = self._minor(Decimal(self.base_fee))
        used = self._minor(max(0, quantity - self.included) * Decimal(self.price))
        return max(fee + used, self._minor(Decimal(self.minimum)))

    def _minor(self, amount: Decimal) -> int:
        return int(amount.scaleb(self.digits).quantize(Decimal(1), ROUND_HALF_UP))


@dataclass(frozen=True)
class Truth:
    """What was so when documents became final. `quantities`: by month. `granted`: id -> (amount, currency, last day)."""

    terms: Mapping[datetime, Terms]
    quantities: Mapping[datetime, int]
    hours: Mapping[datetime, int]  # how many of a month were computed
    granted: Mapping[str, tuple[int, str, str]]
    tax_rate: str
    forgiven: int


@dataclass
class Month:
    """Of one invoice: `lines` as they were charged over all documents; `noted` by credit notes. `touched`: a note was made of it,
    or of a correction of it."""

    document: dict[str, Any]
    lines: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    noted: int = 0
    touched: bool = False
    rated_at_last: int | None = None

    @property
    def charged(self) -> int:
        return sum(self.lines.values())


class Books:
    """`post` documents in the order in which they became final. Raises `AssertionError` for what must not be."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], int] = defaultdict(int)  # (account, currency or credit) -> balance
        self.months: dict[str, Month] = {}  # by number
        self.starts: dict[datetime, str] = {}  # months with an invoice of their own
        self.carried: dict[str, int] = {}  # by title of the credit
        self.given_back: dict[str, list[dict[str, Any]]] = defaultdict(list)  # notes by number

    def post(self, document: dict[str, Any], truth: Truth) -> None:
        currency, sign = document["currency"], 1 if document["kind"] == "invoice" else -1
        lines = {line["id"]: minor(line["amount"], currency) for line in document["lines"]}
        used = {credit["id"]: minor(credit["amount"], currency) for credit in document["credits"]}
        tax, total = minor(document["tax"]["amount"], currency), minor(document["total"], currency)
        assert minor(document["subtotal"], currency) == sum(lines.values()), "the subtotal is not the sum of the lines"
        posted = [total, -sum(lines.values()), sum(used.values()), -tax]
        assert not sum(posted), f"{document['number']} does not balance"
        for account, amount in zip((RECEIVABLE, REVENUE, CREDITS, TAX), posted, strict=True):
            self.entries[account, currency] += amount
        self._post_credits(document, used, truth)
        if sign > 0:
            self._post_invoice(document, lines, used, tax, truth)
        else:
            self._post_note(document, lines)

    def _post_invoice(
        self, document: dict[str, Any], lines: Mapping[str, int], used: Mapping[str, int], tax: int, truth: Truth
    ) -> None:
        number, start = document["number"], datetime.fromisoformat(document["period"]["start"])
        expected = (Decimal(sum(lines.values()) - sum(used.values())) * Decimal(truth.tax_rate) / 100).quantize(
            Decimal(1), ROUND_HALF_UP
        )
        assert tax == expected, f"{number}: the tax is {tax}, not {expected}"
        own = Month(document)
        corrected = set()
        for name, amount in lines.items():
            of, slash, line = name.partition("/")
            month = self.months[of] if slash else own
            assert month.document["currency"] == document["currency"], f"{number} corrects {of}, which is in another currency"
            month.lines[line if slash else name] += amount
            corrected |= {of} if slash else set()
            assert month.lines[line if slash else name] >= 0, f"{number}: more than all of {name} is given back"
        if document["segments"]:
            assert start not in self.starts, f"{start:%Y-%m} has two invoices"
            self.starts[start] = number
            assert document["currency"] == truth.terms[start].currency
            own.rated_at_last = truth.terms[start].rated(truth.quantities.get(start, 0))
            assert own.charged == own.rated_at_last, f"{number}: {own.charged} is charged, {own.rated_at_last} is due"
            hours = (datetime.fromisoformat(document["period"]["end"]) - start) // HOUR
            missing = hours - truth.hours.get(start, 0)
            assert len(document["hours_missing"]) == missing, f"{number}: {missing} hours were missing"
        self.months[number] = own
        for of in corrected:
            self._correction(number, of, truth)

    def _correction(self, number: str, of: str, truth: Truth) -> None:
        month = self.months[of]
        start = datetime.fromisoformat(month.document["period"]["start"])
        rated = truth.terms[start].rated(truth.quantities.get(start, 0))
        assert rated != month.rated_at_last or month.touched, f"{number} corrects {of}, of which nothing changed"
        month.rated_at_last = rated

    def _post_note(self, document: dict[str, Any], lines: Mapping[str, int]) -> None:
        number, of = document["number"], document["of_invoice"]
        invoice = self.months[of].document
        for name, amount in lines.items():
            corrected, slash, line = name.partition("/")
            month = self.months[corrected if slash else of]
            month.lines[line if slash else name] += amount
            month.noted -= min(0, amount)
            month.touched = True
            assert month.lines[line if slash else name] >= 0, f"{number}: more of {name} is taken back than was charged"
        self.given_back[of].append(document)
        for what in ("subtotal", "total"):
            back = -sum(minor(note[what], note["currency"]) for note in self.given_back[of])
            assert 0 <= back <= minor(invoice[what], invoice["currency"]), f"{number}: {what} given back is {back}"
        back = -sum(minor(note["tax"]["amount"], note["currency"]) for note in self.given_back[of])
        assert 0 <= back <= minor(invoice["tax"]["amount"], invoice["currency"]), f"{number}: tax given back is {back}"
        used = sum(minor(credit["amount"], invoice["currency"]) for credit in invoice["credits"])
        given = -sum(minor(credit["amount"], note["currency"]) for note in self.given_back[of] for credit in note["credits"])
        back = -sum(minor(note["subtotal"], note["currency"]) for note in self.given_back[of])
        subtotal = minor(invoice["subtotal"], invoice["currency"])
        assert abs(given * subtotal - used * back) <= subtotal, f"{number}: {given} of {used} credit for {back} of {subtotal}"

    def _post_credits(self, document: dict[str, Any], used: Mapping[str, int], truth: Truth) -> None:
        number, currency = document["number"], document["currency"]
        last_day = (datetime.fromisoformat(document["period"]["end"]) - HOUR).date()
        for credit in document["credits"]:
            amount = used[credit["id"]]
            if credit["id"] == "carried_over":
                self.carried[f"{CARRIED}{number}"] = -amount
                assert document["total"].strip("0.") == "", f"{number} is carried over and paid out"
                continue
            name = credit["title"] if credit["title"].startswith(CARRIED) else credit["id"]
            self.entries[CREDITS, name] += amount
            granted, of_currency, expires = self._credit(name, truth)
            assert of_currency in ("", currency) and 0 <= self.entries[CREDITS, name] <= granted, (
                f"{number}: credit {name} is overdrawn"
            )
            assert amount < 0 or not expires or date.fromisoformat(expires) >= last_day, f"{number}: {name} had expired"
        subtotal = minor(document["subtotal"], currency)
        if document["kind"] == "invoice" and subtotal > sum(used.values()):
            for name, (granted, of_currency, expires) in truth.granted.items():
                if of_currency == currency and (not expires or date.fromisoformat(expires) >= last_day):
                    assert self.entries[CREDITS, name] == granted, f"{number}: {name} should have paid for it"

    def _credit(self, name: str, truth: Truth) -> tuple[int, str, str]:
        return (self.carried[name], "", "") if name in self.carried else truth.granted[name]

    def check_closed(self, months: Sequence[datetime]) -> None:
        for start in months:
            assert start in self.starts, f"{start:%Y-%m} was not closed"

    def check_months(self, truth: Truth) -> None:
        """After a close: what usage came late is corrected, nothing is charged beyond usage, nor given back beyond it and notes."""
        for start in sorted(self.starts)[-MONTHS_CORRECTED - 1 : -1]:
            month = self.months[self.starts[start]]
            rated = truth.terms[start].rated(truth.quantities.get(start, 0))
            lowest = rated - month.noted - truth.forgiven
            told = f"{month.charged} is charged in all; usage makes {rated}, notes took {month.noted}"
            assert max(0, lowest) <= month.charged <= rated, f"{start:%Y-%m} ({self.starts[start]}): {told}"


def minor(text: str, currency: str) -> int:
    scaled = Decimal(text).scaleb(0 if currency == "JPY" else 2)
    assert scaled == scaled.to_integral_value(), f"{text} {currency} has too many digits"
    return int(scaled)
