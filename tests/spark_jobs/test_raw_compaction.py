"""Small raw files made one: nothing that is billed changes, whenever it happens and wherever it is killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from messaging.broker.usage.record import UsageRecord
from messaging.broker.usage.writer import remove_leftovers
from spark_jobs import raw_compaction
from spark_jobs.raw_compaction import FILES_MIN, PREFIX, QUIET_MS, compactions, merge_files
from tests.spark_jobs.job import Job
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NOON_MS, record, reference, write_all

LATER_MS = NOON_MS + 2 * HOUR_MS + QUIET_MS


def minutes(count: int = FILES_MIN) -> list[UsageRecord]:
    """A counter and a gauge of each minute."""
    counted = [record("messages_in", 5, NOON_MS + at * MINUTE_MS, seq=at, cumulative=5 * at + 5) for at in range(count)]
    return [*counted, *(record("stored_bytes", 7, counter.interval_start_ms, seq=counter.seq) for counter in counted)]


def write_minutes(raw: Path, records: list[UsageRecord]) -> None:
    for start in sorted({minute.interval_start_ms for minute in records}):
        write_all([minute for minute in records if minute.interval_start_ms == start], raw)


def files(job: Job) -> list[str]:
    return sorted(path.name for path in job.raw.rglob("*.parquet"))


@pytest.fixture
def filled(job: Job) -> Job:
    """An hour of small files that is computed, and another that is new."""
    write_minutes(job.raw, minutes())
    job.run()
    write_all([record("messages_in", 1, LATER_MS, seq=60, cumulative=301)], job.raw)
    return job


def test_an_hour_that_is_over_has_one_file_and_the_same_inputs(filled: Job) -> None:
    before = filled.hours()
    result = filled.run(LATER_MS + HOUR_MS)
    assert result.files_compacted == FILES_MIN
    compacted, _ = sorted(files(filled), reverse=True)
    assert compacted.startswith(PREFIX)
    assert filled.run(LATER_MS + HOUR_MS).hours == ()
    assert {key: value for key, value in filled.hours().items() if key in before} == before


def test_a_late_file_then_costs_itself(filled: Job) -> None:
    filled.run(LATER_MS + HOUR_MS)
    late = record("bytes_in", 9, NOON_MS)
    write_all([late], filled.raw)
    result = filled.run(LATER_MS + HOUR_MS)
    assert (result.files_read, result.rows_read) == (1, 1)
    assert filled.hours()[NOON_MS, late.topic] == reference([*minutes(), late])[NOON_MS, late.topic]


def test_its_records_are_read_from_it_where_sums_are_gone_or_not_enough(filled: Job, new_job: Callable[[str], Job]) -> None:
    filled.run(LATER_MS + HOUR_MS)
    for path in (filled.directory / "partials").rglob("*.json"):
        path.unlink()
    altered = minutes()[3]._replace(value=6)
    write_all([altered, minutes()[4]], filled.raw)
    result = filled.run(LATER_MS + HOUR_MS)
    assert (result.quarantined, result.duplicates) == ({"conflict": 2}, 1)
    plain = new_job("plain")
    write_minutes(plain.raw, minutes())
    write_all([altered, minutes()[4]], plain.raw)
    plain.run()
    assert {key: value for key, value in filled.hours().items() if key[0] == NOON_MS} == plain.hours()


def test_a_kill_before_the_small_files_are_gone_changes_nothing(filled: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", lambda path, missing_ok=False: None)
        result = filled.run(LATER_MS + HOUR_MS)
    assert result.files_compacted == FILES_MIN and len(files(filled)) == FILES_MIN + 2
    before = filled.checksums()
    assert filled.run(LATER_MS + HOUR_MS).hours == ()
    assert filled.checksums() == before


def test_a_broker_that_starts_takes_nothing_of_it_for_its_leftovers(filled: Job) -> None:
    filled.run(LATER_MS + HOUR_MS)
    (compacted,) = filled.raw.rglob(f"{PREFIX}*.parquet")
    compacted.with_suffix(".json").rename(compacted.with_suffix(".later"))
    assert remove_leftovers(filled.raw, "broker-1") == 0
    assert compacted.exists()


def test_open_hours_and_few_files_are_left_alone(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_jobs.plan import read_manifests

    write_minutes(job.raw, minutes())
    manifests, _ = read_manifests(job.raw, NOON_MS - 24 * HOUR_MS, NOON_MS + 24 * HOUR_MS)
    assert compactions(manifests, NOON_MS + HOUR_MS + QUIET_MS - 1) == []
    assert compactions(manifests[1:], LATER_MS) == []
    assert [len(task.files) for task in compactions(manifests, LATER_MS)] == [FILES_MIN]
    monkeypatch.setattr(raw_compaction, "ROWS_MAX", 2 * FILES_MIN - 2)
    assert compactions(manifests, LATER_MS) == []  # one file less than that fits into one, and one is left


def test_a_damaged_file_is_left_as_it_is(job: Job) -> None:
    from spark_jobs.plan import read_manifests

    write_minutes(job.raw, minutes())
    manifests, _ = read_manifests(job.raw, NOON_MS - 24 * HOUR_MS, NOON_MS + 24 * HOUR_MS)
    (task,) = compactions(manifests, LATER_MS)
    before = files(job)
    manifests[2].path.write_bytes(b"damaged")
    assert merge_files(task) == 0
    assert files(job) == before


def test_members_that_are_no_list_are_refused(filled: Job) -> None:
    filled.run(LATER_MS + HOUR_MS)
    (manifest,) = filled.raw.rglob(f"{PREFIX}*.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_bytes()) | {"members": "all"}))
    assert "members is not a list" in next(iter(filled.run(LATER_MS + HOUR_MS).rejected_files.values()))
