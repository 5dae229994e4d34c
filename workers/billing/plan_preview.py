"""What a price plan would have made of the last month of a tenant. Computed as invoices are; nothing is stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenants.scoping import platform_scope
from workers.billing import exact_sums
from workers.billing.models import Invoice, MonthCharge
from workers.rating.plan import PlanVersion
from workers.rating.rate import HOUR, Line, Segment, month_of, rate
from workers.rating.units import METERS


@dataclass(frozen=True)
class PlanPreview:
    """`billed`: subtotal of the month's invoice, and its currency; "" where there is none."""

    month: datetime
    lines: Sequence[Line]
    total: int  # minor units, before credits and tax
    billed: str
    billed_currency: str


def preview(version: PlanVersion, tenant_uid: str, now: datetime) -> PlanPreview:
    """Of the last whole month, UTC, as if this version had been in force for all of it."""
    start, end = month_of(month_of(now)[0] - timedelta(days=1))
    used: dict[str, dict[str, int]] = {meter: defaultdict(int) for meter in METERS}
    with platform_scope():
        sums = MonthCharge.objects.filter(series__tenant_uid=tenant_uid, day=start.date(), meter__in=list(METERS)).order_by()
        for namespace, meter, *parts in sums.values_list("series__namespace", "meter").annotate(**exact_sums.sums()):
            used[meter][namespace] += exact_sums.exact(*parts)
        of_month = Invoice.objects.filter(tenant_uid=tenant_uid, start=start, kind=Invoice.Kind.INVOICE)
        invoice = next((invoice for invoice in of_month if invoice.document["segments"]), None)  # others have corrections alone
    lines = rate([Segment(start, end, version)], [used], (end - start) // HOUR)
    billed, currency = (invoice.document["subtotal"], invoice.currency) if invoice is not None else ("", "")
    return PlanPreview(start, lines, sum(line.amount for line in lines), billed, currency)
