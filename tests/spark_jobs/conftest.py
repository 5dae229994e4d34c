"""One Spark engine for all tests of a run: a start costs ten seconds and half a gigabyte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.checksum import HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.config import Request, Result, run_directory
from spark_jobs.hourly_usage import compute
from spark_jobs.java import Java, choose_java
from spark_jobs.plan import hour_of_name, make_plan
from tests.spark_jobs.usage_files import HOUR_MS, NOON_MS, Hours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def engine(spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SparkSession, Java]]:
    from spark_jobs.session import start_session

    work = tmp_path_factory.mktemp("spark")
    java = choose_java(os.environ.get("MAGNETAR_JAVA_HOME", ""), os.environ, work)
    session = start_session(java, "local[2]", work, driver_memory="512m")
    yield session, java
    session.stop()


@dataclass
class Job:
    """Runs the job as the worker would, remembering which version of each hour is current."""

    session: Any
    java: Java
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
        result = compute(self.session, request, plan, self.java)
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
        return duckdb.sql(f"select {columns} from read_parquet({files}, hive_partitioning=false) order by topic").fetchall()

    def hours(self) -> Hours:
        return {(row[0], row[4]): row[5:] for _, rows in self.current.values() for row in rows}

    def checksums(self) -> dict[str, str]:
        return {hour: checksum for hour, (checksum, _) in self.current.items()}


@pytest.fixture
def new_job(engine: tuple[SparkSession, Java], tmp_path: Path) -> Callable[[str], Job]:
    def make(name: str = "usage") -> Job:
        return Job(*engine, tmp_path / name)

    return make


@pytest.fixture
def job(new_job: Callable[[str], Job]) -> Job:
    return new_job("usage")
