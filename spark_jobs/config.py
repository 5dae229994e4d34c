"""The request and the result of a job, as two JSON files. Typed and validated; needs no Spark."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class JobFailed(Exception):
    """The run contradicts itself; its results must not be used."""


@dataclass(frozen=True)
class Request:
    """`known`: hour ("2026-11-21T08") -> inputs of its current version. `master`: any Spark master; `raw_directory` and
    `output_directory` must be visible to all its workers. `lookback_days`: older hours stay as they are.
    `current_hours`, `current_days`: those with usage, each with the run that its current version is of; days are summed from hours,
    and months from days."""

    run_id: str
    raw_directory: str
    output_directory: str
    cache_directory: str
    now_ms: int
    partials_directory: str = ""  # of partial sums that later runs use again; empty: beside `output_directory`
    known: Mapping[str, str] = field(default_factory=dict)
    current_hours: Mapping[str, str] = field(default_factory=dict)
    current_days: Mapping[str, str] = field(default_factory=dict)
    lookback_days: int = 35
    master: str = "local[*]"
    java_home: str = ""
    spark_rows_min: int = 0  # fewer are computed without Spark, if the master is this machine
    driver_memory: str = "512m"  # Java holds names of tasks, no records

    def __post_init__(self) -> None:
        if not self.partials_directory:
            object.__setattr__(self, "partials_directory", str(Path(self.output_directory).parent / "partials"))


@dataclass(frozen=True)
class HourResult:
    """One dirty hour. `rows` 0 is an explicit empty version. Sums are of the hour's rows, by column. Details are its parts by
    subscription and key."""

    hour: str
    inputs: str
    rows: int
    checksum: str
    sums: Mapping[str, int]
    detail_rows: int = 0
    detail_checksum: str = ""


@dataclass(frozen=True)
class PeriodResult:
    """A day ("2026-11-21") or a month ("2026-11") that was summed anew, of `parts` hours or days."""

    name: str
    rows: int
    checksum: str
    parts: int


@dataclass(frozen=True)
class SequenceGap:
    """Sequence numbers of one series that are in no file; with the series "files", files of a boot that are not there, by number.
    `missing_value`: the amount lost according to the running totals (counters only). They are of the time between `from_ms`, 0
    where the broker's start is all that is known, and `until_ms`."""

    source: str
    boot_epoch: int
    series: str
    first_missing: int
    last_missing: int
    missing_value: int | None
    from_ms: int = 0
    until_ms: int = 0


@dataclass(frozen=True)
class Result:
    """`files_reused`: of which partial sums were there. `rows_judged`: those that were looked at one by one, because files overlap.
    `quarantined`: rows not billed, by reason. `holes`: the first thousand of `hole_count`."""

    run_id: str
    hours: tuple[HourResult, ...] = ()
    periods: tuple[PeriodResult, ...] = ()
    files: int = 0  # that the hours were computed from (`inputs_path`), and their size
    bytes: int = 0
    unsummed: tuple[str, ...] = ()  # days and months of which the files of some part are gone: they stay as they are
    files_read: int = 0
    files_reused: int = 0
    rows_read: int = 0
    rows_judged: int = 0
    files_compacted: int = 0  # small raw files of settled hours that were made fewer
    more: bool = False  # earlier months are still to be done, by a further run
    duplicates: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    rejected_files: Mapping[str, str] = field(default_factory=dict)
    holes: tuple[SequenceGap, ...] = ()
    hole_count: int = 0
    java: str = ""
    spark: str = ""
    error: str = ""  # not empty: the run failed, nothing in it is valid
    needs_spark: bool = False  # it failed because PySpark or a suitable Java is missing
    died: bool = False  # the engine died; the same run once more goes on where this one was
    memory: bool = False  # it died because memory ran out
    seconds: Mapping[str, float] = field(default_factory=dict)  # of each step


@dataclass(frozen=True)
class Progress:
    """`step`: what is being done, in `tasks` parts of which `done` are; `rows`: how many records, or rows of sums, it is of."""

    step: str
    tasks: int
    done: int
    rows: int
    seconds: float

    def left_s(self) -> float | None:
        """An estimate of how long this step still takes; None before the first part is done."""
        return self.seconds * (self.tasks - self.done) / self.done if self.done else None


def run_directory(output_directory: str | Path, run_id: str) -> Path:
    """The hours of a run as Parquet; never modified."""
    return Path(output_directory) / f"run_id={run_id}"


def load_directory(output_directory: str | Path, run_id: str) -> Path:
    """The same rows as lines of JSON; whoever loads them deletes the directory."""
    return Path(output_directory) / f"load_run_id={run_id}"


def details_directory(directory: Path) -> Path:
    """In the directory of a run, or of what is to be loaded of it: the parts of hours by subscription and key."""
    return directory / "details"


def quarantine_directory(output_directory: str | Path, run_id: str) -> Path:
    """Rows that were not billed, as lines of JSON; exists only if there are any."""
    return Path(output_directory) / f"quarantine_run_id={run_id}"


def inputs_path(output_directory: str | Path, run_id: str) -> Path:
    """The files that a run's hours were computed from, by name, as lines of JSON (`spark_jobs.inputs.InputFile`)."""
    return Path(output_directory) / f"inputs_run_id={run_id}.jsonl"


def request_from(path: Path) -> Request:
    """Raises `ValueError` with a description of what is wrong with the file."""
    try:
        return Request(**json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"the request {path} cannot be used: {error}") from None


def progress_path(result: Path) -> Path:
    """Where a job that will leave its result at `result` says how far it is."""
    return result.with_suffix(".progress.json")


def progress_from(path: Path) -> Progress | None:
    """None if nothing is said yet."""
    try:
        return Progress(**json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError):
        return None


def write_json(value: Request | Result | Progress, path: Path) -> None:
    """Atomic."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w") as file:
        json.dump(dataclasses.asdict(value), file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def result_from(path: Path) -> Result:
    """Raises `ValueError` if the file is missing or not a result."""
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        fields["hours"] = tuple(HourResult(**hour) for hour in fields["hours"])
        fields["periods"] = tuple(PeriodResult(**period) for period in fields.get("periods", ()))
        fields["unsummed"] = tuple(fields.get("unsummed", ()))
        fields["holes"] = tuple(SequenceGap(**hole) for hole in fields["holes"])
        return Result(**fields)
    except (OSError, TypeError, ValueError, KeyError) as error:
        raise ValueError(f"the job left no result that can be used at {path}: {error}") from None
