"""The usage job on an engine that runs tasks: read, put together, check (`hourly_usage` describes the steps).

The driver holds manifests, batches and hours; nothing here grows with the number of records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from messaging.usage_schema import BILLED_COUNTERS
from spark_jobs import batches
from spark_jobs.checksum import checksum_text
from spark_jobs.config import HourResult, JobFailed, PeriodResult, Request, Result, SequenceGap
from spark_jobs.engine import Engine
from spark_jobs.hours import GAPS_MAX, HourPart, HourTask, make_hour
from spark_jobs.inputs import write_inputs
from spark_jobs.partials import SHARDS, Batch, make_batch
from spark_jobs.periods import day_tasks, make_period, month_of, month_tasks
from spark_jobs.plan import HOUR_MS, Manifest, Plan, hour_name
from spark_jobs.raw_compaction import compactions, merge_files

ROWS_A_PART = 1_000_000  # of partial sums that one task puts together
ATTEMPTS = 3
FILES = "files"  # in place of a series: of numbers of whole files that are missing


@dataclass(frozen=True)
class ReadTask:
    batches: list[list[Manifest]]
    directory: Path


def read(task: ReadTask) -> list[Batch]:
    return [make_batch(manifests, task.directory) for manifests in task.batches]


@dataclass
class _Run:
    """What is known of a run in the middle of it. `problems`: files left out since the plan was made."""

    request: Request
    plan: Plan
    engine: Engine
    problems: dict[str, str] = field(default_factory=dict)
    rows_read: int = 0
    files_read: int = 0


class _FilesFailed(Exception):
    """Files that were whole before are not now; the hours must be planned without them."""


def compute(engine: Engine, request: Request, plan: Plan) -> Result:
    """Writes the hours of `plan` and returns their description. Raises `JobFailed` and whatever the engine raises."""
    run = _Run(request, plan, engine)
    for _ in range(ATTEMPTS):
        try:
            return _attempt(run)
        except _FilesFailed:
            continue
    raise JobFailed(f"files change while they are read: {', '.join(sorted(run.problems)[:5])}")


def _attempt(run: _Run) -> Result:
    files = [manifest for manifest in run.plan.files if manifest.name not in run.problems]
    originals, copies = _without_copies(files)
    by_hour = batches.files_by_hour(originals)
    inputs = run.plan.inputs_of(files)
    known = _batches_for(run, inputs, by_hour)
    if run.problems.keys() & {manifest.name for manifest in files}:
        return _attempt(run)
    parts = _hours(run, inputs, known, by_hour)
    results = tuple(_result_of(hour, digest, parts[hour]) for hour, digest in inputs.items())
    _check_conservation(parts, by_hour)
    batches.drop_unused(
        Path(run.request.partials_directory), [batch for group in known.values() for batch in group], inputs, run.plan.oldest_ms
    )
    merges = compactions(run.plan.settled, run.request.now_ms)
    compacted = sum(
        run.engine.run("compact files", merge_files, merges, sum(manifest.rows for task in merges for manifest in task.files))
    )
    periods, unsummed = _periods(run, [result.hour for result in results])
    every = [part for hour in inputs for part in parts[hour]]
    size = write_inputs(
        [manifest for manifest in files if manifest.name not in run.problems], run.request.output_directory, run.request.run_id
    )
    quarantined: Counter[str] = Counter()
    for part in every:
        quarantined.update(part.quarantined)
    gaps = [
        SequenceGap(lost.source, lost.boot_epoch, FILES, lost.first, lost.last, None, lost.from_ms, lost.until_ms)
        for lost in run.plan.lost
    ]
    gaps += [gap for part in every for gap in part.gaps]
    return Result(
        run_id=run.request.run_id,
        hours=results,
        periods=tuple(periods),
        unsummed=tuple(sorted(unsummed)),
        files=len(files),
        bytes=size,
        files_read=run.files_read,
        files_reused=sum(len(batch.members) for group in known.values() for batch in group) - run.files_read,
        rows_read=run.rows_read,
        rows_judged=sum(part.exact_rows for part in every),
        files_compacted=compacted,
        more=run.plan.more,
        duplicates=sum(part.duplicates for part in every) + sum(manifest.rows for manifest in copies if manifest.hour_ms in inputs),
        quarantined={reason: count for reason, count in quarantined.items() if count},
        rejected_files={entry.name: entry.reason for entry in run.plan.rejected} | run.problems,
        holes=tuple(gaps[:GAPS_MAX]),
        hole_count=len(run.plan.lost) + sum(part.gap_count for part in every),
    )


def _without_copies(files: Iterable[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """Files, and those of the same contents as one of them, which say nothing new."""
    seen: set[tuple[str, str, int]] = set()
    originals: list[Manifest] = []
    copies: list[Manifest] = []
    for manifest in sorted(files, key=lambda manifest: manifest.name):
        content = (manifest.sha256, manifest.source, manifest.boot_epoch)
        (copies if content in seen else originals).append(manifest)
        seen.add(content)
    return originals, copies


def _batches_for(run: _Run, hours: Mapping[int, str], by_hour: Mapping[int, Sequence[Manifest]]) -> dict[int, list[Batch]]:
    """Hour -> its batches: those there were, and those that are made now. Files that cannot be read become problems of the run."""
    directory = Path(run.request.partials_directory)
    known: dict[int, list[Batch]] = {}
    missing: list[Manifest] = []
    for hour, files in batches.needed_files(hours, by_hour).items():
        known[hour] = batches.kept_batches(hour, directory, by_hour.get(hour, ()))
        there = {name for batch in known[hour] for name in batch.members}
        missing += [manifest for manifest in files if not all(name in there for name, _ in manifest.members)]
    for hour in {hour - HOUR_MS for hour in hours} - set(known):
        known[hour] = batches.kept_batches(hour, directory, by_hour.get(hour, ()))  # not needed, but they tell of holes
    tasks = [ReadTask(group, directory) for group in batches.bins(batches.new_batches(missing), run.engine.cores)]
    made = [
        batch for of_task in run.engine.run("read", read, tasks, sum(manifest.rows for manifest in missing)) for batch in of_task
    ]
    for batch in made:
        run.problems.update(batch.problems)
        if batch.members:
            known[batch.hour_ms].append(batch)
            run.rows_read += batch.rows
            run.files_read += len(batch.members)
    return known


def _hours(
    run: _Run, inputs: Mapping[int, str], known: Mapping[int, Sequence[Batch]], by_hour: Mapping[int, Sequence[Manifest]]
) -> dict[int, list[HourPart]]:
    begun: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for boot, hour in run.plan.boots.items():
        begun[hour].append(boot)
    tasks: list[HourTask] = []
    rows = 0
    for hour in inputs:
        beside = (hour - HOUR_MS, hour, hour + HOUR_MS)
        own = tuple(batch for near in beside for batch in known.get(near, ()))
        files = tuple(manifest for near in beside for manifest in by_hour.get(near, ()))
        size = sum(batch.partial_rows for batch in own) + _rows_that_overlap(by_hour.get(hour, ()))
        rows += size
        for shards in _parts(size):
            tasks.append(
                HourTask(
                    hour,
                    shards,
                    own,
                    files,
                    tuple(begun[hour]),
                    Path(run.request.partials_directory),
                    Path(run.request.output_directory),
                    run.request.run_id,
                )
            )
    parts: dict[int, list[HourPart]] = defaultdict(list)
    for part in run.engine.run("put together", make_hour, tasks, rows):
        parts[part.hour_ms].append(part)
        run.problems.update(part.problems)
    if any(part.problems for group in parts.values() for part in group):
        raise _FilesFailed
    return parts


def _periods(run: _Run, hours: Sequence[str]) -> tuple[list[PeriodResult], set[str]]:
    """The days of these hours, and then their months; and those that cannot be summed."""
    request, output = run.request, Path(run.request.output_directory)
    tasks, gone = day_tasks(hours, request.current_hours, output, request.run_id)
    days = run.engine.run("sum days", make_period, tasks, sum(len(task.parts) for task in tasks))
    made = [day.name for day in days]
    tasks, gone_months = month_tasks(made, request.current_days, output, request.run_id)
    tasks = [task for task in tasks if not any(month_of(day) == task.name for day in gone)]
    months = run.engine.run("sum months", make_period, tasks, sum(len(task.parts) for task in tasks))
    return [*days, *months], gone | gone_months | {month_of(day) for day in gone}


def _rows_that_overlap(files: Sequence[Manifest]) -> int:
    """Rows of files that share some time with another file of the same boot: they may have to be judged one by one."""
    rows, ends = 0, dict[tuple[str, int], int]()
    for manifest in sorted(files, key=lambda manifest: manifest.interval_start_ms):
        boot = (manifest.source, manifest.boot_epoch)
        if manifest.interval_start_ms < ends.get(boot, 0):
            rows += 2 * manifest.rows
        ends[boot] = max(ends.get(boot, 0), manifest.interval_end_ms)
    return rows


def _parts(rows: int) -> list[range]:
    count = min(SHARDS, max(1, -(-rows // ROWS_A_PART)))
    cuts = [SHARDS * index // count for index in range(count + 1)]
    return [range(start, stop) for start, stop in pairwise(cuts)]


def _result_of(hour: int, inputs: str, parts: Sequence[HourPart]) -> HourResult:
    """Every dirty hour has one, also without usage: an empty version is a version too."""
    rows, digest_sum = sum(part.rows for part in parts), sum(part.digest_sum for part in parts)
    sums = {name: sum(part.sums[name] for part in parts) for name in parts[0].sums}
    details = sum(part.detail_rows for part in parts)
    detail_checksum = checksum_text(details, sum(part.detail_digest_sum for part in parts)) if details else ""
    return HourResult(hour_name(hour), inputs, rows, checksum_text(rows, digest_sum), sums, details, detail_checksum)


def _check_conservation(parts: Mapping[int, Sequence[HourPart]], by_hour: Mapping[int, Sequence[Manifest]]) -> None:
    """Each counter's total in the manifests equals what is billed, quarantined, or a copy."""
    for hour, group in parts.items():
        expected = {meter: sum(manifest.sums.get(meter, 0) for manifest in by_hour.get(hour, ())) for meter in BILLED_COUNTERS}
        counted = {meter: sum(part.sums[meter] + part.unbilled[meter] for part in group) for meter in BILLED_COUNTERS}
        if expected != counted:
            raise JobFailed(
                f"the hour {hour_name(hour)} does not add up to its records: {expected} in, {counted} out; nothing was published"
            )
