"""Invoices for people: one number is written in one way, wherever it stands."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from django.utils import translation
from hypothesis import assume, given
from hypothesis import strategies as st

from workers.billing.html import invoice_html
from workers.billing.pdf import invoice_pdf
from workers.billing.present import plain, present
from workers.billing.unit_texts import quantity_text
from workers.rating.money import decimal_text
from workers.rating.units import UNITS


@given(st.integers(0, 2**63), st.sampled_from(["GiB", "million messages", "GiB-month", "connection-hour", "byte"]))
def test_a_quantity_and_the_tier_that_took_it_agree_to_the_last_digit(quantity: int, unit: str) -> None:
    """A line of 1.234567 GiB was said to be about 1.234568 at its price."""
    assume(not quantity_text(quantity, unit).startswith("<"))
    of_tier = plain(decimal_text(Fraction(quantity, UNITS[unit].size)))
    assert quantity_text(quantity, unit).startswith(f"{of_tier.removeprefix('about ')} ")


def test_a_number_that_is_cut_is_shown_as_about() -> None:
    assert (plain("1.2345678"), plain("1.234567"), plain("1200"), plain("0.30")) == ("about 1.234567", "1.234567", "1,200", "0.3")


def test_what_is_less_than_can_be_shown_is_not_nothing() -> None:
    """A line of 0 GiB-hour cost 1.34 EUR."""
    assert (quantity_text(1, "GiB-hour"), quantity_text(0, "GiB-hour"), plain("0.0000001")) == (
        "<0.000001 GiB-hours", "0 GiB-hours", "<0.000001",
    )  # fmt: skip
    tiny = {**document()["lines"][0], "unit": "GiB-hour", "quantity": 1, "amount": "1.34", "included": 0, "tiers": []}
    with translation.override("de"):
        assert present(document(lines=[tiny])).lines[0].quantity == "<0,000001 GiB-Stunden"


def document(**changed: Any) -> dict[str, Any]:
    line = {
        "id": "usage bytes_in 2026-03-01T00:00:00Z", "kind": "usage", "title": "Bytes published", "meter": "bytes_in",
        "unit": "GiB", "start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z", "quantity": 1500 << 30, "amount": "1234.50",
        "tiers": [{"units": "1490", "price": "0.5", "flat": "0"}], "included": 10 << 30,
        "namespaces": [{"namespace": "", "quantity": 1500 << 30, "amount": "1234.50"}],
    }  # fmt: skip
    whole = {
        "state": "final", "kind": "invoice", "number": "2026-000001", "of_invoice": "", "issued_at": "2026-04-02T00:00:00Z",
        "currency": "EUR", "period": {"start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z"}, "due": "2026-04-16",
        "supplier": {"name": "Magnetar"}, "customer": {"tenant": "acme", "tax_id": "7"}, "lines": [line], "subtotal": "1234.50",
        "credits": [{"title": "Welcome", "amount": "50.00"}], "tax": {"label": "USt", "rate": "19.5", "amount": "230.98"},
        "total": "1415.48", "note": "",
    }  # fmt: skip
    return {**whole, **changed}


def test_an_invoice_is_in_the_language_that_is_in_use() -> None:
    with translation.override("de"):
        shown, html = present(document()), invoice_html(document())
    assert (shown.heading, shown.total) == ("Rechnung", ("Gesamtbetrag", "1.415,48 EUR"))
    assert [name for name, _ in shown.facts] == ["Nummer", "Datum", "Zeitraum (UTC)", "Fällig"]
    assert shown.customer == ("acme", "Steuernummer 7")
    (line,) = shown.lines
    assert (line.title, line.quantity, line.amount) == ("Veröffentlichte Bytes", "1.500 GiB", "1.234,50")
    assert line.detail == "2026-03-01 00:00 bis 2026-04-01 00:00; 1.490 zu je 0,5 EUR; 10 GiB im Monat enthalten"
    assert shown.sums == (("Zwischensumme", "1.234,50 EUR"), ("Guthaben: Welcome", "-50,00 EUR"), ("USt 19,5 %", "230,98 EUR"))
    assert shown.payment == "Bitte zahlen Sie 1.415,48 EUR bis zum 2026-04-16 unter Angabe von 2026-000001."
    assert shown.shares == (("Veröffentlichte Bytes", "kein Namespace", "1.500 GiB", "1.234,50"),)
    assert '<html lang="de">' in html and "Beschreibung" in html and "Description" not in html
    assert present(document()).heading == "Invoice" and "Description" in invoice_html(document())


@pytest.mark.parametrize(
    ("changed", "heading", "total"),
    [
        ({"state": "draft", "number": ""}, "Rechnung (Entwurf)", "Bisheriger Gesamtbetrag"),
        ({"kind": "credit_note", "total": "-5.00"}, "Gutschrift", "Zu Ihren Gunsten"),
    ],
)
def test_drafts_and_credit_notes_too(changed: dict[str, Any], heading: str, total: str) -> None:
    with translation.override("de"):
        shown, pdf = present(document(**changed)), invoice_pdf(document(**changed))
    assert (shown.heading, shown.total[0]) == (heading, total) and pdf.startswith(b"%PDF")
