"""Days and months of a run into the database, and what a run changed of months that were closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
from django.db.models import QuerySet, Sum

from spark_jobs.checksum import HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.config import Result
from workers.models import UsageCorrection, UsageHour, UsagePartition, UsagePeriod, UsagePeriodPartition, UsageRun
from workers.usage_pieces import Pieces, lines_of
from workers.usage_run import RunFailed

CLOSED_AFTER = timedelta(hours=72)  # after its last hour a month is still open for what comes late
SUMS: tuple[str, ...] = HOUR_COLUMNS[5:]
Sums = dict[tuple[datetime, str, str], dict[str, int]]  # by hour, tenant and its uid


def write_periods(pieces: Pieces, result: Result, rows: Path, tenant_uids: dict[str, str]) -> None:
    """The rows of each day and month of `result`, below `rows`. `tenant_uids`: of tenants by name, for records that do not say
    whose they are. Raises `RunFailed`."""
    for period in result.periods:
        count = digests = 0
        for batch in lines_of(rows / "periods" / f"{period.name}.json", _Row):
            count += len(batch)
            digests += sum(row_digest(row.values()) for row in batch)
            pieces.insert(UsagePeriod, [_model(row, pieces.run, tenant_uids) for row in batch])
        checksum = checksum_text(count, digests)
        if checksum != period.checksum:
            raise RunFailed(
                f"{period.name} has checksum {checksum} on disk but {period.checksum} in the job's result: nothing was published"
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


def sums_of(versions: QuerySet[UsageHour], hours: Iterable[datetime]) -> Sums:
    rows = versions.filter(hour__in=list(hours)).order_by().values("hour", "tenant", "tenant_uid")
    summed: Iterable[Mapping[str, Any]] = rows.annotate(**{f"{name}_sum": Sum(name) for name in SUMS})
    return {(row["hour"], row["tenant"], row["tenant_uid"]): {name: row[f"{name}_sum"] for name in SUMS} for row in summed}


def corrections_of(run: UsageRun, before: Sums, after: Sums, previous: dict[datetime, str], now: datetime) -> list[UsageCorrection]:
    """The differences. `previous`: hour -> the run of the version before."""
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
    return corrections


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
