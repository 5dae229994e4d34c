"""Loads the hours of a run into the database: in pieces, beside the version in force, until one short transaction has all their
pointers go over. Whatever ends a worker in between, readers see the hours of before or those of the run, each whole; the next run
begins again, and deletes what does not count."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from spark_jobs.checksum import HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.config import Result
from spark_jobs.plan import hour_of_name
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.findings.load import note_findings
from workers.findings.outages import Outage
from workers.models import UsageCorrection, UsageHour, UsagePartition, UsagePeriodPartition, UsageRun
from workers.usage_details import TenantOf, write_details
from workers.usage_periods import corrections_of, is_closed, sums_of, write_periods
from workers.usage_pieces import Pieces, lines_of, sweep
from workers.usage_run import RunFailed

TOLD_MAX = 100  # files and holes named in a run's row


def known_inputs(since: datetime) -> dict[str, str]:
    """Hour ("2026-11-21T08") -> inputs of its current version. `since`: earlier than the job looks back, so that it never takes a
    known hour for a new one."""
    partitions = UsagePartition.objects.filter(hour__gte=since)
    return {f"{hour:%Y-%m-%dT%H}": inputs for hour, inputs in partitions.values_list("hour", "inputs")}


def publish(
    run: UsageRun, result: Result, rows: Path, now: datetime, still_mine: Callable[[], None], outages: Sequence[Outage] = ()
) -> None:
    """Writes the rows below `rows` as a version of each hour of `result`, has the pointers go over and finishes `run`. The former
    version is there until `usage_pieces.sweep`.

    The rows are checked against the job's checksums while they are read. `still_mine` raises if another run took over meanwhile; it
    is asked in each transaction, so that an older run never overwrites a newer one. `outages`: times of which a broker's crash
    may have lost records. Raises `RunFailed`; then no figure changed.
    """
    with platform_scope():
        sweep(still_mine)  # what an attempt before this one left of the same run, too
        pieces = Pieces(run, still_mine)
        counts = _write_hours(pieces, result, rows)
        corrections = _corrections(run, result, now)
        found_outages = note_findings(pieces, result, rows.parent, outages)
        with pieces.piece():
            _point_at(run, result, counts, now)
            UsageCorrection.objects.bulk_create(corrections)
            _finish(run, result, now, found_outages, len(corrections))


def _finish(run: UsageRun, result: Result, now: datetime, found_outages: int, corrections: int) -> None:
    run.outcome = UsageRun.Outcome.SUCCEEDED
    run.finished_at = now
    run.hours = len(result.hours)
    run.rows = sum(hour.rows for hour in result.hours)
    run.quarantined = sum(result.quarantined.values())
    run.rejected_files = len(result.rejected_files)
    run.files = result.files
    run.holes = result.hole_count + found_outages
    run.message = _remarks(result, corrections)
    run.detail = {
        "files_read": result.files_read,
        "bytes": result.bytes,
        "outages": found_outages,
        "files_reused": result.files_reused,
        "rows_judged": result.rows_judged,
        "files_compacted": result.files_compacted,
        "seconds": dict(result.seconds),
        "rows_read": result.rows_read,
        "duplicates": result.duplicates,
        "quarantined": dict(result.quarantined),
        "rejected_files": dict(list(result.rejected_files.items())[:TOLD_MAX]),
        "holes": [dataclasses.asdict(hole) for hole in result.holes[:TOLD_MAX]],
        "periods": [period.name for period in result.periods],
        "corrections": corrections,
        "java": result.java,
        "spark": result.spark,
    }
    run.swept = True
    run.save()


def _write_hours(pieces: Pieces, result: Result, rows: Path) -> dict[int, int]:
    """With their parts, and the days and months that they are in; how many rows each hour has."""
    starts = {hour_of_name(hour.hour): hour for hour in result.hours}
    counts = dict.fromkeys(starts, 0)
    digests = dict.fromkeys(starts, 0)
    tenants = {name: (uid, created_at) for name, uid, created_at in Tenant.objects.values_list("name", "uid", "created_at")}
    tenant_of = _tenant_of(tenants)
    for path in sorted(rows.glob("*.json")):
        for batch in lines_of(path, _Row):
            for row in batch:
                if row.hour_start_ms not in starts:
                    raise RunFailed(
                        f"the job wrote a row for {_time(row.hour_start_ms)}, an hour that its result does not list: nothing was "
                        f"published"
                    )
                counts[row.hour_start_ms] += 1
                digests[row.hour_start_ms] += row_digest(getattr(row, column) for column in HOUR_COLUMNS)
            pieces.insert(UsageHour, [_model(row, pieces.run, tenant_of) for row in batch])
    for start, hour in starts.items():
        checksum = checksum_text(counts[start], digests[start])
        if checksum != hour.checksum:
            raise RunFailed(
                f"hour {hour.hour} has checksum {checksum} on disk but {hour.checksum} in the job's result: nothing was published"
            )
    write_details(pieces, result, rows, tenant_of)
    write_periods(pieces, result, rows, {name: uid for name, (uid, _) in tenants.items()})
    return counts


def _corrections(run: UsageRun, result: Result, now: datetime) -> list[UsageCorrection]:
    """Of closed months: what this run's version changes of the one in force."""
    hours = (_time(hour_of_name(hour.hour)) for hour in result.hours)
    closed = [hour for hour in hours if is_closed(hour, now)]
    previous = dict(UsagePartition.objects.filter(hour__in=closed).values_list("hour", "run_id"))
    before, after = sums_of(UsageHour.objects.all(), previous), sums_of(UsageHour.versions.filter(run=run), previous)
    return corrections_of(run, before, after, previous, now)


