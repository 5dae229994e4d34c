"""The rows of a month's charges, by day and summed: only those that changed are written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing.attribution import Amounts, PartKey
from workers.billing.exact_sums import columns_of, quantity_of
from workers.billing.models import Charge, CostSeries, MonthCharge
from workers.rating.rate import month_of

ROWS_A_WRITE = 2000
DELETED_TOGETHER = 500  # ids of one statement
SERIES = ("namespace", "topic", "subscription", "key")
RowKey = tuple[int, date, str]  # series, day, meter


def write_charges(tenant: Tenant, start: datetime, charges: Mapping[PartKey, Amounts], currency: str) -> int:
    """Makes the charges of the month that begins at `start` these. Returns how many rows were written or deleted. Call it in a
    transaction."""
    month, following = start.date(), month_of(start)[1].date()
    months: dict[PartKey, Amounts] = defaultdict(lambda: (0, 0))
    for (*names, _, meter), (quantity, nano) in charges.items():
        namespace, topic, subscription, name = names
        key = (namespace, topic, subscription, name, month, meter)
        months[key] = (months[key][0] + quantity, months[key][1] + nano)
    series = _series_of(tenant, {key[:4] for key in charges})
    with platform_scope():
        days = Charge.objects.filter(series__tenant_uid=tenant.uid, day__gte=month, day__lt=following)
        sums = MonthCharge.objects.filter(series__tenant_uid=tenant.uid, day=month)
    return sum(
        _write(table, held, {(series[key[:4]], key[4], key[5]): (*values, currency) for key, values in wanted.items()})
        for table, held, wanted in ((Charge, days, charges), (MonthCharge, sums, months))
    )


def _series_of(tenant: Tenant, wanted: set[tuple[str, str, str, str]]) -> dict[tuple[str, ...], int]:
    with platform_scope():
        rows = CostSeries.objects.filter(tenant_uid=tenant.uid).values_list("pk", *SERIES)
        known: dict[tuple[str, ...], int] = {tuple(names): pk for pk, *names in rows}
        made = CostSeries.objects.bulk_create(
            (
                CostSeries(tenant=tenant.name, tenant_uid=tenant.uid, **dict(zip(SERIES, names, strict=True)))
                for names in sorted(wanted - set(known))
            ),
            batch_size=ROWS_A_WRITE,
        )
    return known | {(one.namespace, one.topic, one.subscription, one.key): one.pk for one in made}


def _write(table: Any, held: Any, wanted: Mapping[RowKey, tuple[int, int, str]]) -> int:
    left = dict(wanted)
    gone: list[int] = []
    rows = held.order_by().values_list("pk", "series_id", "day", "meter", "quantity_high", "quantity", "nano", "currency")
    for pk, series, day, meter, high, low, *values in rows.iterator(ROWS_A_WRITE):
        new = left.get((series, day, meter))
        if new is None:
            gone.append(pk)
        elif new == (quantity_of(high, low), *values):
            del left[series, day, meter]
    for begin in range(0, len(gone), DELETED_TOGETHER):
        held.filter(pk__in=gone[begin : begin + DELETED_TOGETHER]).delete()
    changed = (
        table(series_id=series, day=day, meter=meter, nano=nano, currency=currency, **columns_of(quantity))
        for (series, day, meter), (quantity, nano, currency) in left.items()
    )
    with platform_scope():
        table.objects.bulk_create(
            changed,
            batch_size=ROWS_A_WRITE,
            update_conflicts=True,
            unique_fields=["series", "day", "meter"],
            update_fields=["quantity", "quantity_high", "nano", "currency"],
        )
    return len(gone) + len(left)
