"""Billing of one account by the functions of `workers.rating` alone, in memory: what `workers.billing` does with a database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.support.billing.account_books import HOUR, Terms, minor
from workers.rating import adjust, credit, credit_note, document, months, rate, statement
from workers.rating.credit import CARRIED_OVER, Credit, Tax
from workers.rating.document import BilledHour, InvoiceHeader
from workers.rating.errors import RatingError
from workers.rating.plan import PlanVersion, plan_from
from workers.rating.rate import Line, Segment, month_of

LATE_MONTHS = 3
CLOSE_AFTER = timedelta(hours=72)


def plan_document(terms: Terms) -> dict[str, Any]:
    prices = [{"meter": "messages_in", "unit": "message", "price": terms.price, "included": str(terms.included)}]
    return {
        "plan": terms.plan,
        "version": 1,
        "currency": terms.currency,
        "in_force_from": "2025-01-01T00:00:00Z",
        "base_fee": terms.base_fee,
        "minimum": terms.minimum,
        "prices": prices,
    }


class PureAccount:
    """Implements `account_lives.Account`."""

    def __init__(self, tax_rate: str, forgiven: int) -> None:
        self._tax, self._forgiven = Tax("VAT", tax_rate), forgiven
        self._assigned: list[tuple[datetime, str]] = []
        self._versions: dict[str, list[PlanVersion]] = {}
        self._used: dict[datetime, tuple[int, str]] = {}
        self._credits: list[tuple[str, Credit]] = []
        self._finals: list[dict[str, Any]] = []
        self._drafts: dict[tuple[datetime, str], dict[str, Any]] = {}

    def assign(self, terms: Terms, starts_at: datetime) -> None:
        self._versions[terms.plan] = [plan_from(plan_document(terms))]
        self._assigned.append((starts_at, terms.plan))

    def use(self, hour: datetime, quantity: int, run: str) -> None:
        self._used[hour] = quantity, run

    def grant(self, amount: str, currency: str, expires: str) -> str:
        name = f"credit-{len(self._credits):03}"
        self._credits.append((currency, Credit(name, name, minor(amount, currency), expires)))
        return name

    def take_back(self, number: str, amounts: dict[str, str] | None, now: datetime) -> bool:
        invoice = next(final for final in self._finals if final["number"] == number)
        earlier = [final for final in self._finals if final["of_invoice"] == number]
        asked = None if amounts is None else {name: minor(text, invoice["currency"]) for name, text in amounts.items()}
        try:
            lines = credit_note.note_lines(invoice, statement.statement_of(self._finals).left(number), asked, earlier)
        except RatingError:
            return False
        header = InvoiceHeader("credit_note", "final", self._number(), now, tax=self._tax, of_invoice=number)
        period = document.time_of(invoice["period"]["start"]), document.time_of(invoice["period"]["end"])
        totals = credit_note.note_totals(invoice, lines, earlier)
        self._finals.append(document.invoice_document(header, period, invoice["currency"], [], lines, totals))
        return True

    def bill(self, now: datetime) -> None:
        finals = {document.time_of(final["period"]["start"]) for final in self._finals if final["kind"] == "invoice"}
        since = min([*self._used, *(at for at, _ in self._assigned)], default=None)
        for start in months.open_months(since, now, {start for start, _ in self._drafts}, finals):
            self._refresh(start, now)
            if now >= month_of(start)[1] + CLOSE_AFTER:
                self._close(start, now)

    def finals(self) -> list[dict[str, Any]]:
        return list(self._finals)

    def drafts(self) -> list[dict[str, Any]]:
        return [self._drafts[key] for key in sorted(self._drafts)]

    def _refresh(self, start: datetime, now: datetime) -> None:
        _, end = month_of(start)
        segments = rate.segments_of(start, end, self._assigned, self._versions)
        self._drafts = {key: draft for key, draft in self._drafts.items() if key[0] != start}
        if not segments:
            return
        late = {} if any(key[0] < start for key in self._drafts) else self.late(start)
        own = segments[0].version.currency
        hours = [BilledHour(hour, run, "") for hour, (_, run) in sorted(self._used.items()) if start <= hour < min(end, now)]
        missing = self.hours_missing(start, min(end, now - HOUR))
        for currency in {own, *late}:
            mine = currency == own
            lines = [*(self._rated(start, segments) if mine else ()), *late.get(currency, ())]
            granted = [given for code, given in self._credits if code == currency]
            left = credit.credits_left(
                granted, [final for final in self._finals if final["currency"] == currency], (end - HOUR).date()
            )
            totals = credit.totals_of((line.amount for line in lines), left, self._tax, carried_over=mine)
            header = InvoiceHeader(tax=self._tax)
            told = (hours, missing) if mine else ((), ())
            self._drafts[start, currency] = document.invoice_document(
                header, (start, end), currency, segments if mine else [], lines, totals, *told
            )

    def _close(self, start: datetime, now: datetime) -> None:
        for key in sorted(key for key in self._drafts if key[0] == start):
            final = {**self._drafts.pop(key), "state": "final", "number": self._number(), "issued_at": document.time_text(now)}
            self._finals.append(final)
            for used in final["credits"]:
                if used["id"] == CARRIED_OVER:
                    title = f"Carried over from {final['number']}"
                    self._credits.append((key[1], Credit(title, title, -minor(used["amount"], key[1]))))

    def hours_missing(self, start: datetime, until: datetime) -> list[datetime]:
        hours = (start + HOUR * index for index in range((until - start) // HOUR))
        return [hour for hour in hours if hour not in self._used]

    def late(self, before: datetime) -> dict[str, list[Line]]:
        starts = sorted({final["period"]["start"] for final in self._finals if document.time_of(final["period"]["start"]) < before})
        documents = [final for final in self._finals if final["period"]["start"] in starts[-LATE_MONTHS:]]
        balances = statement.statement_of(documents)
        corrections: dict[str, list[Line]] = {}
        for final in documents:
            start, end = (document.time_of(final["period"][edge]) for edge in ("start", "end"))
            billed = {hour["hour"]: hour["run"] for hour in final["hours"]}
            runs = sorted(
                run for hour, (_, run) in self._used.items() if start <= hour < end and billed.get(document.time_text(hour)) != run
            )
            if final["segments"] and runs:
                lines = self._rated(start, document.segments_in(final))
                number = final["number"]
                late = adjust.adjustments(number, (start, end), balances.of(number), lines, runs, self._forgiven)
                if late:
                    corrections.setdefault(final["currency"], []).extend(late)
        return corrections

    def _rated(self, start: datetime, segments: list[Segment]) -> list[Line]:
        end = month_of(start)[1]
        used = [
            {
                "messages_in": {
                    "acme/a": sum(quantity for hour, (quantity, _) in self._used.items() if segment.start <= hour < segment.end)
                }
            }
            for segment in segments
        ]
        return rate.rate(segments, used, (end - start) // HOUR)

    def _number(self) -> str:
        return f"2026-{len(self._finals) + 1:06}"
