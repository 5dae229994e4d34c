"""All reading and writing of a job; everything else transforms DataFrames."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.plan import Manifest
from spark_jobs.records import COLUMN_NAMES, SCHEMA

FILE = "file"


def read_raw(session: SparkSession, manifests: Sequence[Manifest]) -> DataFrame:
    """Reads exactly these files, with each record's file name; lists no directory."""
    paths = [_literal(str(manifest.path)) for manifest in manifests]
    if not paths:
        return session.createDataFrame([], SCHEMA).withColumn(FILE, F.lit(""))
    reader = session.read.schema(SCHEMA).option("recursiveFileLookup", "true")  # no columns derived from folder names
    records = reader.parquet(*paths)
    for column in ("tenant_uid", "subscription", "key"):  # earlier versions of the schema had none
        records = records.withColumn(column, F.coalesce(column, F.lit("")))
    return records.select(*COLUMN_NAMES, F.col("_metadata.file_name").alias(FILE))


def check_files(raw: DataFrame, manifests: Sequence[Manifest]) -> tuple[dict[str, str], int]:
    """Returns file name -> the reason why its rows do not match its manifest; and the number of rows of all files."""
    found = (
        raw.groupBy(FILE, "meter")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum(F.col("value").cast("decimal(38,0)")).alias("sum"),
            F.min("interval_start_ms").alias("start"),
            F.max("interval_end_ms").alias("end"),
        )
        .collect()
    )
    by_file: dict[str, list[object]] = defaultdict(list)
    rows_read = 0
    for row in found:
        by_file[row[FILE]].append(row)
        rows_read += row["rows"]
    problems = {}
    for manifest in manifests:
        problem = _difference(by_file.get(manifest.path.name, []), manifest)
        if problem:
            problems[manifest.path.name] = problem
    return problems, rows_read


def _difference(found: Sequence[object], manifest: Manifest) -> str:
    rows = sum(row["rows"] for row in found)  # type: ignore[index]
    if rows != manifest.rows:
        return f"it has {rows} rows, the manifest says {manifest.rows}"
    sums: Mapping[str, int] = {row["meter"]: int(row["sum"] or 0) for row in found}  # type: ignore[index]
    if sums != dict(manifest.sums):
        return f"its sums are {dict(sums)}, the manifest says {dict(manifest.sums)}"
    for row in found:
        if row["start"] < manifest.interval_start_ms or row["end"] > manifest.interval_end_ms:  # type: ignore[index]
            return "it holds records outside the manifest's interval"
    return ""


def write_hours(hours: DataFrame, run_directory: Path) -> None:
    """Writes Parquet below `run_directory`/date=/hour=; fails if that exists, since a run's output never changes."""
    at = F.timestamp_millis("hour_start_ms")
    parts = hours.withColumn("date", F.date_format(at, "yyyy-MM-dd")).withColumn("hour", F.date_format(at, "HH"))
    ordered = parts.repartition("hour_start_ms").sortWithinPartitions("hour_start_ms", "topic")
    ordered.write.partitionBy("date", "hour").option("compression", "zstd").mode("errorifexists").parquet(str(run_directory))


def write_rows_to_load(hours: DataFrame, directory: Path) -> None:
    """The same rows as lines of JSON, for loading them into a database without a Parquet reader (12 MiB)."""
    hours.coalesce(4).write.mode("errorifexists").json(str(directory))


def write_quarantine(rows: DataFrame, directory: Path) -> None:
    rows.coalesce(1).write.mode("errorifexists").json(str(directory))


def _literal(path: str) -> str:
    """Escapes a path, which Spark reads as a pattern, to match exactly one file."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", path)
