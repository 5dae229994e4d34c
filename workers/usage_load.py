"""A run's hours into the database: all of them and their pointers in one transaction, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.db import transaction

from spark_jobs.checksum import HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.config import HourResult, Result
from tenants.scoping import platform_scope
from workers.models import UsageHour, UsagePartition, UsageRun
from workers.usage_run import RunFailed

ROWS_AN_INSERT = 500
LOOKBACK_DAYS = 36  # one more than the job looks back, so that it never takes a known hour for a new one


def known_inputs(now: datetime) -> dict[str, str]:
    """Hour ("2026-11-21T08") -> inputs of its current version, of the hours that a job may look at."""
    partitions = UsagePartition.objects.filter(hour__gte=now - timedelta(days=LOOKBACK_DAYS))
    return {f"{hour:%Y-%m-%dT%H}": inputs for hour, inputs in partitions.values_list("hour", "inputs")}


def publish(run: UsageRun, result: Result, output: Path, now: datetime, still_mine: Callable[[], None]) -> None:
    """Replaces the rows of each hour of `result` by those below `output`, flips the pointers and finishes `run`.

    The rows are checked against the job's checksums while they are read. `still_mine` raises if another run took over meanwhile; it
    is asked inside the transaction, so that an older run never overwrites a newer one. Raises `RunFailed`; then nothing changed.
    """
    with transaction.atomic(), platform_scope():
        still_mine()
        for hour in result.hours:
            _load_hour(run, hour, output, now)
        run.outcome = UsageRun.Outcome.SUCCEEDED
        run.finished_at = now
        run.hours = len(result.hours)
        run.rows = sum(hour.rows for hour in result.hours)
        run.quarantined = sum(result.quarantined.values())
        run.rejected_files = len(result.rejected_files)
        run.holes = result.hole_count
        run.message = _remarks(result)
        run.detail = {
            "files_read": result.files_read,
            "rows_read": result.rows_read,
            "duplicates": result.duplicates,
            "quarantined": dict(result.quarantined),
            "rejected_files": dict(list(result.rejected_files.items())[:100]),
            "holes": [hole.__dict__ for hole in result.holes[:100]],
            "java": result.java,
            "spark": result.spark,
        }
        run.save()


def _load_hour(run: UsageRun, hour: HourResult, output: Path, now: datetime) -> None:
    at = datetime.strptime(hour.hour, "%Y-%m-%dT%H").replace(tzinfo=UTC)
    UsageHour.objects.filter(hour=at).delete()
    count = digest_sum = 0
    waiting: list[UsageHour] = []
    for row in _rows(output / f"date={at:%Y-%m-%d}" / f"hour={at:%H}"):
        count += 1
        digest_sum += row_digest(row)
        waiting.append(UsageHour(hour=at, run=run, **dict(zip(HOUR_COLUMNS[1:], row[1:], strict=True))))
        if len(waiting) == ROWS_AN_INSERT:
            UsageHour.objects.bulk_create(waiting)
            waiting = []
    UsageHour.objects.bulk_create(waiting)
    checksum = checksum_text(count, digest_sum)
    if checksum != hour.checksum:
        raise RunFailed(f"hour {hour.hour} has checksum {checksum} on disk, the job says {hour.checksum}: nothing was published")
    UsagePartition.objects.update_or_create(
        hour=at, defaults={"run": run, "checksum": checksum, "inputs": hour.inputs, "rows": count, "updated_at": now}
    )


def _rows(folder: Path) -> Iterator[tuple[object, ...]]:
    from arro3.io import read_parquet  # with the first run that has something to load

    for path in sorted(folder.glob("*.parquet")):
        for batch in read_parquet(path):
            columns = [batch.column(name).to_pylist() for name in HOUR_COLUMNS]
            yield from zip(*columns, strict=True)


def _remarks(result: Result) -> str:
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
    return "; ".join(remarks)
