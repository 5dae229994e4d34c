"""The usage job on a running Spark session: verify, judge, recompute, write (`hourly_usage` describes the steps)."""

from __future__ import annotations

from collections.abc import Mapping

import pyspark
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from messaging.usage_schema import COUNTERS, DETAIL_METERS
from spark_jobs import hours, io, records, sequence_gaps
from spark_jobs.checksum import INTEGRALS, checksum_text
from spark_jobs.config import HourResult, JobFailed, Request, Result, load_directory, quarantine_directory, run_directory
from spark_jobs.java import Java
from spark_jobs.plan import HOUR_MS, Plan, hour_name
from spark_jobs.session import fit_to


def compute(session: SparkSession, request: Request, plan: Plan, java: Java) -> Result:
    """Writes the hours of `plan` and returns their description. Raises `JobFailed` and whatever Spark raises."""
    fit_to(session, sum(manifest.rows for manifest in plan.read), request.shuffle_partitions)
    raw = io.read_raw(session, plan.read)
    problems, rows_read = io.check_files(raw, plan.read)
    if problems:
        raw = raw.where(~F.col(io.FILE).isin(list(problems)))
    raw = raw.where(~F.col("meter").isin(*DETAIL_METERS))  # hours are of topics
    targeted = records.for_hours(raw, list(plan.inputs)).persist()
    judged = records.judge(targeted).persist()
    usage = hours.usage_of_hours(records.good(judged)).persist()
    unbilled = records.quarantine(judged)
    try:
        quarantined = {row["reason"]: row["count"] for row in unbilled.groupBy("reason").count().collect()}
        checks = {int(row["hour_start_ms"]): row for row in hours.checks_of_hours(usage).collect()}
        _check_conservation(raw, unbilled, checks, list(plan.inputs))
        duplicates = targeted.where("own").count() - judged.where("own").count()
        gaps = sequence_gaps.gaps(judged.where(F.col("own") & F.col("problem").isNull())).limit(sequence_gaps.HOLES_MAX).collect()
        output = request.output_directory
        io.write_hours(usage, run_directory(output, request.run_id))
        io.write_rows_to_load(usage, load_directory(output, request.run_id))
        if quarantined:
            io.write_quarantine(unbilled, quarantine_directory(output, request.run_id))
    finally:
        for frame in (usage, judged, targeted):
            frame.unpersist()
    found = sequence_gaps.unexplained_gaps(gaps, plan.unread, request.now_ms - request.lookback_days * 24 * HOUR_MS)
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
    """Every dirty hour, including those without usage: an empty version is a version too."""
    result = []
    for hour_ms, inputs in sorted(plan.inputs.items()):
        check = checks.get(hour_ms)
        sums = {column: int(check[column]) if check else 0 for column in (*COUNTERS, *INTEGRALS)}
        rows, digest_sum = (int(check["rows"]), int(check["digest_sum"])) if check else (0, 0)
        result.append(HourResult(hour_name(hour_ms), inputs, rows, checksum_text(rows, digest_sum), sums))
    return tuple(result)


def _check_conservation(raw: DataFrame, unbilled: DataFrame, checks: Mapping[int, Row], hours: list[int]) -> None:
    """Checks that each counter's total in the files, minus quarantine, equals its total in the hours.

    The expected total is computed from the files in a simpler way than the hours are. That files match their manifests was checked
    earlier."""

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
