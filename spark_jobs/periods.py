"""Days and months, summed from hours and days that are published. Runs inside Spark's Python workers.

A period is the sum of the current versions of its parts, as the files of their runs have them. It is made anew whenever one of them
changes, so late usage of a month that is long over changes that month and no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.checksum import HOUR_KEY as KEY
from spark_jobs.checksum import HOUR_SUMS as SUMS
from spark_jobs.checksum import checksum_text, row_digest
from spark_jobs.config import PeriodResult, load_directory, run_directory
from spark_jobs.partials import replace, write_table
from spark_jobs.plan import hour_folder, hour_of_name

_EXACT = pa.decimal128(38, 0)  # a topic that holds 3.5 TB for a month has more byte-seconds than 64 bits have room for


@dataclass(frozen=True)
class PeriodTask:
    """`name`: "2026-11-21" or "2026-11". `parts`: part -> the files of its current version; a part without usage has none."""

    name: str
    parts: Mapping[str, tuple[Path, ...]]
    output: Path
    run_id: str


def day_of(hour: str) -> str:
    """ "2026-11-21T08" -> "2026-11-21"."""
    return hour[:10]


def month_of(day: str) -> str:
    return day[:7]


def period_path(output: Path, run_id: str, name: str) -> Path:
    return run_directory(output, run_id) / ("days" if len(name) == 10 else "months") / f"{name}.parquet"


def hour_files(output: Path, run_id: str, hour: str) -> tuple[Path, ...]:
    return tuple(sorted((run_directory(output, run_id) / hour_folder(hour_of_name(hour))).glob("*.parquet")))


def period_files(output: Path, run_id: str, name: str) -> tuple[Path, ...]:
    path = period_path(output, run_id, name)
    return (path,) if path.exists() else ()


def make_period(task: PeriodTask) -> PeriodResult:
    """Writes the period's files and describes them."""
    topics: dict[tuple[str, ...], list[int]] = {}
    for paths in task.parts.values():
        for path in paths:
            _add(topics, pq.read_table(path))
    rows = [(task.name, *key, *numbers) for key, numbers in sorted(topics.items(), key=lambda item: (item[0][3], item[0]))]
    digests = sum(row_digest(row) for row in rows)
    if rows:
        path = period_path(task.output, task.run_id, task.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = list(zip(*rows, strict=True))
        arrays = {"period": columns[0], **dict(zip(KEY, columns[1:5], strict=True))}
        numbers = {
            name: pa.array([Decimal(value) for value in values], _EXACT) for name, values in zip(SUMS, columns[5:], strict=True)
        }
        write_table(pa.table({**{name: pa.array(values, pa.string()) for name, values in arrays.items()}, **numbers}), path)
        lines = load_directory(task.output, task.run_id) / "periods" / f"{task.name}.json"
        lines.parent.mkdir(parents=True, exist_ok=True)
        names = ("period", *KEY, *SUMS)
        texts = (dict(zip(names, map(str, row), strict=True)) for row in rows)  # numbers too: they may have more than 64 bits
        replace(lines, "".join(json.dumps(text) + "\n" for text in texts).encode())
    return PeriodResult(task.name, len(rows), checksum_text(len(rows), digests), len(task.parts))


def _add(topics: dict[tuple[str, ...], list[int]], table: Any) -> None:
    nothing = [0] * table.num_rows  # of meters that an earlier release did not have
    columns = [table[name].to_pylist() if name in table.column_names else nothing for name in (*KEY, *SUMS)]
    for row in zip(*columns, strict=True):
        numbers = topics.setdefault(row[: len(KEY)], [0] * len(SUMS))
        for place, value in enumerate(row[len(KEY) :]):
            numbers[place] += int(value)


def day_tasks(hours: Iterable[str], current: Mapping[str, str], output: Path, run_id: str) -> tuple[list[PeriodTask], set[str]]:
    """The days that `hours`, which this run has made, belong to. `current`: hour -> run of the other hours that have
    usage. Also the days of which the files of some hour are gone, so that they cannot be summed."""
    runs = {**current, **dict.fromkeys(hours, run_id)}
    return _tasks({day_of(hour) for hour in hours}, runs, day_of, hour_files, output, run_id)


def month_tasks(days: Iterable[str], current: Mapping[str, str], output: Path, run_id: str) -> tuple[list[PeriodTask], set[str]]:
    """As `day_tasks`, of the months that `days` belong to."""
    runs = {**current, **dict.fromkeys(days, run_id)}
    return _tasks({month_of(day) for day in days}, runs, month_of, period_files, output, run_id)


def _tasks(
    wanted: set[str],
    runs: Mapping[str, str],
    period_of: Callable[[str], str],
    files: Callable[[Path, str, str], tuple[Path, ...]],
    output: Path,
    run_id: str,
) -> tuple[list[PeriodTask], set[str]]:
    parts: dict[str, dict[str, tuple[Path, ...]]] = {name: {} for name in wanted}
    gone = set()
    for part, run in sorted(runs.items()):
        name = period_of(part)
        if name in wanted:
            parts[name][part] = files(output, run, part)
            if not parts[name][part] and run != run_id:
                gone.add(name)
    return [PeriodTask(name, of_period, output, run_id) for name, of_period in sorted(parts.items()) if name not in gone], gone
