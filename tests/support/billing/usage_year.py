"""A year of charges of many topics, as the task leaves them: what the pages of costs are looked at with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random

from tenants.models import Tenant
from workers.billing.exact_sums import columns_of
from workers.billing.models import Charge, CostSeries, MonthCharge

GIB = 2**30
# meter -> (most of one topic and day, cost in 10^-9 of the currency for 1,000 base units)
METERS = {
    "bytes_in": (2 * GIB, 50),
    "bytes_out": (5 * GIB, 80),
    "messages_in": (2_000_000, 400),
    "stored_byte_seconds": (20 * GIB * 86_400, 0.00005),
}
ROWS_AN_INSERT = 5000


def fill_year(tenant: Tenant, last: date, topics: int = 1000, namespaces: int = 20, days: int = 365, seed: int = 17) -> int:
    """Charges for every topic and day; a tenth of the topics is deleted half-way. Returns how many rows there are."""
    random = Random(seed)
    places = [(f"{tenant.name}/team-{index % namespaces:02d}", f"events-{index:04d}") for index in range(topics)]
    series = CostSeries.unscoped.bulk_create(
        CostSeries(tenant=tenant.name, tenant_uid=tenant.uid, namespace=namespace, topic=f"persistent://{namespace}/{topic}")
        for namespace, topic in places
    )
    sizes = [random.paretovariate(1.2) for _ in series]
    rows = 0
    months: dict[tuple[int, date, str], list[int]] = defaultdict(lambda: [0, 0])
    for start in range(0, days, 5):
        charges = list(_charges(series, sizes, last, range(start, min(start + 5, days)), days, random))
        Charge.unscoped.bulk_create(charges, batch_size=ROWS_AN_INSERT)
        rows += len(charges)
        for charge in charges:
            of_month = months[charge.series_id, charge.day.replace(day=1), charge.meter]
            of_month[0] += charge.quantity
            of_month[1] += charge.nano
    MonthCharge.unscoped.bulk_create(
        (
            MonthCharge(series_id=pk, day=day, meter=meter, nano=nano, currency="EUR", **columns_of(quantity))
            for (pk, day, meter), (quantity, nano) in months.items()
        ),
        batch_size=ROWS_AN_INSERT,
    )
    return rows


def _charges(series: list[CostSeries], sizes: list[float], last: date, ages: range, days: int, random: Random) -> Iterator[Charge]:
    for age in ages:
        day = last - timedelta(days=age)
        weekend = 0.5 if day.weekday() > 4 else 1.0
        for index, cost_series in enumerate(series):
            if index % 10 == 9 and age < days // 2:
                continue
            busy = min(1.0, sizes[index] / 50) * weekend * random.uniform(0.7, 1.0) * (1 - 0.4 * age / days)
            for meter, (most, price) in METERS.items():
                quantity = int(most * busy)
                yield Charge(
                    series=cost_series, day=day, meter=meter, quantity=quantity, nano=int(quantity * price / 1000), currency="EUR"
                )
