"""The end of a month: drafts become final, once and for all; what was wrong is taken back by a credit note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from tenants.scoping import platform_scope
from workers.billing import headers
from workers.billing.corrections import statement_about
from workers.billing.models import Credit, Invoice
from workers.rating.credit import CARRIED_OVER, Tax, Totals
from workers.rating.credit_note import note_lines, note_totals
from workers.rating.document import CREDIT_NOTE, FINAL, InvoiceHeader, invoice_document, time_text
from workers.rating.errors import RatingError
from workers.rating.money import minor_of
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
    """What the invoice says is carried over is a credit for the next ones."""
    left = -sum(
        minor_of(credit["amount"], invoice.currency, "credit")
        for credit in invoice.document["credits"]
        if credit["id"] == CARRIED_OVER
    )
    if left > 0:
        Credit.objects.create(
            tenant=invoice.tenant,
            tenant_uid=invoice.tenant_uid,
            title=f"Carried over from {invoice.number}",
            currency=invoice.currency,
            amount_minor=left,
            created_at=now,
        )


def make_credit_note(invoice: Invoice, amounts: Mapping[str, str] | None, note: str, now: datetime) -> Invoice:
    """Takes back the whole invoice (`amounts` None), or of some lines an amount each (line id -> text), with their part of credits
    and tax.

    Raises `PreconditionFailed` for a draft and for more than is left, `NotFound` for a line it does not have."""
    if invoice.state != Invoice.State.FINAL or invoice.kind != Invoice.Kind.INVOICE:
        raise PreconditionFailed("only final invoices are taken back: a draft changes by itself")
    with transaction.atomic(), platform_scope():
        number = headers.next_number(now)  # holds the lock: two at once do not take back the same line twice
        earlier = list(Invoice.objects.filter(of_invoice=invoice).values_list("document", flat=True))
        left = statement_about(invoice).left(str(invoice.number))
        try:
            lines = note_lines(invoice.document, left, _asked(left, amounts, invoice.currency), earlier)
        except RatingError as error:
            raise PreconditionFailed(str(error)) from None
        document = _document(invoice, lines, note_totals(invoice.document, lines, earlier), note, number, now)
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


def _asked(left: Mapping[str, int], amounts: Mapping[str, str] | None, currency: str) -> dict[str, int] | None:
    if amounts is None:
        return None
    asked = {}
    for name, text in amounts.items():
        if name not in left:
            raise NotFound(f"the invoice has no line {name[:80]!r}")
        try:
            asked[name] = minor_of(text, currency, f"the amount of {name}")
        except RatingError as error:
            raise InvalidValue(str(error)) from None
    return asked


def _document(invoice: Invoice, lines: Sequence[Line], totals: Totals, note: str, number: str, now: datetime) -> dict[str, Any]:
    was = invoice.document
    header = InvoiceHeader(
        kind=CREDIT_NOTE,
        state=FINAL,
        number=number,
        issued_at=now,
        customer=was["customer"],
        supplier=was["supplier"],
        tax=Tax(was["tax"]["label"], was["tax"]["rate"]),
        note=note,
        of_invoice=was["number"],
    )
    return invoice_document(header, (invoice.start, invoice.end), invoice.currency, [], lines, totals)
