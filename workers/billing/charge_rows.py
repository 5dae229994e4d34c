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
from workers.billing.models import NANO, Charge, CostSeries, MonthCharge
from workers.rating.errors import RatingError
from workers.rating.money import CURRENCIES
from workers.rating.rate import month_of

ROWS_A_WRITE = 2000
DELETED_TOGETHER = 500  # ids of one statement
SERIES = ("namespace", "topic", "subscription", "key")
RowKey = tuple[int, date, str, str]  # series, day, meter, currency
BOOKABLE_END = 2**63


def write_charges(tenant: Tenant, start: datetime, charges: Mapping[str, Mapping[PartKey, Amounts]]) -> int:
    """Makes the charges of the month that begins at `start` these, by currency. Returns how many rows were written or deleted. Call
    it in a transaction. Raises `RatingError` for an amount that no column holds."""
    month, following = start.date(), month_of(start)[1].date()
    days: dict[tuple[PartKey, str], Amounts] = {}
    months: dict[tuple[PartKey, str], Amounts] = defaultdict(lambda: (0, 0))
    for currency, of_currency in charges.items():
        for key, (quantity, nano) in of_currency.items():
            namespace, topic, subscription, name, _, meter = key
            whole = (namespace, topic, subscription, name, month, meter), currency
            days[key, currency] = quantity, nano
            months[whole] = (months[whole][0] + quantity, months[whole][1] + nano)
    for (key, currency), (_, nano) in months.items():
        check_bookable(nano, currency, f"{key[5]} of {key[1] or key[0] or tenant.name} in {start:%Y-%m}", NANO)
    series = _series_of(tenant, {key[:4] for key, _ in days})
    with platform_scope():
        held_days = Charge.objects.filter(series__tenant_uid=tenant.uid, day__gte=month, day__lt=following)
        held_months = MonthCharge.objects.filter(series__tenant_uid=tenant.uid, day=month)
    return sum(
        _write(table, stored, {(series[key[:4]], key[4], key[5], code): amounts for (key, code), amounts in wanted.items()})
        for table, stored, wanted in ((Charge, held_days, days), (MonthCharge, held_months, months))
    )


def check_bookable(amount: int, currency: str, what: str, units: int = 0) -> None:
    """`units`: of `amount` in one of the currency; 0: it is in minor units. Raises `RatingError`."""
    if abs(amount) >= BOOKABLE_END:
        units = units or 10 ** CURRENCIES[currency]
        raise RatingError(
            f"{what} would cost {amount // units:,} {currency}, more than can be booked: look at the price plan, at the units of "
            "its prices first"
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
    return known | {(series.namespace, series.topic, series.subscription, series.key): series.pk for series in made}


def _write(table: Any, stored: Any, wanted: Mapping[RowKey, Amounts]) -> int:
    left = dict(wanted)
    gone: list[int] = []
    rows = stored.order_by().values_list("pk", "series_id", "day", "meter", "currency", "quantity_high", "quantity", "nano")
    for pk, series, day, meter, currency, high, low, nano in rows.iterator(ROWS_A_WRITE):
        new = left.get((series, day, meter, currency))
        if new is None:
            gone.append(pk)
        elif new == (quantity_of(high, low), nano):
            del left[series, day, meter, currency]
    for begin in range(0, len(gone), DELETED_TOGETHER):
        stored.filter(pk__in=gone[begin : begin + DELETED_TOGETHER]).delete()
    changed = (
        table(series_id=series, day=day, meter=meter, nano=nano, currency=currency, **columns_of(quantity))
        for (series, day, meter, currency), (quantity, nano) in left.items()
    )
    with platform_scope():
        table.objects.bulk_create(
            changed,
            batch_size=ROWS_A_WRITE,
            update_conflicts=True,
            unique_fields=["series", "day", "meter", "currency"],
            update_fields=["quantity", "quantity_high", "nano"],
        )
    return len(gone) + len(left)
