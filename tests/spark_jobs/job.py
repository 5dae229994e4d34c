"""The usage job as a worker runs it, one run after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from spark_jobs.checksum import HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.compute import compute
from spark_jobs.config import Request, Result, run_directory
from spark_jobs.engine import Engine
from spark_jobs.plan import hour_of_name, make_plan
from tests.spark_jobs.usage_files import HOUR_MS, NOON_MS, Hours

T = TypeVar("T")
R = TypeVar("R")


class InProcess:
    """Runs tasks here, one after the other."""

    cores = 1

    def run(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
        return [work(item) for item in items]


@dataclass
class Job:
    """Runs the job as the worker would, remembering which version of each hour is current."""

    engine: Engine
    directory: Path
    runs: int = 0
    known: dict[str, str] = field(default_factory=dict)
    current: dict[str, tuple[str, list[tuple[Any, ...]]]] = field(default_factory=dict)

    @property
    def raw(self) -> Path:
        return self.directory / "raw"

    def run(self, now_ms: int = NOON_MS + 2 * HOUR_MS) -> Result:
        self.runs += 1
        request = Request(
            run_id=f"{self.runs:04}",
            raw_directory=str(self.raw),
            output_directory=str(self.directory / "hours"),
            cache_directory=str(self.directory),
            now_ms=now_ms,
            known=self.known,
        )
        plan = make_plan(self.raw, {hour_of_name(name): inputs for name, inputs in self.known.items()}, now_ms, 35)
        if not plan.inputs:
            return Result(request.run_id, rejected_files={entry.name: entry.reason for entry in plan.rejected})
        result = compute(self.engine, request, plan)
        for hour in result.hours:
            self.known[hour.hour] = hour.inputs
            rows = self._rows(run_directory(request.output_directory, request.run_id), hour.hour)
            assert checksum_text(len(rows), sum(row_digest(row) for row in rows)) == hour.checksum
            self.current[hour.hour] = (hour.checksum, rows)
        return result

    def _rows(self, directory: Path, hour: str) -> list[tuple[Any, ...]]:
        """Read by another reader than the one that wrote."""
        import duckdb

        folder = directory / f"date={hour[:10]}" / f"hour={hour[11:]}"
        files = [str(path) for path in folder.glob("*.parquet")]
        if not files:
            return []
        columns = ", ".join(HOUR_COLUMNS)
        relation = duckdb.sql(f"select {columns} from read_parquet({files}, hive_partitioning=false) order by topic")
        assert relation is not None
        return relation.fetchall()

    def hours(self) -> Hours:
        return {(row[0], row[4]): row[5:11] for _, rows in self.current.values() for row in rows}

    def checksums(self) -> dict[str, str]:
        return {hour: checksum for hour, (checksum, _) in self.current.items()}
