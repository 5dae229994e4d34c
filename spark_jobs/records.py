"""Raw records, DataFrame to DataFrame: selects those that affect an hour, validates them and removes duplicates."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from messaging.usage_schema import COLUMNS, COUNTERS, GAUGE_CARRY_MS_MAX, GAUGES, INTERVAL_MS_MAX, READABLE_VERSIONS
from spark_jobs.plan import HOUR_MS

_TYPES = {"string": StringType(), "int64": LongType(), "int32": IntegerType()}
SCHEMA = StructType([StructField(column, _TYPES[kind]) for column, kind in COLUMNS])
COLUMN_NAMES = [column for column, _ in COLUMNS]
IDENTITY = ["source", "boot_epoch", "series", "seq"]

INVALID = "invalid"  # breaks a rule of the schema
CONFLICT = "conflict"  # one identity with different contents


def floor_hour(at_ms: Column) -> Column:
    return at_ms - F.pmod(at_ms, F.lit(HOUR_MS))


def for_hours(records: DataFrame, hours: list[int]) -> DataFrame:
    """Repeats each record for each of `hours` that it affects, as column `target`, with `own`: whether it lies in that hour.

    A record affects its own hour, and a neighbour if a gauge may be carried between the two. All later steps work within one
    target, so an hour's result does not depend on which other hours are computed in the same run."""
    start, end = F.col("interval_start_ms"), F.col("interval_end_ms")
    near = F.array_distinct(
        F.array(floor_hour(start), floor_hour(start - GAUGE_CARRY_MS_MAX), floor_hour(end - 1 + GAUGE_CARRY_MS_MAX))
    )
    return (
        records.select(*COLUMN_NAMES, F.explode(near).alias("target"))
        .where(F.col("target").isin(hours))
        .withColumn("own", F.col("target") == floor_hour(start))
    )


def with_problem(records: DataFrame) -> DataFrame:
    """Adds `problem`: the first rule of the schema that a record breaks, or null."""
    start, end = F.col("interval_start_ms"), F.col("interval_end_ms")
    topic, namespace, tenant_uid = F.col("topic"), F.col("namespace"), F.col("tenant_uid")
    of_tenant = F.when(tenant_uid == "", F.lit("")).otherwise(F.concat(tenant_uid, F.lit("|")))
    rules = [
        (reduce(Column.__or__, [F.col(name).isNull() for name in COLUMN_NAMES]), "a column is null"),
        (~F.col("schema_version").isin(*READABLE_VERSIONS), "another schema version"),
        (~F.col("meter").isin(*COUNTERS, *GAUGES), "an unknown meter"),
        (F.col("series") != F.concat(F.col("meter"), F.lit("|"), of_tenant, topic), "series is not meter|tenant uid|topic"),
        ((F.col("value") < 0) | (F.col("cumulative") < 0) | (F.col("seq") < 0), "a negative number"),
        ((end <= start) | (end - start > INTERVAL_MS_MAX), "an interval that is empty or longer than a minute"),
        (floor_hour(start) != floor_hour(end - 1), "an interval across an hour"),
        (~namespace.startswith(F.concat(F.col("tenant"), F.lit("/"))), "a namespace of another tenant"),
        (
            ~topic.startswith(F.concat(F.lit("persistent://"), namespace, F.lit("/")))
            & ~topic.startswith(F.concat(F.lit("non-persistent://"), namespace, F.lit("/"))),
            "a topic of another namespace",
        ),
    ]
    problem = F.lit(None).cast("string")
    for broken, text in reversed(rules):
        problem = F.when(broken, F.lit(text)).otherwise(problem)
    return records.withColumn("problem", problem)


def distinct_records(records: DataFrame) -> DataFrame:
    """Removes copies of a record."""
    return records.dropDuplicates([*COLUMN_NAMES, "target"])


def with_versions(records: DataFrame) -> DataFrame:
    """Adds `versions`: how many different records of the same target have this identity. More than 1 is a conflict: nobody can know
    which of them is true, so none is billed."""
    same = Window.partitionBy("target", *IDENTITY)
    return records.withColumn("versions", F.count(F.lit(1)).over(same))


def quarantine(judged: DataFrame) -> DataFrame:
    """Rows that are not billed, with `reason` and `detail`, without duplicates."""
    return judged.where(F.col("own") & (F.col("problem").isNotNull() | (F.col("versions") > 1))).select(
        *COLUMN_NAMES,
        F.when(F.col("problem").isNotNull(), INVALID).otherwise(CONFLICT).alias("reason"),
        F.coalesce(F.col("problem"), F.lit("the same identity with different contents")).alias("detail"),
        F.col("target").alias("hour_start_ms"),
    )


def judge(records: DataFrame) -> DataFrame:
    """Adds `problem` and `versions` to distinct records of targets; a record that breaks a rule conflicts with none."""
    with_problems = with_problem(distinct_records(records))
    valid = with_versions(with_problems.where(F.col("problem").isNull()))
    broken = with_problems.where(F.col("problem").isNotNull()).withColumn("versions", F.lit(1).cast("long"))
    return valid.unionByName(broken)


def good(judged: DataFrame) -> DataFrame:
    return judged.where(F.col("problem").isNull() & (F.col("versions") == 1))
