"""Loads the hours of a run into the database: all of them and their pointers in one transaction, or none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import msgspec
from django.db import transaction

from messaging.json_types import decoder_of
from spark_jobs.checksum import HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.config import Result
from spark_jobs.plan import hour_of_name
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.findings.load import note_findings
from workers.findings.outages import Outage
from workers.models import UsageHour, UsagePartition, UsageRun
from workers.usage_details import TenantOf, replace_details
from workers.usage_periods import is_closed, load_periods, note_corrections, sums_of
from workers.usage_run import RunFailed

ROWS_AN_INSERT = 500
TOLD_MAX = 100  # files and holes named in a run's row


def known_inputs(since: datetime) -> dict[str, str]:
    """Hour ("2026-11-21T08") -> inputs of its current version. `since`: earlier than the job looks back, so that it never takes a
    known hour for a new one."""
    partitions = UsagePartition.objects.filter(hour__gte=since)
    return {f"{hour:%Y-%m-%dT%H}": inputs for hour, inputs in partitions.values_list("hour", "inputs")}


def publish(
    run: UsageRun, result: Result, rows: Path, now: datetime, still_mine: Callable[[], None], outages: Sequence[Outage] = ()
) -> None:
    """Replaces the rows of each hour of `result` by those below `rows`, flips the pointers and finishes `run`.

    The rows are checked against the job's checksums while they are read. `still_mine` raises if another run took over meanwhile; it
    is asked inside the transaction, so that an older run never overwrites a newer one. `outages`: times of which a broker's crash
    may have lost records. Raises `RunFailed`; then nothing changed.
    """
    with transaction.atomic(), platform_scope():
        still_mine()
        corrections = _replace_hours(run, result, rows, now)
        found_outages = note_findings(run, result, rows.parent, outages)
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
        run.save()


def _replace_hours(run: UsageRun, result: Result, rows: Path, now: datetime) -> int:
    """How many corrections of closed months that made."""
    starts = {hour_of_name(hour.hour): hour for hour in result.hours}
    closed = [_time(start) for start in starts if is_closed(_time(start), now)]
    previous = dict(UsagePartition.objects.filter(hour__in=closed).values_list("hour", "run_id"))
    before = sums_of(previous)
    UsageHour.objects.filter(hour__in=[_time(start) for start in starts]).delete()
    counts = dict.fromkeys(starts, 0)
    digests = dict.fromkeys(starts, 0)
    tenants = {name: (uid, created_at) for name, uid, created_at in Tenant.objects.values_list("name", "uid", "created_at")}
    tenant_of = _tenant_of(tenants)
    for batch in _batches(rows):
        for row in batch:
            if row.hour_start_ms not in starts:
                raise RunFailed(
                    f"the job wrote a row for {_time(row.hour_start_ms)}, an hour that its result does not list: nothing was "
                    f"published"
                )
            counts[row.hour_start_ms] += 1
            digests[row.hour_start_ms] += row_digest(getattr(row, column) for column in HOUR_COLUMNS)
        UsageHour.objects.bulk_create(_model(row, run, tenant_of) for row in batch)
    replace_details(run, result, rows, tenant_of)
    for start, hour in starts.items():
        checksum = checksum_text(counts[start], digests[start])
        if checksum != hour.checksum:
            raise RunFailed(
                f"hour {hour.hour} has checksum {checksum} on disk but {hour.checksum} in the job's result: nothing was published"
            )
        UsagePartition.objects.update_or_create(
            hour=_time(start),
            defaults={"run": run, "checksum": checksum, "inputs": hour.inputs, "rows": counts[start], "updated_at": now},
        )
    uids = {name: uid for name, (uid, _) in tenants.items()}
    load_periods(run, result, rows, now, uids)
    return note_corrections(run, before, sums_of(previous), previous, now)


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


def _batches(folder: Path) -> Iterator[list[_Row]]:
    decoder = decoder_of(_Row)
    for path in sorted(folder.glob("*.json")):
        with path.open("rb") as lines:
            while batch := [decoder.decode(line) for line in islice(lines, ROWS_AN_INSERT)]:
                yield batch


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
