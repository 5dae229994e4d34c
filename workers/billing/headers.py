"""What an invoice takes from the tables beside usage and prices: who sends it, who pays it, credits, and the next number."""

from __future__ import annotations

from datetime import date, datetime

from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing.models import BillingAccount, Credit, Invoice, Issuer
from workers.rating import credit
from workers.rating.document import InvoiceHeader


def issuer() -> Issuer:
    return Issuer.objects.first() or Issuer()


def account_of(tenant_uid: str, tenant: str) -> BillingAccount:
    """Its row, or an unsaved one with nothing in it."""
    with platform_scope():
        account = BillingAccount.objects.filter(tenant_uid=tenant_uid).first()
    return account or BillingAccount(tenant=tenant, tenant_uid=tenant_uid)


def header_of(tenant: Tenant) -> InvoiceHeader:
    """Of a draft."""
    account = account_of(tenant.uid, tenant.name)
    return InvoiceHeader(
        customer={"tenant": tenant.name, "tenant_uid": tenant.uid, **account.details},
        supplier=issuer().details,
        tax=credit.Tax(account.tax_label, account.tax_rate),
    )


def credits_of(tenant_uid: str, currency: str, last_day: date) -> list[credit.Credit]:
    """What is left of each credit that is valid on the last day of a period, less what final invoices used and credit notes gave
    back."""
    with platform_scope():
        granted = [
            credit.Credit(row.id, row.title, row.amount_minor, row.expires.isoformat() if row.expires else "")
            for row in Credit.objects.filter(tenant_uid=tenant_uid, currency=currency)
        ]
        if not granted:
            return []
        finals = Invoice.objects.filter(tenant_uid=tenant_uid, state=Invoice.State.FINAL, currency=currency)
        return credit.credits_left(granted, finals.values_list("document", flat=True).iterator(), last_day)


def next_number(at: datetime) -> str:
    """Without gaps: call it in the transaction that stores the document, which holds the row until its end."""
    row = lock_numbers()
    if row.year != at.year:
        row.year, row.numbered = at.year, 0
    row.numbered += 1
    row.save(update_fields=["year", "numbered"])
    return f"{row.year}-{row.numbered:06d}"


def lock_numbers() -> Issuer:
    """Until the end of the transaction no other document becomes final."""
    Issuer.objects.get_or_create(pk=1)
    return Issuer.objects.select_for_update().get(pk=1)
