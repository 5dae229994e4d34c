"""`python -m spark_jobs.hourly_usage REQUEST RESULT`: raw usage records into usage per hour, tenant, namespace and topic.

    plan          which hours have other inputs than their present version (`plan`; no Spark yet: mostly there is nothing to do)
    read          SHA-256, rows, sums and interval of each file against its manifest (what disagrees is left out and said), rules of
                  the schema, sums for each series: kept, so that a file is read once (`partials`)
    put together  the whole of each dirty hour from those sums (`joined`); series whose records repeat or overlap record by record
                  (`exact`); what is not billed goes to quarantine
    write         `output/run_id=<id>/`, never changed afterwards; the rows again for the caller to load; and the result

The work on files is done with Arrow and NumPy: in this process where there is little of it (`engine`), else in Spark's Python
workers; Spark distributes it and does it again where a worker died. Running it twice changes nothing.

Ends with 0 and a result, or 1 and a result with `error`. Ends at once when its standard input does: whoever started it is gone.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from spark_jobs.config import JobFailed, Progress, Request, Result, progress_path, request_from, write_json
from spark_jobs.death import Died, cores_of, kernel_kills
from spark_jobs.engine import LocalFirstEngine, RunningEngine, rows_for_spark
from spark_jobs.java import Java, NoJava, choose_java
from spark_jobs.plan import hour_of_name, make_plan

NICENESS = 10  # the JVM inherits it: messages come before bills


def run(request: Request, report: Callable[[Progress], None] = lambda progress: None) -> Result:
    """Blocks until the job is complete. `report` may be called from another thread. Raises `NoJava`, `JobFailed`, `Died` and
    whatever Spark raises."""
    clock = _Clock()
    known = {hour_of_name(name): inputs for name, inputs in request.known.items()}
    plan = make_plan(Path(request.raw_directory), known, request.now_ms, request.lookback_days)
    rejected = {entry.name: entry.reason for entry in plan.rejected}
    clock.done("plan")
    if not plan.inputs:
        return Result(request.run_id, rejected_files=rejected, seconds=clock.seconds)
    Path(request.cache_directory).mkdir(parents=True, exist_ok=True)
    work_directory = Path(tempfile.mkdtemp(prefix="spark-", dir=request.cache_directory))
    # Imported here: usually there is nothing to do, and then no library is loaded.
    from spark_jobs.compute import compute

    spark = _Spark(request, work_directory, report)
    engine = LocalFirstEngine(spark.start, rows_for_spark(request), cores_of(request.master), report)
    try:
        try:
            result = compute(engine, request, plan)
        except JobFailed:
            raise
        except Exception as error:
            raise spark.why_it_failed(error) from error
        clock.done("work")
        result = spark.stop(result)
        clock.done("end")
        return replace(result, seconds=clock.seconds | spark.seconds)
    finally:
        shutil.rmtree(work_directory, ignore_errors=True)


class _Spark:
    """Spark, if it was needed."""

    def __init__(self, request: Request, work_directory: Path, report: Callable[[Progress], None]) -> None:
        self._request, self._work_directory, self._report = request, work_directory, report
        self._engine: RunningEngine | None = None
        self._java: Java | None = None
        self._kills = 0
        self.seconds: dict[str, float] = {}  # of its start, which is a part of the work

    def start(self) -> RunningEngine:
        """Raises `NoJava`, `Died`."""
        from spark_jobs.session import SparkEngine, start_context

        clock = _Clock()
        self._report(Progress("start", 1, 0, 0, 0.0))
        self._kills = kernel_kills()
        self._java = choose_java(self._request.java_home, os.environ, Path(self._request.cache_directory))
        context = start_context(self._java, self._request.master, self._work_directory, self._request.driver_memory)
        self._engine = SparkEngine(context, self._report)
        clock.done("start")
        self.seconds = clock.seconds
        return self._engine

    def why_it_failed(self, error: Exception) -> Exception:
        return error if self._engine is None else self._engine.why_it_failed(error, self._request, self._kills)

    def stop(self, result: Result) -> Result:
        """`result` with what it was computed on."""
        if self._engine is None or self._java is None:
            return result
        version = self._engine.version
        self._engine.stop()
        return replace(result, java=f"{self._java.origin}: {self._java.home}", spark=version)


class _Clock:
    """How long each step took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._at = time.monotonic()

    def done(self, step: str) -> None:
        now = time.monotonic()
        self.seconds[step] = round(now - self._at, 3)
        self._at = now


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m spark_jobs.hourly_usage REQUEST.json RESULT.json", file=sys.stderr)  # noqa: T201
        return 2
    _end_with_standard_input()
    give_way()
    try:
        request = request_from(Path(arguments[0]))
    except ValueError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    try:
        result = run(request, lambda progress: write_json(progress, progress_path(Path(arguments[1]))))
    except Exception as error:
        traceback.print_exc()
        kind = "" if isinstance(error, NoJava | JobFailed | Died) else f"{type(error).__name__}: "
        result = Result(
            request.run_id,
            error=f"{kind}{error}"[:2000],
            needs_spark=isinstance(error, NoJava),
            died=isinstance(error, Died),
            memory=isinstance(error, Died) and error.memory,
        )
    write_json(result, Path(arguments[1]))
    return 1 if result.error else 0


def give_way() -> None:
    """To the processes that carry messages. Where that is forbidden, as by a filter of system calls, the job runs beside them: its
    systemd unit may refuse what is merely polite."""
    with suppress(OSError):
        os.nice(NICENESS)


def _end_with_standard_input() -> None:
    """Exits when standard input closes: the caller keeps the other end of a pipe open as long as it lives. The JVM watches a pipe
    to this process the same way."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
