"""A customer checks an invoice: what agrees, and what is said of each thing that does not."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from workers.rating.credit import Credit, Tax, totals_of
from workers.rating.digest import hour_digest, row_digest
from workers.rating.document import FINAL, BilledHour, InvoiceHeader, invoice_document
from workers.rating.errors import RatingError
from workers.rating.plan import plan_from
from workers.rating.rate import rate, segments_of
from workers.rating.verify import UsageRow, verify

START, END = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
GIB = 2**30
PLAN: dict[str, Any] = {
    "plan": "standard",
    "version": 1,
    "currency": "EUR",
    "in_force_from": "2026-01-01T00:00:00Z",
    "base_fee": "29.00",
    "prices": [
        {"meter": "bytes_in", "unit": "GiB", "model": "graduated", "tiers": [{"up_to": "100", "price": "0.05"}, {"price": "0.03"}]},
        {"meter": "messages_in", "unit": "million messages", "price": "0.40"},
    ],
}
NEXT = {**PLAN, "version": 2, "in_force_from": "2026-02-15T00:00:00Z", "base_fee": "39.00"}


def usage() -> list[UsageRow]:
    random = Random(17)
    return [
        UsageRow(
            START + index * HOUR, f"acme/{name}", f"persistent://acme/{name}/t",
            {"bytes_in": random.randint(0, GIB), "messages_in": random.randint(0, 10**6), "bytes_out": 0},
        )
        for index in range(0, 28 * 24, 7)
        for name in ("orders", "sensors")
    ]  # fmt: skip


def invoice_of(rows: list[UsageRow], *plans: dict[str, Any]) -> dict[str, Any]:
    versions = [plan_from(plan) for plan in plans]
    segments = segments_of(START, END, [(START, "standard")], {"standard": versions})
    used: list[dict[str, dict[str, int]]] = [{"bytes_in": {}, "messages_in": {}} for _ in segments]
    hours: dict[datetime, list[int]] = {START + index * HOUR: [] for index in range(28 * 24)}
    for row in rows:
        hours[row.hour].append(row_digest(row.namespace, row.topic, row.quantities))
        into = used[next(index for index, segment in enumerate(segments) if segment.start <= row.hour < segment.end)]
        for meter in into:
            into[meter][row.namespace] = into[meter].get(row.namespace, 0) + row.quantities[meter]
    lines = rate(segments, used, 28 * 24)
    tax = Tax("VAT", "19")
    totals = totals_of((line.amount for line in lines), [Credit("c", "Welcome", 500)], tax)
    header = InvoiceHeader(state=FINAL, number="2026-000001", issued_at=END, tax=tax, customer={"name": "Acme"})
    billed = [BilledHour(hour, "run-1", hour_digest(digests)) for hour, digests in hours.items()]
    return invoice_document(header, (START, END), "EUR", segments, lines, totals, billed)


@pytest.fixture
def invoice() -> dict[str, Any]:
    return invoice_of(usage(), PLAN, NEXT)


def test_an_invoice_that_is_right_agrees_in_any_order(invoice: dict[str, Any]) -> None:
    rows = usage()
    Random(1).shuffle(rows)
    report = verify(invoice, rows, [PLAN, NEXT])
    assert report.agrees and report.notes == []
    assert (report.lines, report.hours, report.rows) == (6, 672, 192)
    assert verify(invoice, rows).agrees  # with the plans in the invoice


def test_a_line_that_was_changed_is_named(invoice: dict[str, Any]) -> None:
    line = next(line for line in invoice["lines"] if line["id"] == "bytes_in@2026-02-15T00")
    was, line["amount"] = line["amount"], "99.00"
    report = verify(invoice, usage(), [PLAN, NEXT])
    assert "it bills 99.00 EUR" in report.differences["bytes_in@2026-02-15T00"]
    assert f"{was} EUR is due; the line was changed" in report.differences["bytes_in@2026-02-15T00"]
    assert set(report.differences) == {"bytes_in@2026-02-15T00", "subtotal", "tax", "total"}


def test_usage_that_was_changed_names_its_hour(invoice: dict[str, Any]) -> None:
    rows = usage()
    rows[0] = rows[0]._replace(quantities={**rows[0].quantities, "bytes_in": rows[0].quantities["bytes_in"] + 5 * GIB})
    report = verify(invoice, rows, [PLAN, NEXT])
    assert report.differences["hours"] == "different from what was billed: hour 2026-02-01T00:00:00Z"
    assert (
        "because of usage different from what was billed: hour 2026-02-01T00:00:00Z" in report.differences["bytes_in@2026-02-01T00"]
    )
    assert "total" not in report.differences


def test_an_hour_that_is_missing_is_said(invoice: dict[str, Any]) -> None:
    gone = START + 7 * HOUR
    report = verify(invoice, [row for row in usage() if row.hour != gone], [PLAN, NEXT])
    assert report.differences["hours"] == "missing in your usage: hour 2026-02-01T07:00:00Z"
    assert "your usage has" in report.differences["messages_in@2026-02-01T00"]


def test_an_hour_that_was_not_billed_is_said(invoice: dict[str, Any]) -> None:
    more = UsageRow(START + HOUR, "acme/orders", "persistent://acme/orders/t", {"bytes_in": 1})
    assert verify(invoice, [*usage(), more]).differences["hours"] == "not billed: hour 2026-02-01T01:00:00Z"
    outside = more._replace(hour=END)
    assert verify(invoice, [*usage(), outside]).agrees  # the next month's


def test_another_version_of_the_plan_is_named(invoice: dict[str, Any]) -> None:
    report = verify(invoice, usage(), [PLAN])
    assert report.differences["plan standard version 2"] == "the invoice was made with it; you gave version 1"
    assert "because of the price plan" in report.differences["base_fee@2026-02-15T00"]
    changed = copy.deepcopy(NEXT)
    changed["prices"][0]["tiers"][0]["price"] = "0.04"
    report = verify(invoice, usage(), [PLAN, changed])
    assert report.differences["plan standard version 2"] == "yours is another than that in the invoice: prices differ"
    assert "bytes_in@2026-02-15T00" in report.differences and "bytes_in@2026-02-01T00" not in report.differences


def test_a_line_too_many_and_a_line_too_few(invoice: dict[str, Any]) -> None:
    invoice["lines"].append({**invoice["lines"][0], "id": "support@2026-02-01T00", "amount": "10.00"})
    removed = invoice["lines"].pop(1)
    report = verify(invoice, usage())
    assert "and nothing is due" in report.differences["support@2026-02-01T00"]
    assert "has no such line" in report.differences[removed["id"]]


def test_sums_tax_and_credits_are_added_again(invoice: dict[str, Any]) -> None:
    invoice["total"] = "1.00"
    assert "it says 1.00 EUR, its lines make" in verify(invoice, usage()).differences["total"]
    invoice["tax"]["rate"] = "7"
    assert {"tax", "total"} <= set(verify(invoice, usage()).differences)


@pytest.mark.parametrize(
    "document", [{}, {"schema": 2}, {"schema": 1, "kind": "credit_note", "of_invoice": "2026-1"}, {"schema": 1}]
)
def test_a_document_that_is_no_invoice_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(RatingError):
        verify(document, [])


def test_a_tampered_plan_inside_the_invoice_shows_beside_the_customers_own(invoice: dict[str, Any]) -> None:
    invoice["plans"][0] = {**invoice["plans"][0], "base_fee": "290.00"}
    assert "base_fee differ" in verify(invoice, usage(), [PLAN, NEXT]).differences["plan standard version 1"]