def _point_at(run: UsageRun, result: Result, counts: Mapping[int, int], now: datetime) -> None:
    """Has the pointers of the hours, days and months go over to this run, and notes which runs have rows now that do not count."""
    hours = [
        UsagePartition(hour=_time(start), run=run, checksum=hour.checksum, inputs=hour.inputs, rows=counts[start], updated_at=now)
        for hour, start in ((hour, hour_of_name(hour.hour)) for hour in result.hours)
    ]
    periods = [
        UsagePeriodPartition(
            period=period.name, run=run, checksum=period.checksum, rows=period.rows, parts=period.parts, updated_at=now
        )
        for period in result.periods
    ]
    former = {
        *UsagePartition.objects.filter(hour__in=[each.hour for each in hours]).values_list("run_id", flat=True),
        *UsagePeriodPartition.objects.filter(period__in=[each.period for each in periods]).values_list("run_id", flat=True),
    }
    UsageRun.objects.filter(run_id__in=former).update(swept=False)
    _replace(UsagePartition, hours, "hour", ["run", "checksum", "inputs", "rows", "updated_at"])
    _replace(UsagePeriodPartition, periods, "period", ["run", "checksum", "rows", "parts", "updated_at"])


def _replace(model: Any, pointers: Sequence[Any], key: str, others: list[str]) -> None:
    model.objects.bulk_create(pointers, update_conflicts=True, unique_fields=[key], update_fields=others)


class _Row(msgspec.Struct):
    """A line of the load directory: `HOUR_COLUMNS`."""

    hour_start_ms: int
    tenant: str
    tenant_uid: str
    namespace: str
    topic: str
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    stored_byte_seconds: int
    backlog_entry_seconds: int
    api_calls: int
    connection_seconds: int


assert _Row.__struct_fields__ == HOUR_COLUMNS


def _model(row: _Row, run: UsageRun, tenant_of: TenantOf) -> UsageHour:
    hour = _time(row.hour_start_ms)
    usage_hour = UsageHour(hour=hour, run=run, **{name: getattr(row, name) for name in HOUR_COLUMNS[1:]})
    usage_hour.tenant_uid = tenant_of(row.tenant_uid, row.tenant, hour)
    return usage_hour


def _tenant_of(tenants: Mapping[str, tuple[str, datetime]]) -> TenantOf:
    """Records of old brokers do not say which tenant of a name they speak of: the one of now, if it was there in that hour."""

    def uid_of(given: str, tenant: str, hour: datetime) -> str:
        uid, created_at = tenants.get(tenant, ("", hour))
        return given or (uid if created_at < hour + timedelta(hours=1) else "")

    return uid_of


def _time(hour_ms: int) -> datetime:
    return datetime.fromtimestamp(hour_ms / 1000, UTC)


def _remarks(result: Result, corrections: int) -> str:
    """What somebody should look at, in words; empty if all was well."""
    remarks = []
    if result.quarantined:
        remarks.append(
            f"{sum(result.quarantined.values())} records were not billed (usage/hours/quarantine_run_id={result.run_id})"
        )
    if result.rejected_files:
        remarks.append(f"{len(result.rejected_files)} files were left out")
    if result.hole_count:
        remarks.append(f"{result.hole_count} series have missing records")
    if corrections:
        remarks.append(f"closed months changed: {corrections} corrections for later invoices")
    if result.unsummed:
        remarks.append(f"{', '.join(result.unsummed[:5])} cannot be summed: files of some of their hours are gone")
    return "; ".join(remarks)
