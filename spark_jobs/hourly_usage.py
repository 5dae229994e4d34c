"""`python -m spark_jobs.hourly_usage REQUEST RESULT`: raw usage records into usage per hour, tenant, namespace and topic.

    plan        which hours have other inputs than their present version (`plan`; no Spark yet: mostly there is nothing to do)
    verify      SHA-256, rows, sums and interval of each file against its manifest; what disagrees is left out and said
    judge       rules of the schema, duplicates, conflicts (`records`); what is not billed goes to quarantine
    recompute   the whole of each dirty hour (`hours`), from nothing but the files: running twice changes nothing
    write       `output/run_id=<id>/`, never changed afterwards; the rows again for the caller to load; and the result

Ends with 0 and a result, or 1 and a result with `error`. Ends at once when its standard input does: whoever started it is gone.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from messaging.usage_schema import COUNTERS
from spark_jobs.checksum import INTEGRALS, checksum_text
from spark_jobs.config import (
    HourResult,
    Request,
    Result,
    load_directory,
    quarantine_directory,
    request_from,
    run_directory,
    write_json,
)
from spark_jobs.java import Java, NoJava, choose_java
from spark_jobs.plan import HOUR_MS, Plan, hour_name, hour_of_name, make_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


NICENESS = 10  # the JVM inherits it: messages come before bills


class JobFailed(Exception):
    """The run contradicts itself; nothing of it may count."""


def run(request: Request) -> Result:
    """Blocks for as long as it takes. Raises `NoJava`, `JobFailed` and whatever Spark raises."""
    known = {hour_of_name(name): inputs for name, inputs in request.known.items()}
    plan = make_plan(Path(request.raw_directory), known, request.now_ms, request.lookback_days)
    rejected = {entry.name: entry.reason for entry in plan.rejected}
    if not plan.inputs:
        return Result(request.run_id, rejected_files=rejected)
    java = choose_java(request.java_home, os.environ, Path(request.cache_directory))
    Path(request.cache_directory).mkdir(parents=True, exist_ok=True)
    work_directory = Path(tempfile.mkdtemp(prefix="spark-", dir=request.cache_directory))
    try:
        session = start(request, java, work_directory)
        try:
            return compute(session, request, plan, java)
        finally:
            session.stop()
    finally:
        shutil.rmtree(work_directory, ignore_errors=True)


def start(request: Request, java: Java, work_directory: Path) -> SparkSession:
    from spark_jobs.session import start_session

    return start_session(java, request.master, work_directory, request.driver_memory)


def compute(session: SparkSession, request: Request, plan: Plan, java: Java) -> Result:
    """The run itself on a session that is there: writes the hours of `plan` and says what they are."""
    import pyspark
    from pyspark.sql import functions as F

    from spark_jobs import hours, io, records
    from spark_jobs import sequence_gaps as holes
    from spark_jobs.session import fit_to

    fit_to(session, sum(manifest.rows for manifest in plan.read), request.shuffle_partitions)
    raw = io.read_raw(session, plan.read)
    problems, rows_read = io.check_files(raw, plan.read)
    if problems:
        raw = raw.where(~F.col(io.FILE).isin(list(problems)))
    targeted = records.for_hours(raw, list(plan.inputs)).persist()
    judged = records.judge(targeted).persist()
    usage = hours.usage_of_hours(records.good(judged)).persist()
    unbilled = records.quarantine(judged)
    try:
        quarantined = {row["reason"]: row["count"] for row in unbilled.groupBy("reason").count().collect()}
        checks = {int(row["hour_start_ms"]): row for row in hours.checks_of_hours(usage).collect()}
        _check_conservation(raw, unbilled, checks, list(plan.inputs))
        duplicates = targeted.where("own").count() - judged.where("own").count()
        gaps = holes.gaps(judged.where(F.col("own") & F.col("problem").isNull())).limit(holes.HOLES_MAX).collect()
        output = request.output_directory
        io.write_hours(usage, run_directory(output, request.run_id))
        io.write_rows_to_load(usage, load_directory(output, request.run_id))
        if quarantined:
            io.write_quarantine(unbilled, quarantine_directory(output, request.run_id))
    finally:
        for frame in (usage, judged, targeted):
            frame.unpersist()
    found = holes.holes_among(gaps, plan.unread, request.now_ms - request.lookback_days * 24 * HOUR_MS)
    rejected = {entry.name: entry.reason for entry in plan.rejected}
    rejected |= {manifest.name: problems[manifest.path.name] for manifest in plan.read if manifest.path.name in problems}
    return Result(
        run_id=request.run_id,
        hours=_result_hours(plan, checks),
        files_read=len(plan.read) - len(problems),
        rows_read=rows_read,
        duplicates=duplicates,
        quarantined=quarantined,
        rejected_files=rejected,
        holes=tuple(found),
        hole_count=len(found),
        java=f"{java.origin}: {java.home}",
        spark=pyspark.__version__,
    )


def _result_hours(plan: Plan, checks: Mapping[int, Row]) -> tuple[HourResult, ...]:
    """Every dirty hour, also those in which nothing was used: an empty version is a version."""
    result = []
    for hour_ms, inputs in sorted(plan.inputs.items()):
        check = checks.get(hour_ms)
        sums = {column: int(check[column]) if check else 0 for column in (*COUNTERS, *INTEGRALS)}
        rows, digest_sum = (int(check["rows"]), int(check["digest_sum"])) if check else (0, 0)
        result.append(HourResult(hour_name(hour_ms), inputs, rows, checksum_text(rows, digest_sum), sums))
    return tuple(result)


def _check_conservation(raw: DataFrame, unbilled: DataFrame, checks: Mapping[int, Row], hours: list[int]) -> None:
    """What the files hold of each counter, less quarantine, is in the hours: all of it, and once.

    Computed from the files by a shorter way than the hours are; that files are what their manifests say was checked before.
    """
    from pyspark.sql import functions as F

    from spark_jobs import records

    def sums(rows: DataFrame) -> dict[tuple[int, str], int]:
        counters = rows.where(F.col("meter").isin(*COUNTERS) & F.col("hour_start_ms").isin(hours))
        summed = counters.groupBy("hour_start_ms", "meter").agg(F.sum(F.col("value").cast("decimal(38,0)")).alias("sum"))
        return {(int(row["hour_start_ms"]), str(row["meter"])): int(row["sum"] or 0) for row in summed.collect()}

    once = raw.select(*records.COLUMN_NAMES).distinct()
    expected = sums(once.withColumn("hour_start_ms", records.floor_hour(F.col("interval_start_ms"))))
    for key, value in sums(unbilled).items():
        expected[key] -= value
    computed = {(hour, meter): int(check[meter]) for hour, check in checks.items() for meter in COUNTERS}
    if {k: v for k, v in expected.items() if v} != {k: v for k, v in computed.items() if v}:
        raise JobFailed(f"the hours do not add up to the records: {expected} in, {computed} out; nothing was published")


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m spark_jobs.hourly_usage REQUEST.json RESULT.json", file=sys.stderr)  # noqa: T201
        return 2
    _end_with_standard_input()
    os.nice(NICENESS)
    try:
        request = request_from(Path(arguments[0]))
    except ValueError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    try:
        result = run(request)
    except Exception as error:
        traceback.print_exc()
        kind = "" if isinstance(error, NoJava | JobFailed) else f"{type(error).__name__}: "
        result = Result(request.run_id, error=f"{kind}{error}"[:2000], needs_spark=isinstance(error, NoJava))
    write_json(result, Path(arguments[1]))
    return 1 if result.error else 0


def _end_with_standard_input() -> None:
    """The caller holds the other end of a pipe for as long as it lives. The JVM watches a pipe to this process the same way."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
