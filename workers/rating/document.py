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
        "plans": [dict(segment.version.document) for segment in segments],
        "segments": [
            {
                "start": time_text(segment.start),
                "end": time_text(segment.end),
                "plan": segment.version.plan,
                "version": segment.version.version,
            }
            for segment in segments
        ],
        "lines": [line_document(line, currency) for line in lines],
        "subtotal": money_text(totals.subtotal, currency),
        "credits": [
            {"id": credit.id, "title": credit.title, "amount": money_text(credit.amount, currency)} for credit in totals.credits
        ],
        "tax": {"label": header.tax.label, "rate": header.tax.rate, "amount": money_text(totals.tax, currency)},
        "total": money_text(totals.total, currency),
        "hours": [{"hour": time_text(hour.hour), "run": hour.run, "digest": hour.digest} for hour in hours],
        "hours_missing": [time_text(hour) for hour in hours_missing],
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
                {"units": decimal_text(part.units), "price": decimal_text(part.price, 18), "flat": decimal_text(part.flat, 18)}
                for part in line.parts
            ],
        }
    if line.shares:
        shown["namespaces"] = [
            {"namespace": share.namespace, "quantity": share.quantity, "amount": money_text(share.amount, currency)}
            for share in line.shares
        ]
    if line.of_invoice:
        shown |= {"of_invoice": line.of_invoice, "runs": list(line.runs)}
    return shown


def segments_in(document: Mapping[str, Any]) -> list[Segment]:
    """The segments that an invoice was rated by, with the plans it holds. Raises `RatingError`, `KeyError`."""
    versions = {(plan["plan"], plan["version"]): plan_from(dict(plan)) for plan in document["plans"]}
    return [
        Segment(time_of(segment["start"]), time_of(segment["end"]), versions[segment["plan"], segment["version"]])
        for segment in document["segments"]
    ]


def time_text(at: datetime) -> str:
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def time_of(text: str) -> datetime:
    """Raises `ValueError`."""
    return datetime.fromisoformat(text).astimezone(UTC)
