"""The invoice as a JSON document: what is stored, downloaded, printed and checked. Money and quantities lose nothing in it.

It holds everything it was made of: the documents of the price plans, the segments, and for each hour the run and the digest of the
usage that was billed. Times are UTC, amounts are text in the currency, quantities are integers in base units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from workers.rating.credit import Tax, Totals
from workers.rating.money import decimal_text, money_text
from workers.rating.plan import plan_from
from workers.rating.rate import Line, Segment

SCHEMA = 1
INVOICE, CREDIT_NOTE = "invoice", "credit_note"
DRAFT, FINAL = "draft", "final"


@dataclass(frozen=True)
class BilledHour:
    """`run`: whose version of the hour was billed."""

    hour: datetime
    run: str
    digest: str


@dataclass(frozen=True)
class InvoiceHeader:
    """What an invoice says beside its amounts. Empty until it is final: number, issued and due."""

    kind: str = INVOICE
    state: str = DRAFT
    number: str = ""
    issued_at: datetime | None = None
    due: str = ""
    customer: Mapping[str, str] = field(default_factory=dict)
    supplier: Mapping[str, str] = field(default_factory=dict)
    tax: Tax = field(default_factory=Tax)
    note: str = ""
    of_invoice: str = ""  # credit notes: the invoice that they take back


def invoice_document(
    header: InvoiceHeader,
    period: tuple[datetime, datetime],
    currency: str,
    segments: Sequence[Segment],
    lines: Sequence[Line],
    totals: Totals,
    hours: Sequence[BilledHour] = (),
    hours_missing: Sequence[datetime] = (),
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "kind": header.kind,
        "state": header.state,
        "number": header.number,
        "of_invoice": header.of_invoice,
        "issued_at": time_text(header.issued_at) if header.issued_at else "",
        "due": header.due,
        "note": header.note,
        "customer": dict(header.customer),
        "supplier": dict(header.supplier),
        "period": {"start": time_text(period[0]), "end": time_text(period[1])},
        "currency": currency,
        "plans": [dict(one.version.document) for one in segments],
        "segments": [
            {"start": time_text(one.start), "end": time_text(one.end), "plan": one.version.plan, "version": one.version.version}
            for one in segments
        ],
        "lines": [line_document(line, currency) for line in lines],
        "subtotal": money_text(totals.subtotal, currency),
        "credits": [{"id": one.id, "title": one.title, "amount": money_text(one.amount, currency)} for one in totals.credits],
        "tax": {"label": header.tax.label, "rate": header.tax.rate, "amount": money_text(totals.tax, currency)},
        "total": money_text(totals.total, currency),
        "hours": [{"hour": time_text(one.hour), "run": one.run, "digest": one.digest} for one in hours],
        "hours_missing": [time_text(one) for one in hours_missing],
    }


def line_document(line: Line, currency: str) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": line.id,
        "kind": line.kind,
        "title": line.title,
        "start": time_text(line.start),
        "end": time_text(line.end),
        "amount": money_text(line.amount, currency),
    }
    if line.meter:
        shown |= {"meter": line.meter, "quantity": line.quantity}
    if line.unit:
        shown |= {
            "unit": line.unit,
            "before": line.before,
            "total": line.total,
            "included": line.included,
            "tiers": [
                {"units": decimal_text(one.units), "price": decimal_text(one.price, 18), "flat": decimal_text(one.flat, 18)}
                for one in line.parts
            ],
        }
    if line.shares:
        shown["namespaces"] = [
            {"namespace": one.namespace, "quantity": one.quantity, "amount": money_text(one.amount, currency)}
            for one in line.shares
        ]
    if line.of_invoice:
        shown |= {"of_invoice": line.of_invoice, "runs": list(line.runs)}
    return shown


def segments_in(document: Mapping[str, Any]) -> list[Segment]:
    """The segments that an invoice was rated by, with the plans it holds. Raises `RatingError`, `KeyError`."""
    versions = {(one["plan"], one["version"]): plan_from(dict(one)) for one in document["plans"]}
    return [
        Segment(time_of(one["start"]), time_of(one["end"]), versions[one["plan"], one["version"]]) for one in document["segments"]
    ]


def time_text(at: datetime) -> str:
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def time_of(text: str) -> datetime:
    """Raises `ValueError`."""
    return datetime.fromisoformat(text).astimezone(UTC)
