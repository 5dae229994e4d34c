"""The one place where billing reads usage: hourly rows through the pointer. What changes beneath them changes this module alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import F, QuerySet, Sum

from tenants.scoping import platform_scope
from workers.detail_models import UsageDetail
from workers.models import UsageHour, UsagePartition, UsageRun
from workers.rating.digest import hour_digest, row_digest
from workers.rating.rate import HOUR
from workers.rating.units import METERS
from workers.rating.verify import UsageRow

METER_NAMES = tuple(METERS)
PART_METERS = tuple(meter for meter in METER_NAMES if meter != "stored_byte_seconds")  # storage is of all readers
ROWS_A_READ = 2000


class Used(NamedTuple):
    """What a topic used in a span of time. `quantities` are in the order of `METER_NAMES`."""

    namespace: str
    topic: str
    quantities: tuple[int, ...]


class UsedPart(NamedTuple):
    """What of a topic's usage was one subscription's and key's; only meters that can be told apart have quantities."""

    namespace: str
    topic: str
    subscription: str
    key: str
    quantities: Mapping[str, int]

    @property
    def size(self) -> int:
        """To compare parts by."""
        return sum(value // 3600 if meter.endswith("_seconds") else value for meter, value in self.quantities.items())


def runs_of_hours(start: datetime, end: datetime) -> dict[datetime, str]:
    """Hour -> the run whose version of it is the current one; an hour that was never computed is not there."""
    hours = UsagePartition.objects.filter(hour__gte=start, hour__lt=end)
    return dict(hours.order_by("hour").values_list("hour", "run_id"))


def computed_until() -> datetime | None:
    """Usage before this is computed, but for holes; None: none is."""
    newest = whole_partitions().order_by("-hour").values_list("hour", flat=True).first()
    return newest + HOUR if newest is not None else None


def whole_partitions() -> QuerySet[UsagePartition]:
    """Of hours that were over when their run began: of one that began while the hour ran, there is only a part."""
    return UsagePartition.objects.exclude(run__started_at__gte=F("hour"), run__started_at__lt=F("hour") + HOUR)


def inputs_of(run_ids: set[str]) -> dict[str, dict[str, object]]:
    """Run -> when it finished, and how many files its hours were computed from: those that it read, and those of which earlier
    runs had kept the sums."""
    runs = UsageRun.objects.filter(run_id__in=run_ids).values_list("run_id", "finished_at", "files")
    return {run: {"finished_at": at, "files": files} for run, at, files in runs}


def newest_complete_run() -> datetime | None:
    """When the newest run that succeeded began."""
    runs = UsageRun.objects.filter(outcome=UsageRun.Outcome.SUCCEEDED, started_at__isnull=False)
    return runs.order_by("-started_at").values_list("started_at", flat=True).first()


def used_between(tenant_uid: str, start: datetime, end: datetime) -> list[Used]:
    """Of each topic, summed in the database."""
    with platform_scope():
        rows = UsageHour.objects.filter(tenant_uid=tenant_uid, hour__gte=start, hour__lt=end)
        sums = {f"sum_{meter}": Sum(meter) for meter in METER_NAMES}
        summed = rows.order_by().values_list("namespace", "topic").annotate(**sums)
        return [Used(row[0], row[1], tuple(row[2:])) for row in summed]


def parts_between(tenant_uid: str, start: datetime, end: datetime) -> Iterator[UsedPart]:
    """Of each topic, subscription and key, summed in the database."""
    with platform_scope():
        rows = UsageDetail.objects.filter(tenant_uid=tenant_uid, hour__gte=start, hour__lt=end)
        sums = {f"sum_{meter}": Sum(meter) for meter in PART_METERS}
        summed = rows.order_by().values_list("namespace", "topic", "subscription", "key").annotate(**sums)
    for namespace, topic, subscription, key, *values in summed.iterator(ROWS_A_READ):
        yield UsedPart(namespace, topic, subscription, key, dict(zip(PART_METERS, values, strict=True)))


def rows_between(tenant_uid: str, start: datetime, end: datetime, topic: str = "") -> Iterator[UsageRow]:
    """Every hour of every topic, by hour and topic; read in pieces."""
    with platform_scope():
        rows = UsageHour.objects.filter(tenant_uid=tenant_uid, hour__gte=start, hour__lt=end)
        rows = rows.filter(topic=topic) if topic else rows
        hours = rows.order_by("hour", "topic").values_list("hour", "namespace", "topic", *METER_NAMES)
    for hour, namespace, name, *values in hours.iterator(ROWS_A_READ):
        yield UsageRow(hour, namespace, name, dict(zip(METER_NAMES, values, strict=True)))


def hours_with_usage(tenant_uid: str, start: datetime, end: datetime) -> dict[datetime, str]:
    """Hour -> the run that its rows are from."""
    with platform_scope():
        rows = UsageHour.objects.filter(tenant_uid=tenant_uid, hour__gte=start, hour__lt=end)
        return dict(rows.order_by("hour").values_list("hour", "run_id").distinct())


def digest_of(tenant_uid: str, hour: datetime) -> tuple[str, dict[str, int]]:
    """The digest of an hour's rows, and their totals by meter."""
    totals: dict[str, int] = defaultdict(int)

    def counted() -> Iterator[int]:
        for row in rows_between(tenant_uid, hour, hour + HOUR):
            for meter, quantity in row.quantities.items():
                totals[meter] += quantity
            yield row_digest(row.namespace, row.topic, row.quantities)

    return hour_digest(counted()), {meter: total for meter, total in totals.items() if total}


def totals_of_hours(tenant_uid: str, meter: str, first: datetime, last: datetime) -> dict[datetime, int]:
    """What all topics used of a meter in each hour from `first` to `last`, summed in the database."""
    with platform_scope():
        rows = UsageHour.objects.filter(tenant_uid=tenant_uid, hour__gte=first, hour__lte=last)
    return dict(rows.order_by().values_list("hour").annotate(Sum(meter)))


def first_hour(tenant_uid: str) -> datetime | None:
    with platform_scope():
        return UsageHour.objects.filter(tenant_uid=tenant_uid).order_by("hour").values_list("hour", flat=True).first()


def last_hour(tenant_uid: str) -> datetime | None:
    with platform_scope():
        return UsageHour.objects.filter(tenant_uid=tenant_uid).order_by("-hour").values_list("hour", flat=True).first()


def days_between(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The days of a span, the first and the last cut to it."""
    at = start
    while at < end:
        following = min(end, at.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1))
        yield at, following
        at = following
