"""Finds sequence numbers that are in no file. A lost file shows as a gap; a broker crash does not, because its boot ends there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from messaging.usage_schema import COUNTERS
from spark_jobs.config import SequenceGap
from spark_jobs.plan import HOUR_MS, Manifest
from spark_jobs.records import IDENTITY

HOLES_MAX = 1000


def gaps(valid: DataFrame) -> DataFrame:
    """Gaps in `seq` among the records read, with the event times on both sides (`after_ms` is null before the first record)."""
    one_each = valid.dropDuplicates(IDENTITY)
    in_order = Window.partitionBy("source", "boot_epoch", "series").orderBy("seq")
    last_seq = F.coalesce(F.lag("seq").over(in_order), F.lit(-1))
    last_total = F.coalesce(F.lag("cumulative").over(in_order), F.lit(0))
    lost = F.when(F.col("meter").isin(*COUNTERS), F.col("cumulative") - F.col("value") - last_total)
    return one_each.select(
        "source",
        "boot_epoch",
        "series",
        (last_seq + 1).alias("first_missing"),
        (F.col("seq") - 1).alias("last_missing"),
        lost.alias("missing_value"),
        F.lag("interval_end_ms").over(in_order).alias("after_ms"),
        F.col("interval_start_ms").alias("before_ms"),
    ).where(F.col("first_missing") <= F.col("last_missing"))


def unexplained_gaps(rows: Iterable[Any], unread: Iterable[Manifest], oldest_ms: int) -> list[SequenceGap]:
    """The gaps that no file explains: the missing records may be in a file that this run did not need to read.

    `oldest_ms`: earlier files are unknown; a series whose boot reaches back to them may begin with any number."""
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for manifest in unread:
        spans.setdefault((manifest.source, manifest.boot_epoch), []).append((manifest.interval_start_ms, manifest.interval_end_ms))
    found = []
    for row in rows:
        after_ms = oldest_ms if row.after_ms is None else row.after_ms
        known = spans.get((row.source, row.boot_epoch), [])
        explained = any(start < row.before_ms and end > after_ms for start, end in known)
        too_old = row.after_ms is None and row.before_ms < oldest_ms + 24 * HOUR_MS
        if not explained and not too_old:
            found.append(
                SequenceGap(row.source, row.boot_epoch, row.series, row.first_missing, row.last_missing, row.missing_value)
            )
    return found
