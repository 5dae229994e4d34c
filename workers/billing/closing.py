"""The end of a month: drafts become final, once and for all; what was wrong is taken back by a credit note."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from tenants.scoping import platform_scope
from workers.billing import headers
from workers.billing.models import Credit, Invoice
from workers.rating.credit import Tax, Totals, UsedCredit, tax_on
from workers.rating.document import CREDIT_NOTE, FINAL, InvoiceHeader, invoice_document, time_of, time_text
from workers.rating.errors import RatingError
from workers.rating.money import minor_of, money_text
from workers.rating.rate import Line


def finalize(invoice_id: str, now: datetime) -> Invoice:
    """Gives the draft its number and makes it final. A final one is returned as it is, so twice is harmless."""
    with transaction.atomic(), platform_scope():
        invoice = Invoice.objects.select_for_update().get(pk=invoice_id)
        if invoice.state == Invoice.State.FINAL:
            return invoice
        account_days = headers.account_of(invoice.tenant_uid, invoice.tenant).payment_days
        invoice.number = headers.next_number(now)
        invoice.document = {
            **invoice.document,
            "state": FINAL,
            "number": invoice.number,
            "issued_at": time_text(now),
            "due": (now + timedelta(days=account_days)).date().isoformat(),
        }
        invoice.state = Invoice.State.FINAL
        invoice.issued_at = now
        invoice.save()
        _carry_over(invoice, now)
        return invoice


def _carry_over(invoice: Invoice, now: datetime) -> None:
    """What is below 0 before tax (corrections were more than the month) is a credit for the next invoices."""
    document, currency = invoice.document, invoice.currency
    used = sum(minor_of(one["amount"], currency, "credit") for one in document["credits"])
    left = minor_of(document["subtotal"], currency, "subtotal") - used
    if left < 0:
        Credit.objects.create(
            tenant=invoice.tenant,
            tenant_uid=invoice.tenant_uid,
            title=f"Carried over from {invoice.number}",
            currency=currency,
            amount_minor=-left,
            created_at=now,
        )


def make_credit_note(invoice: Invoice, amounts: Mapping[str, str] | None, note: str, now: datetime) -> Invoice:
    """Takes back the whole invoice (`amounts` None), credits included, or of some lines an amount each (line id -> text).

    Raises `PreconditionFailed` for a draft and for more than is left of a line, `NotFound` for a line it does not have."""
    if invoice.state != Invoice.State.FINAL or invoice.kind != Invoice.Kind.INVOICE:
        raise PreconditionFailed("only final invoices are taken back: a draft changes by itself")
    with transaction.atomic(), platform_scope():
        number = headers.next_number(now)  # holds the lock: two at once do not take back the same line twice
        earlier = [one.document for one in Invoice.objects.filter(of_invoice=invoice)]
        lines = _lines(invoice.document, earlier, amounts)
        document = _document(invoice, lines, note, number, now, whole=amounts is None)
        return Invoice.objects.create(
            tenant=invoice.tenant,
            tenant_uid=invoice.tenant_uid,
            kind=Invoice.Kind.CREDIT_NOTE,
            state=Invoice.State.FINAL,
            number=document["number"],
            of_invoice=invoice,
            start=invoice.start,
            end=invoice.end,
            currency=invoice.currency,
            total_minor=minor_of(document["total"], invoice.currency, "total"),
            document=document,
            made_at=now,
            issued_at=now,
        )


def _lines(document: Mapping[str, Any], earlier: list[Any], amounts: Mapping[str, str] | None) -> list[Line]:
    currency = document["currency"]
    left = {line["id"]: minor_of(line["amount"], currency, "amount") for line in document["lines"]}
    titles = {line["id"]: line for line in document["lines"]}
    for other in earlier:
        for line in other["lines"]:
            left[line["id"]] += minor_of(line["amount"], currency, "amount")
    if amounts is None:
        if earlier:
            raise PreconditionFailed("a part of this invoice was taken back before: name the lines to take back now")
        asked = left
    else:
        asked = {}
        for name, text in amounts.items():
            if name not in left:
                raise NotFound(f"the invoice has no line {name[:80]!r}")
            try:
                asked[name] = minor_of(text, currency, f"the amount of {name}")
            except RatingError as error:
                raise InvalidValue(str(error)) from None
            if not 0 < asked[name] <= left[name]:
                raise PreconditionFailed(f"{name}: {money_text(left[name], currency)} {currency} are left to take back")
    return [
        Line(name, CREDIT_NOTE, titles[name]["title"], time_of(titles[name]["start"]), time_of(titles[name]["end"]), -amount)
        for name, amount in asked.items()
        if amount
    ]


def _document(invoice: Invoice, lines: list[Line], note: str, number: str, now: datetime, *, whole: bool) -> dict[str, Any]:
    was, currency = invoice.document, invoice.currency
    tax = Tax(was["tax"]["label"], was["tax"]["rate"])
    subtotal = sum(line.amount for line in lines)
    credits = [UsedCredit(one["id"], one["title"], -minor_of(one["amount"], currency, "credit")) for one in was["credits"] if whole]
    taxable = subtotal - sum(one.amount for one in credits)
    taxed = -minor_of(was["tax"]["amount"], currency, "tax") if whole else tax_on(taxable, tax)
    header = InvoiceHeader(
        kind=CREDIT_NOTE,
        state=FINAL,
        number=number,
        issued_at=now,
        customer=was["customer"],
        supplier=was["supplier"],
        tax=tax,
        note=note,
        of_invoice=was["number"],
    )
    totals = Totals(subtotal, tuple(credits), taxed, taxable + taxed)
    return invoice_document(header, (invoice.start, invoice.end), currency, [], lines, totals)
