"""Days and months of a run into the database, and what a run changed of months that were closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from django.db.models import Sum

from messaging.json_types import decoder_of
from spark_jobs.checksum import HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.config import Result
from workers.models import UsageCorrection, UsageHour, UsagePartition, UsagePeriod, UsagePeriodPartition, UsageRun
from workers.usage_run import RunFailed

CLOSED_AFTER = timedelta(hours=72)  # after its last hour a month is still open for what comes late
ROWS_AN_INSERT = 500
SUMS: tuple[str, ...] = HOUR_COLUMNS[5:]
Sums = dict[tuple[datetime, str, str], dict[str, int]]  # by hour, tenant and its uid


def load_periods(run: UsageRun, result: Result, rows: Path, now: datetime, tenant_uids: dict[str, str]) -> None:
    """Replaces the rows of each day and month of `result` by those below `rows`, and flips their pointers. `tenant_uids`: of
    tenants by name, for records that do not say whose they are. Raises `RunFailed`."""
    names = [period.name for period in result.periods]
    UsagePeriod.objects.filter(period__in=names).delete()
    for period in result.periods:
        count = digests = 0
        for batch in _batches(rows / "periods" / f"{period.name}.json"):
            for row in batch:
                count += 1
                digests += row_digest(row.values())
            UsagePeriod.objects.bulk_create(_model(row, run, tenant_uids) for row in batch)
        checksum = checksum_text(count, digests)
        if checksum != period.checksum:
            raise RunFailed(
                f"{period.name} has checksum {checksum} on disk but {period.checksum} in the job's result: nothing was published"
            )
        UsagePeriodPartition.objects.update_or_create(
            period=period.name,
            defaults={"run": run, "checksum": checksum, "rows": count, "parts": period.parts, "updated_at": now},
        )


def current_hours(since: datetime) -> dict[str, str]:
    """Hour -> the run of its current version, of hours with usage."""
    partitions = UsagePartition.objects.filter(hour__gte=since.replace(hour=0, minute=0), rows__gt=0)
    return {f"{hour:%Y-%m-%dT%H}": run for hour, run in partitions.values_list("hour", "run_id")}


def current_days(since: datetime) -> dict[str, str]:
    partitions = UsagePeriodPartition.objects.filter(period__gte=f"{since:%Y-%m}-01", rows__gt=0)
    return {day: run for day, run in partitions.values_list("period", "run_id") if len(day) == 10}


def is_closed(hour: datetime, now: datetime) -> bool:
    """Whether the month of this hour is."""
    following = (hour.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
    return now >= following + CLOSED_AFTER


def sums_of(hours: Iterable[datetime]) -> Sums:
    rows = UsageHour.objects.filter(hour__in=list(hours)).order_by().values("hour", "tenant", "tenant_uid")
    summed: Iterable[Mapping[str, Any]] = rows.annotate(**{f"{name}_sum": Sum(name) for name in SUMS})
    return {(row["hour"], row["tenant"], row["tenant_uid"]): {name: row[f"{name}_sum"] for name in SUMS} for row in summed}


def note_corrections(run: UsageRun, before: Sums, after: Sums, previous: dict[datetime, str], now: datetime) -> int:
    """Records the differences; how many there are. `previous`: hour -> the run of the version before."""
    nothing = dict.fromkeys(SUMS, 0)
    corrections = []
    for key in sorted(set(before) | set(after)):
        old, new = before.get(key, nothing), after.get(key, nothing)
        changes = {name: new[name] - old[name] for name in SUMS if new[name] != old[name]}
        hour, tenant, tenant_uid = key
        if changes:
            corrections.append(
                UsageCorrection(
                    hour=hour,
                    tenant=tenant,
                    tenant_uid=tenant_uid,
                    run=run,
                    previous_run_id=previous[hour],
                    found_at=now,
                    changes=changes,
                )
            )
    UsageCorrection.objects.bulk_create(corrections)
    return len(corrections)


class _Row(msgspec.Struct):
    period: str
    tenant: str
    tenant_uid: str
    namespace: str
    topic: str
    messages_in: Decimal  # these come as texts
    bytes_in: Decimal
    messages_out: Decimal
    bytes_out: Decimal
    stored_byte_seconds: Decimal
    backlog_entry_seconds: Decimal
    api_calls: Decimal
    connection_seconds: Decimal

    def values(self) -> list[Any]:
        return [getattr(self, name) for name in self.__struct_fields__]


def _model(row: _Row, run: UsageRun, tenant_uids: dict[str, str]) -> UsagePeriod:
    fields = {name: getattr(row, name) for name in row.__struct_fields__}
    fields["tenant_uid"] = row.tenant_uid or tenant_uids.get(row.tenant, "")
    return UsagePeriod(run=run, **fields)


def _batches(path: Path) -> Iterator[list[_Row]]:
    if not path.exists():
        return
    decoder = decoder_of(_Row)
    with path.open("rb") as lines:
        while batch := [decoder.decode(line) for line in islice(lines, ROWS_AN_INSERT)]:
            yield batch
