"""Raw usage files as brokers write them, in any number: each minute a file with a record of each meter of each topic."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from messaging.usage_schema import COLUMNS, COUNTERS, GAUGES, SCHEMA_VERSION, series_name
from spark_jobs.plan import hour_folder

START_MS = 1_795_219_200_000  # 2026-11-21 00:00 UTC
MINUTE_MS = 60_000
TENANTS = 50
SOURCE = "broker-1"
METERS = (*COUNTERS, *GAUGES)


def rows_a_minute(topics: int) -> int:
    return topics * len(METERS)


def write_minutes(raw: Path, minutes: int, topics: int, first_minute: int = 0) -> Iterator[int]:
    """Writes one file and its manifest for each minute, and yields its rows. Values are random, from a fixed seed."""
    chance = np.random.default_rng(17)
    texts = _texts(topics)
    count = rows_a_minute(topics)
    meters = np.tile(np.arange(len(METERS)), topics)
    total = np.zeros(count, dtype=np.int64)
    for minute in range(first_minute, first_minute + minutes):
        value = chance.integers(1, 1_000_000, count)
        total += value
        cumulative = np.where(meters < len(COUNTERS), total, value)
        start = START_MS + minute * MINUTE_MS
        columns: dict[str, Any] = {
            **texts,
            "source": pa.array([SOURCE] * count),
            "boot_epoch": np.full(count, 1),
            "seq": np.full(count, minute),
            "value": value,
            "cumulative": cumulative,
            "interval_start_ms": np.full(count, start),
            "interval_end_ms": np.full(count, start + MINUTE_MS),
            "emitted_at_ms": np.full(count, start + MINUTE_MS),
            "schema_version": pa.array(np.full(count, SCHEMA_VERSION, dtype=np.int32)),
        }
        folder = raw / hour_folder(start - start % 3_600_000)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{SOURCE}-1-{start}.parquet"
        nothing = pa.array([""] * count)
        table = pa.table({name: columns.get(name, nothing) for name, _ in COLUMNS})
        pq.write_table(table, path, compression="zstd", compression_level=3, store_schema=False)
        manifest = {
            "file": path.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "rows": count,
            "interval_start_ms": start,
            "interval_end_ms": start + MINUTE_MS,
            "sums": {meter: int(value[meters == index].sum()) for index, meter in enumerate(METERS)},
            "source": SOURCE,
            "boot_epoch": 1,
            "schema_version": SCHEMA_VERSION,
        }
        path.with_suffix(".json").write_text(json.dumps(manifest))
        yield count


def _texts(topics: int) -> dict[str, Any]:
    """Columns that are the same in every file, dictionary-encoded."""
    columns: dict[str, list[str]] = {name: [] for name in ("series", "tenant", "namespace", "topic", "meter", "tenant_uid")}
    for index in range(topics):
        tenant, uid = f"tenant-{index % TENANTS}", hashlib.sha256(str(index % TENANTS).encode()).hexdigest()[:32]
        namespace = f"{tenant}/department-{index % 7}"
        topic = f"persistent://{namespace}/events-of-kind-{index}"
        for meter in METERS:
            for name, value in zip(columns, (series_name(meter, uid, topic), tenant, namespace, topic, meter, uid), strict=True):
                columns[name].append(value)
    return {name: pa.array(values).dictionary_encode() for name, values in columns.items()}
