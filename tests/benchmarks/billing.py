"""The hourly usage job against the same files read and summed with pyarrow, from 10^5 records to 10^8.

Each is a process of its own on all cores. Spark's start is shown apart: it takes as long for one record as for all. CPU time and
memory are of the whole tree of processes: the driver, Java, and the Python workers that read the files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.config import Request, Result, result_from, write_json
from tests.benchmarks import usage_records
from tests.benchmarks.load import Stalled
from tests.benchmarks.report import Figure, Progress, Section, Table, number

SIZES = (100_000, 1_000_000, 10_000_000, 100_000_000)
TOPICS = 1_157  # 6,942 records a minute: 10 million a day
OF_PYARROW = 0.3
RATIO_FROM = 10_000_000  # fewer are over before Spark's workers are warm
LINEAR = 1.5
DRIVER_GROWTH_MIB = 64.0
RATES = (
    "records",
    "MiB",
    "job s",
    "of that, start s",
    "records/s",
    "CPU us a record",
    "pyarrow records/s",
    "CPU us",
    "ratio, wall",
    "ratio, CPU",
)
MEMORY = ("records", "in all MiB, peak", "driver MiB", "Java MiB", "again, nothing new s", "one late file s")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_DAY_MS = 86_400_000


@dataclass
class Usage:
    """Of a tree of processes while it ran. `driver_mib` is of its first process, `java_mib` of Java; all are peaks."""

    cpu_s: float = 0.0
    total_mib: float = 0.0
    driver_mib: float = 0.0
    java_mib: float = 0.0
    samples: list[tuple[float, float]] = field(default_factory=list)  # time, CPU seconds so far

    def cpu_after(self, at: float) -> float:
        """CPU seconds since then."""
        return self.cpu_s - max((cpu for when, cpu in self.samples if when <= at), default=0.0)


def run(directory: Path | None, sizes: list[int], progress: Progress) -> Section:
    section = Section(
        "Usage of hours, from records",
        f"Files as a broker writes them: each minute one, of {TOPICS:,} topics with {len(usage_records.METERS)} meters each. "
        "pyarrow reads all columns of the same files, an hour at a time, and sums by tenant, namespace, topic and meter, on all "
        "cores. What the job does beside: SHA-256 and sums against manifests, the rules of the schema, gaps and duplicates, "
        "integrals of gauges, hours as Parquet and for the database.",
        [
            Table(RATES, []),
            Table(MEMORY, []),
        ],
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        _Billing(Path(made), section, progress).measure(sizes)
    return section


class _Billing:
    def __init__(self, directory: Path, section: Section, progress: Progress) -> None:
        self._directory, self._section, self._progress = directory, section, progress
        self._minutes = self._rows = 0

    def measure(self, sizes: list[int]) -> None:
        costs: dict[int, float] = {}
        driver: dict[int, float] = {}
        for size in sizes:
            self._grow(size)
            result, took_s, used = self._job("first")
            started_s = sum(result.seconds[name] for name in ("plan", "start"))
            worked_s = result.seconds["work"]
            worked_cpu = used.cpu_after(time.monotonic() - 0.2 - result.seconds["end"] - worked_s)
            plain_s, plain_cpu = self._pyarrow()
            rows = self._rows
            costs[rows], driver[rows] = worked_s / rows * 1e6, used.driver_mib
            size_mib = sum(path.stat().st_size for path in self._raw.rglob("*.parquet")) / 2**20
            ratio = plain_s / worked_s
            self._section.tables[0].rows.append(
                (
                    f"{rows:,}", number(size_mib), number(took_s), number(started_s), number(rows / worked_s),
                    number(worked_cpu / rows * 1e6), number(rows / plain_s), number(plain_cpu / rows * 1e6), number(ratio),
                    number(plain_cpu / worked_cpu),
                )
            )  # fmt: skip
            if rows >= RATIO_FROM:
                self._section.figures.append(Figure(f"{rows:,} records: rate, of pyarrow's", ratio, OF_PYARROW))
            nothing_s = self._job("again")[1]
            self._grow(rows + usage_records.rows_a_minute(TOPICS))
            late_s = self._job("late")[1]
            self._section.tables[1].rows.append(
                (
                    f"{rows:,}",
                    number(used.total_mib),
                    number(used.driver_mib),
                    number(used.java_mib),
                    number(nothing_s),
                    number(late_s),
                )
            )
        if len(sizes) < 2:
            return
        first, last = sorted(costs)[-2:]
        self._section.figures.append(
            Figure(f"time a record of {last:,}, of that of {first:,}", costs[last] / costs[first], LINEAR, at_least=False)
        )
        smallest = min(driver)
        growth = driver[last] - driver[smallest]
        self._section.figures.append(
            Figure(
                f"driver's memory of {last:,} records, beyond that of {smallest:,}",
                growth,
                DRIVER_GROWTH_MIB,
                "MiB",
                at_least=False,
            )
        )

    @property
    def _raw(self) -> Path:
        return self._directory / "raw"

    def _grow(self, rows: int) -> None:
        a_minute = usage_records.rows_a_minute(TOPICS)
        minutes = -(-rows // a_minute) - self._minutes
        self._progress(f"writing {minutes * a_minute:,} records")
        for written in usage_records.write_minutes(self._raw, minutes, TOPICS, self._minutes):
            self._rows += written
        self._minutes += minutes

    def _job(self, run_id: str) -> tuple[Result, float, Usage]:
        """A run from nothing if it is the first of a size."""
        self._progress(f"the job on {self._rows:,} records ({run_id})")
        state = self._directory / "known.json"
        if run_id == "first":
            for name in ("hours", "partials"):
                subprocess.run(["rm", "-rf", str(self._directory / name)], check=True)
            state.unlink(missing_ok=True)
        known = json.loads(state.read_text()) if state.exists() else {}
        request = Request(
            f"{run_id}-{self._rows}",
            str(self._raw),
            str(self._directory / "hours"),
            str(self._directory / "cache"),
            usage_records.START_MS + 20 * _DAY_MS,
            known=known,
        )
        paths = self._directory / "request.json", self._directory / "result.json"
        write_json(request, paths[0])
        took_s, used = watch([sys.executable, "-m", "spark_jobs.hourly_usage", *map(str, paths)], self._directory / "log")
        result = result_from(paths[1])
        if result.error:
            raise Stalled(f"the job failed: {result.error}")
        state.write_text(json.dumps(known | {hour.hour: hour.inputs for hour in result.hours}))
        return result, took_s, used

    def _pyarrow(self) -> tuple[float, float]:
        self._progress(f"pyarrow on {self._rows:,} records")
        answer = self._directory / "pyarrow.json"
        watch(
            [sys.executable, "-P", str(Path(__file__).with_name("sum_with_pyarrow.py")), str(self._raw), str(answer)],
            self._directory / "log",
        )
        measured = json.loads(answer.read_text())
        if measured["rows"] != self._rows:
            raise Stalled(f"pyarrow read {measured['rows']} records of {self._rows}")
        return float(measured["seconds"]), float(measured["cpu_s"])


def watch(command: list[str], log: Path) -> tuple[float, Usage]:
    """Runs it to its end; the seconds, and what its tree of processes used."""
    used = Usage()
    seen: dict[int, float] = {}
    start = time.monotonic()
    with log.open("ab") as output:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True)
    assert child.stdin is not None
    while True:
        try:
            code = child.wait(0.2)
            break
        except subprocess.TimeoutExpired:
            memory = 0.0
            for pid, name, cpu_s, mib in _session(child.pid):
                seen[pid] = cpu_s
                memory += mib
                if pid == child.pid:
                    used.driver_mib = max(used.driver_mib, mib)
                elif name == "java":
                    used.java_mib = max(used.java_mib, mib)
            used.cpu_s, used.total_mib = sum(seen.values()), max(used.total_mib, memory)
            used.samples.append((time.monotonic(), used.cpu_s))
    child.stdin.close()
    if code:
        raise Stalled(f"{command[1:4]} ended with code {code}: {log.read_text()[-2000:]}")
    return time.monotonic() - start, used


def _session(leader: int) -> Iterator[tuple[int, str, float, float]]:
    """Process id, name, CPU seconds and resident MiB of each process of a session; memory that they share counts once for each."""
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            text = (path / "stat").read_text()
        except OSError:
            continue
        name, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        if int(fields[3]) == leader:
            yield int(path.name), name, (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE / 2**20
