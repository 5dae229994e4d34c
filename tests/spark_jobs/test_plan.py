"""Which hours are dirty, from manifests alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_jobs import plan as plan_module
from spark_jobs.plan import hour_name, hour_of_name, make_plan
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NOON_MS, record, write_all

NOW_MS = NOON_MS + 3 * HOUR_MS


def test_hours_have_names_of_utc() -> None:
    assert hour_name(NOON_MS) == "2026-11-21T12"
    assert hour_of_name("2026-11-21T12") == NOON_MS


def test_new_files_make_their_hour_dirty_and_known_inputs_do_not(tmp_path: Path) -> None:
    write_all([record("messages_in", 1, NOON_MS + 10 * MINUTE_MS)], tmp_path)
    first = make_plan(tmp_path, {}, NOW_MS, 35)
    assert list(first.inputs) == [NOON_MS]
    assert len(first.files) == 1
    assert make_plan(tmp_path, first.inputs, NOW_MS, 35).inputs == {}
    write_all([record("messages_in", 1, NOON_MS + 11 * MINUTE_MS, seq=1)], tmp_path)
    assert list(make_plan(tmp_path, first.inputs, NOW_MS, 35).inputs) == [NOON_MS]


@pytest.mark.parametrize(
    ("start_ms", "hours"),
    [
        (NOON_MS + 10 * MINUTE_MS, [NOON_MS]),
        (NOON_MS + 5 * MINUTE_MS - 1, [NOON_MS - HOUR_MS, NOON_MS]),  # a gauge of the hour before may be carried to it
        (NOON_MS + 5 * MINUTE_MS, [NOON_MS]),
        (NOON_MS - 6 * MINUTE_MS, [NOON_MS - HOUR_MS]),
        (NOON_MS - 6 * MINUTE_MS + 1, [NOON_MS - HOUR_MS, NOON_MS]),
    ],
)
def test_a_file_near_an_edge_touches_the_hour_beyond(tmp_path: Path, start_ms: int, hours: list[int]) -> None:
    both = [record("messages_in", 1, NOON_MS - 30 * MINUTE_MS), record("messages_in", 1, NOON_MS + 30 * MINUTE_MS, seq=1)]
    write_all(both, tmp_path)
    known = make_plan(tmp_path, {}, NOW_MS, 35).inputs
    write_all([record("bytes_in", 1, start_ms)], tmp_path)
    assert list(make_plan(tmp_path, known, NOW_MS, 35).inputs) == hours


def test_an_edge_alone_makes_no_hour(tmp_path: Path) -> None:
    write_all([record("messages_in", 1, NOON_MS)], tmp_path)
    assert list(make_plan(tmp_path, {}, NOW_MS, 35).inputs) == [NOON_MS]


def test_an_hour_whose_files_are_gone_is_dirty_once(tmp_path: Path) -> None:
    (file,) = write_all([record("messages_in", 1, NOON_MS)], tmp_path)
    known = dict(make_plan(tmp_path, {}, NOW_MS, 35).inputs)
    file.with_suffix(".json").unlink()
    plan = make_plan(tmp_path, known, NOW_MS, 35)
    assert list(plan.inputs) == [NOON_MS] and plan.files == ()
    assert make_plan(tmp_path, plan.inputs, NOW_MS, 35).inputs == {}


def test_a_file_without_a_manifest_is_not_there(tmp_path: Path) -> None:
    (file,) = write_all([record("messages_in", 1, NOON_MS)], tmp_path)
    file.with_suffix(".json").unlink()
    assert make_plan(tmp_path, {}, NOW_MS, 35).inputs == {}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": 6}, "schema version 6"),
        ({"file": "../other.parquet"}, "another name"),
        ({"rows": "3"}, "rows is '3'"),
        ({"interval_end_ms": NOON_MS}, "interval is empty"),
        ({"sums": {"messages_in": 0.5}}, "sums is not"),
        (None, "not a manifest"),
    ],
)
def test_a_broken_manifest_is_rejected_and_hides_no_other(tmp_path: Path, change: dict[str, object] | None, why: str) -> None:
    write_all([record("messages_in", 1, NOON_MS)], tmp_path)
    (file,) = write_all([record("messages_in", 1, NOON_MS, seq=1)], tmp_path)
    manifest = file.with_suffix(".json")
    fields = json.loads(manifest.read_bytes())
    manifest.write_text("[" if change is None else json.dumps(fields | change))
    plan = make_plan(tmp_path, {}, NOW_MS, 35)
    assert len(plan.files) == 1
    (rejected,) = plan.rejected
    assert why in rejected.reason


def test_days_before_the_lookback_are_left_alone(tmp_path: Path) -> None:
    write_all([record("messages_in", 1, NOON_MS - 50 * 24 * HOUR_MS)], tmp_path)
    old = NOON_MS - 60 * 24 * HOUR_MS
    assert make_plan(tmp_path, {old: "inputs"}, NOW_MS, 35).inputs == {}


def test_of_many_months_the_latest_comes_first_and_a_plan_reads_no_more_than_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day_ms = 24 * HOUR_MS
    records = [record("messages_in", 1, NOON_MS - days * day_ms, seq=days) for days in range(0, 120, 10)]
    write_all(records, tmp_path)
    read: list[int] = []
    original = plan_module.read_manifests

    def counted(*arguments: Any) -> Any:
        result = original(*arguments)
        read.append(len(result[0]))
        return result

    monkeypatch.setattr(plan_module, "read_manifests", counted)
    known: dict[int, str] = {}
    counts = []
    more = True
    while more:
        plan = make_plan(tmp_path, known, NOW_MS, 200)
        counts.append(len(plan.inputs))
        known |= plan.inputs
        more = plan.more
    assert sorted(known) == sorted(record.interval_start_ms for record in records)
    assert counts[0] in (3, 4) and sum(counts) == 12
    assert max(read) <= 5  # at once
    assert make_plan(tmp_path, known, NOW_MS, 200).inputs == {}
