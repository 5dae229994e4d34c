"""Which partial sums a run needs, which of them are there, and which files must be read for the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from messaging.usage_schema import GAUGE_CARRY_MS_MAX
from spark_jobs.partials import Batch, batch_from
from spark_jobs.plan import HOUR_MS, Manifest, hour_folder

ROWS_A_BATCH = 1_000_000  # about 300 MB in the process that reads it
ROWS_A_TASK_MIN = 50_000
TASKS_A_CORE = 3
BATCHES_OF_AN_HOUR_MAX = 12  # of one boot; where late files made more, the hour's files are read again and leave fewer


def files_by_hour(manifests: Iterable[Manifest]) -> dict[int, list[Manifest]]:
    by_hour: dict[int, list[Manifest]] = defaultdict(list)
    for manifest in manifests:
        by_hour[manifest.hour_ms].append(manifest)
    return by_hour


def needed_files(hours: Iterable[int], by_hour: Mapping[int, Sequence[Manifest]]) -> dict[int, list[Manifest]]:
    """Hour -> the files of it that are needed to compute `hours`: all of these hours, and those near them beside."""
    wanted = set(hours)
    beside = {hour + step for hour in wanted for step in (-HOUR_MS, HOUR_MS)} - wanted
    needed = {hour: list(by_hour.get(hour, ())) for hour in wanted}
    for hour in beside:
        near = [
            manifest
            for manifest in by_hour.get(hour, ())
            if (hour + HOUR_MS in wanted and manifest.interval_end_ms > hour + HOUR_MS - GAUGE_CARRY_MS_MAX)
            or (hour - HOUR_MS in wanted and manifest.interval_start_ms < hour + GAUGE_CARRY_MS_MAX)
        ]
        if near:
            needed[hour] = near
    return needed


def kept_batches(hour_ms: int, directory: Path, present: Sequence[Manifest]) -> list[Batch]:
    """Those of the hour whose files are all among `present`, no two of them with a file in common, the largest first."""
    hashes = dict(member for manifest in present for member in manifest.members)
    batches = [batch_from(path) for path in sorted((directory / hour_folder(hour_ms)).glob("*.json")) if "." not in path.stem]
    usable = [batch for batch in batches if batch and all(hashes.get(name) == sha256 for name, sha256 in batch.members.items())]
    taken: set[str] = set()
    kept: list[Batch] = []
    for batch in sorted(usable, key=lambda batch: (-len(batch.members), batch.id)):
        if taken.isdisjoint(batch.members):
            taken.update(batch.members)
            kept.append(batch)
    kept = _without_parts(kept, present)
    boots: dict[tuple[str, int], int] = defaultdict(int)
    for batch in kept:
        boots[batch.source, batch.boot_epoch] += 1
    return [batch for batch in kept if boots[batch.source, batch.boot_epoch] < BATCHES_OF_AN_HOUR_MAX]


def _without_parts(batches: list[Batch], present: Sequence[Manifest]) -> list[Batch]:
    """Without batches that have a part of a file whose rest no batch has: it must be read, and would count twice."""
    while True:
        there = {name for batch in batches for name in batch.members}
        partly = {
            name for manifest in present if not all(name in there for name, _ in manifest.members) for name, _ in manifest.members
        }
        left = [batch for batch in batches if partly.isdisjoint(batch.members)]
        if len(left) == len(batches):
            return left
        batches = left


def new_batches(files: Iterable[Manifest]) -> list[list[Manifest]]:
    """Files of one boot and hour together, in the order of time, as many as have up to `ROWS_A_BATCH` rows."""
    groups: dict[tuple[int, str, int], list[Manifest]] = defaultdict(list)
    for manifest in files:
        groups[manifest.hour_ms, manifest.source, manifest.boot_epoch].append(manifest)
    batches: list[list[Manifest]] = []
    for _, group in sorted(groups.items()):
        group.sort(key=lambda manifest: (manifest.interval_start_ms, manifest.name))
        total = sum(manifest.rows for manifest in group)
        share = total / -(-total // ROWS_A_BATCH) if total else 0  # all about equal
        rows = 0.0
        batches.append([])
        for manifest in group:
            if batches[-1] and rows + manifest.rows / 2 > share:
                batches.append([])
                rows = 0
            batches[-1].append(manifest)
            rows += manifest.rows
    return batches


def bins(batches: Sequence[list[Manifest]], cores: int) -> list[list[list[Manifest]]]:
    """Batches for one task each time, small ones together: a few tasks for each core, but none that is hardly worth starting."""
    share = sum(_rows(batch) for batch in batches) // (TASKS_A_CORE * cores)
    rows_a_task = min(ROWS_A_BATCH, max(ROWS_A_TASK_MIN, share))
    result: list[list[list[Manifest]]] = []
    rows = rows_a_task
    for batch in sorted(batches, key=_rows, reverse=True):
        if rows + _rows(batch) > rows_a_task:
            result.append([])
            rows = 0
        result[-1].append(batch)
        rows += _rows(batch)
    return result


def drop_unused(directory: Path, used: Iterable[Batch], hours: Iterable[int], oldest_ms: int) -> None:
    """Removes partial sums of `hours` that are not `used`, and all from before the day before `oldest_ms`."""
    names = {batch.id for batch in used}
    for hour in hours:
        for path in list((directory / hour_folder(hour)).glob("*")):
            if path.name.partition(".")[0] not in names:
                path.unlink(missing_ok=True)
    oldest = hour_folder(oldest_ms - 24 * HOUR_MS).partition("/")[0]
    for day in [path for path in directory.glob("date=*") if path.name < oldest]:
        for path in sorted(day.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        day.rmdir()


def _rows(batch: Sequence[Manifest]) -> int:
    return sum(manifest.rows for manifest in batch)
