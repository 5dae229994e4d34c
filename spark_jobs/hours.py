"""Good records into an hour's usage per tenant, namespace and topic. Integers and decimals only.

Counters: the sum of their values. Gauges: the integral of a step function over the hour. A value holds from its interval's start
to its end, or to the next record's start if that is sooner (whichever broker it is from: a topic has one size); over a silence of
at most `GAUGE_CARRY_MS_MAX` it holds until the next record; over a longer one nothing is charged. The integral is exact in
unit-milliseconds and rounded down once, to whole unit-seconds per topic and hour: every sum shown is a sum of these.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from messaging.usage_schema import COUNTERS, GAUGE_CARRY_MS_MAX, GAUGES
from spark_jobs.checksum import DIGEST_HEX_DIGITS, HOUR_COLUMNS, INTEGRALS, SEPARATOR
from spark_jobs.plan import HOUR_MS

_GROUP = ["target", "tenant", "tenant_uid", "namespace", "topic"]
_EXACT = "decimal(38,0)"
_UNIT_SECONDS_END = 2**63  # results are 64-bit integers; 2.5 PB in one topic for an hour would pass that


def usage_of_hours(records: DataFrame) -> DataFrame:
    """Columns `HOUR_COLUMNS`: one row for each hour and topic in which anything was used. `records`: those of `records.good`."""
    counters = records.where(F.col("own") & F.col("meter").isin(*COUNTERS)).select(
        *_GROUP, "meter", F.col("value").cast(_EXACT).alias("amount")
    )
    summed = (
        counters.unionByName(gauge_milliseconds(records))
        .groupBy(*_GROUP)
        .agg(
            *[_sum_of(meter).cast("long").alias(meter) for meter in COUNTERS],
            *[_whole_seconds(_sum_of(meter)).alias(name) for meter, name in zip(GAUGES, INTEGRALS, strict=True)],
        )
    )
    used = F.lit(False)
    for column in (*COUNTERS, *INTEGRALS):
        used = used | (F.col(column) > 0)
    return summed.withColumnRenamed("target", "hour_start_ms").where(used).select(*HOUR_COLUMNS)


def gauge_milliseconds(records: DataFrame) -> DataFrame:
    """For each gauge record, `amount`: its value times the milliseconds for which it holds within the target hour."""
    start, end, next_start = F.col("interval_start_ms"), F.col("interval_end_ms"), F.col("next_start_ms")
    in_order = Window.partitionBy("target", "tenant_uid", "topic", "meter").orderBy(
        "interval_start_ms", "interval_end_ms", "source", "boot_epoch", "seq"
    )
    holds_until = (
        F.when(next_start.isNull(), end)
        .when(next_start - end <= GAUGE_CARRY_MS_MAX, next_start)  # cut short by the next record, or extended to it
        .otherwise(end)
    )
    held_ms = F.least(F.col("target") + HOUR_MS, holds_until) - F.greatest(F.col("target"), start)
    return (
        records.where(F.col("meter").isin(*GAUGES))
        .withColumn("next_start_ms", F.lead("interval_start_ms").over(in_order))
        .select(
            *_GROUP,
            "meter",
            (F.col("value").cast("decimal(19,0)") * F.greatest(held_ms, F.lit(0)).cast("decimal(19,0)")).alias("amount"),
        )
        .select(*_GROUP, "meter", F.col("amount").cast(_EXACT))
    )


def _sum_of(meter: str) -> Column:
    return F.coalesce(F.sum(F.when(F.col("meter") == meter, F.col("amount"))), F.lit(0)).cast(_EXACT)


def _whole_seconds(milliseconds: Column) -> Column:
    too_many = F.raise_error(F.lit("a gauge's integral over an hour passes 2^63 unit-seconds"))
    whole = (milliseconds - milliseconds % 1000) / 1000
    return F.when(milliseconds < F.lit(str(_UNIT_SECONDS_END * 1000)).cast(_EXACT), whole.cast("long")).otherwise(
        too_many.cast("long")
    )


def checks_of_hours(hours: DataFrame) -> DataFrame:
    """For each hour: `rows`, `digest_sum` (`spark_jobs.checksum`) and the sum of each column, as decimals."""
    text = F.concat_ws(SEPARATOR, *[F.col(column).cast("string") for column in HOUR_COLUMNS])
    digest = F.conv(F.substring(F.sha2(text, 256), 1, DIGEST_HEX_DIGITS), 16, 10).cast(_EXACT)
    return hours.groupBy("hour_start_ms").agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum(digest).cast(_EXACT).alias("digest_sum"),
        *[F.sum(F.col(column).cast(_EXACT)).cast(_EXACT).alias(column) for column in (*COUNTERS, *INTEGRALS)],
    )
