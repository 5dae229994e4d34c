"""Which months of a tenant are open, and whether the charges of a span of days are those of the usage there is."""

from __future__ import annotations

from datetime import UTC, date, datetime

from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing import usage
from workers.billing.drafts import charges_are_of, inputs_of
from workers.billing.models import Invoice, PlanAssignment
from workers.rating.months import open_months


def open_months_of(tenant: Tenant, now: datetime) -> list[datetime]:
    """Starts of the months that have usage, a plan or a draft and no final invoice, the oldest first. A tenant that was deleted
    owes nothing after its last usage but for months that were begun while it was there."""
    with platform_scope():
        invoices = Invoice.objects.filter(tenant_uid=tenant.uid, kind=Invoice.Kind.INVOICE)
        states = list(invoices.values_list("start", "state"))
        plans = list(PlanAssignment.objects.filter(tenant_uid=tenant.uid).values_list("starts_at", flat=True))
    first = usage.first_hour(tenant.uid)
    last = now if tenant.created_at else usage.last_hour(tenant.uid)
    drafts = {start for start, state in states if state == Invoice.State.DRAFT}
    since = min([*plans, *([first] if first else [])], default=None)
    return open_months(since, last, drafts, {start for start, _ in states} - drafts)


def charges_are_current(tenant: Tenant, first: date, last: date, now: datetime) -> bool:
    """Whether nothing is to be charged anew in the months of these days: reports of them are of all usage that was computed."""
    start = datetime(first.year, first.month, 1, tzinfo=UTC)
    span = [month for month in open_months_of(tenant, now) if start <= month and month.date() <= last]
    return all(charges_are_of(tenant, month, inputs_of(tenant, month, now)) for month in span)
