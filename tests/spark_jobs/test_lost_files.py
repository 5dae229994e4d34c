"""A file that was lost is noticed by its number, however long its series were silent before."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.broker.usage.record import UsageRecord
from messaging.broker.usage.writer import write
from messaging.usage_schema import SEQUENCE_SPAN
from spark_jobs.config import SequenceGap
from spark_jobs.plan import Manifest, lost_files
from tests.spark_jobs.job import Job
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NOON_MS, record

BOOT = ("broker-1", 1)


def manifest(hour: int, *numbers: int, boot: tuple[str, int] = BOOT) -> Manifest:
    start_ms = hour * HOUR_MS
    return Manifest(Path("x"), f"{hour}{numbers}", "", 1, start_ms, start_ms + 1, {}, *boot, (), numbers)


@pytest.mark.parametrize(
    ("files", "begun", "hours", "lost"),
    [
        ([(1, 0), (1, 1), (2, 2)], True, {1, 2}, []),
        ([(1, 0), (5, 3)], True, {5}, [(1, 2)]),
        ([(1, 0), (5, 3)], True, {1}, []),  # of another hour's run
        ([(1, 2), (1, 3)], True, {1}, [(0, 1)]),
        ([(1, 2), (1, 3)], False, {1}, []),  # earlier files may be too old to be looked at
        ([(1, 0, 1, 4), (2, 2), (3, 3, 6)], True, {1, 3}, [(5, 5)]),  # files made one
        ([(1,), (2,)], True, {1, 2}, []),  # of an earlier release
    ],
)
def test_numbers_that_no_file_has(files: list[tuple[int, ...]], begun: bool, hours: set[int], lost: list[tuple[int, int]]) -> None:
    manifests = [manifest(*file) for file in files]
    gaps = lost_files(manifests, {BOOT} if begun else set(), {hour * HOUR_MS for hour in hours})
    assert [(gap.first, gap.last) for gap in gaps] == lost


def test_a_lost_file_shows_after_hours_of_silence_also_when_small_files_were_made_one(job: Job) -> None:
    later_ms = NOON_MS + 3 * HOUR_MS
    write([record("messages_in", 1, NOON_MS, seq=0)], job.raw, 0)
    write([record("messages_in", 1, NOON_MS + MINUTE_MS, seq=1)], job.raw, 1)
    lost = write([record("messages_in", 1, NOON_MS + 2 * MINUTE_MS, seq=2)], job.raw, 2)
    job.run(later_ms)
    lost.unlink()
    lost.with_suffix(".json").unlink()
    write([record("messages_in", 1, later_ms, seq=3)], job.raw, 3)
    result = job.run(later_ms + MINUTE_MS)
    assert SequenceGap(*BOOT, "files", 2, 2, None, NOON_MS + 2 * MINUTE_MS, later_ms) in result.holes and result.hole_count == len(
        result.holes
    )
    assert job.run(later_ms + MINUTE_MS).hole_count == 0


def made_anew() -> list[UsageRecord]:
    """Of a topic that was deleted and made twice: three records each time, one a minute."""
    return [
        record("messages_in", 10, NOON_MS + (3 * life + minute) * MINUTE_MS, seq=life * 7 * SEQUENCE_SPAN + minute,
               cumulative=10 * (minute + 1))
        for life in range(3)
        for minute in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["one file", "a file a minute", "record by record"])
@pytest.mark.parametrize(
    ("lost", "missing"),
    [([], []), ([1], [(1, 1, 10)]), ([3], [(7 * SEQUENCE_SPAN, 7 * SEQUENCE_SPAN, 10)]),
     ([3, 4, 7], [(7 * SEQUENCE_SPAN, 7 * SEQUENCE_SPAN + 1, 20), (14 * SEQUENCE_SPAN + 1, 14 * SEQUENCE_SPAN + 1, 10)])],
)  # fmt: skip
def test_numbers_that_begin_anew_are_no_hole_and_those_lost_are_one(
    job: Job, way: str, lost: list[int], missing: list[tuple[int, int, int]]
) -> None:
    there = [usage for place, usage in enumerate(made_anew()) if place not in lost]
    for records in [[usage] for usage in there] if way == "a file a minute" else [there]:
        write(records, job.raw)
    if way == "record by record":
        write(there[:1], job.raw)  # a copy
    result = job.run(NOON_MS + 3 * HOUR_MS)
    assert [(hole.first_missing, hole.last_missing, hole.missing_value) for hole in result.holes] == missing
    assert job.hours() == {(NOON_MS, there[0].topic): (10 * len(there), 0, 0, 0, 0, 0)}
