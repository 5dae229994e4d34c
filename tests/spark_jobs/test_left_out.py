"""What a run leaves out, or finds missing, is told with the file and the row, or with bounds."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import duckdb

from messaging.usage_schema import COLUMNS
from spark_jobs.inputs import read_inputs
from tests.spark_jobs.job import Job
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NEW, NOON_MS, OLD, golden, record, reference, write_all

RECYCLED = "recycled://acme/orders/1-a/new"


def quarantined(job: Job) -> list[dict[str, Any]]:
    files = (job.directory / "hours").glob("quarantine*/*.json")
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def record_at(job: Job, file: str, row: int) -> dict[str, Any]:
    """As another reader sees it."""
    relation = duckdb.sql(f"select * from read_parquet('{job.raw / file}', file_row_number=true) where file_row_number = {row}")
    assert relation is not None
    (values,) = relation.fetchall()
    return {name: value for name, value in zip(relation.columns, values, strict=True) if name in dict(COLUMNS)}


def test_copies_of_a_record_count_once_and_altered_ones_not_at_all(job: Job) -> None:
    records = golden()
    write_all(records, job.raw)
    write_all(records[:5], job.raw)
    altered = records[4]._replace(value=8)
    write_all([altered], job.raw)
    result = job.run()
    assert result.duplicates == 5
    assert result.quarantined == {"conflict": 2}
    assert job.hours() == {key: value for key, value in reference(records).items() if key != (NOON_MS, OLD)}
    rows = quarantined(job)
    assert sorted(row["value"] for row in rows) == [7, 8]
    assert {row["topic"] for row in rows} == {OLD}
    for row in rows:
        assert record_at(job, row["file"], row["row"]) == {name: row[name] for name, _ in COLUMNS}


def test_records_that_break_the_rules_are_quarantined(job: Job) -> None:
    records = [
        record("messages_in", 1, NOON_MS),
        record("messages_in", 2, NOON_MS, seq=1)._replace(tenant="globex"),
        record("messages_in", 4, NOON_MS, seq=2, width_ms=2 * MINUTE_MS),
        record("messages_in", -8, NOON_MS, seq=3, cumulative=8),
        record("messages_in", 16, NOON_MS, seq=4)._replace(series="messages_in|another"),
        record("messages_in", 32, NOON_MS, seq=5)._replace(namespace="acme/other"),
        record("likes", 64, NOON_MS),
        record("messages_in", 2, NOON_MS, topic=RECYCLED),
    ]
    write_all(records, job.raw)
    result = job.run()
    assert result.quarantined == {"invalid": 6}
    for row in quarantined(job):
        assert record_at(job, row["file"], row["row"]) == {name: row[name] for name, _ in COLUMNS}
    assert job.hours() == {(NOON_MS, NEW): (1, 0, 0, 0, 0, 0), (NOON_MS, RECYCLED): (2, 0, 0, 0, 0, 0)}


def test_a_lost_file_shows_as_a_hole_and_a_file_not_read_does_not(job: Job) -> None:
    series = [record("messages_in", 5, NOON_MS + i * MINUTE_MS, seq=i, cumulative=5 * i + 5) for i in range(4)]
    other = record("messages_in", 1, NOON_MS - 2 * HOUR_MS, topic=OLD, seq=0)
    other_later = record("messages_in", 1, NOON_MS + 30 * MINUTE_MS, topic=OLD, seq=1, cumulative=2)
    write_all([other], job.raw)
    job.run()
    write_all([series[0], series[3], other_later], job.raw)
    result = job.run()
    assert [hour.hour for hour in result.hours] == ["2026-11-21T12"]  # the hour with `other` in it is not read again
    (hole,) = result.holes
    assert (hole.series, hole.first_missing, hole.last_missing, hole.missing_value) == (f"messages_in|{NEW}", 1, 2, 10)
    assert (hole.from_ms, hole.until_ms) == (NOON_MS + MINUTE_MS, NOON_MS + 3 * MINUTE_MS)
    used = {input_file.name: input_file for input_file in read_inputs(job.directory / "hours", result.run_id, 0, 10)}
    assert used.keys() == {path.relative_to(job.raw).as_posix() for path in job.raw.glob("date=*/hour=12/*.parquet")}
    for name, input_file in used.items():
        data = (job.raw / name).read_bytes()
        assert (input_file.sha256, input_file.bytes, input_file.rows) == (hashlib.sha256(data).hexdigest(), len(data), 3)
    assert (result.files, result.bytes) == (len(used), sum(input_file.bytes for input_file in used.values()))
