"""Days and months from hours, and corrections of closed months: the job and the worker together, run after run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from messaging.broker.usage.record import UsageRecord
from spark_jobs.compute import compute
from spark_jobs.config import Request, Result, load_directory, run_directory
from spark_jobs.plan import hour_of_name, make_plan
from tenants.models import Tenant
from tenants.scoping import platform_scope, tenant_scope
from tests.spark_jobs.job import InProcess
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, record, write_all
from workers.models import UsageCorrection, UsagePeriod, UsagePeriodPartition, UsageRun
from workers.usage_load import known_inputs, publish
from workers.usage_periods import current_days, current_hours, is_closed
from workers.usage_run import RunFailed

NEW = "persistent://acme/orders/new"
FEBRUARY_END_MS = int(datetime(2028, 2, 29, 23, tzinfo=UTC).timestamp()) * 1000  # of a leap year
MARCH_2 = datetime(2028, 3, 2, tzinfo=UTC)
DAY_MS = 24 * HOUR_MS


class Platform:
    """Runs as the worker makes them, without processes."""

    def __init__(self, directory: Path) -> None:
        self.raw, self.hours = directory / "raw", directory / "hours"
        self.runs = 0

    def compute(self, now: datetime) -> Result:
        self.runs += 1
        since = datetime(2028, 1, 28, tzinfo=UTC)
        now_ms = int(now.timestamp()) * 1000
        known = known_inputs(since)
        request = Request(
            f"run-{self.runs}",
            str(self.raw),
            str(self.hours),
            str(self.raw.parent),
            now_ms,
            known=known,
            current_hours=current_hours(since),
            current_days=current_days(since),
        )
        plan = make_plan(self.raw, {hour_of_name(name): inputs for name, inputs in known.items()}, now_ms, 35)
        return compute(InProcess(), request, plan)

    def run(self, now: datetime = MARCH_2) -> UsageRun:
        result = self.compute(now)
        run = UsageRun.objects.create(run_id=result.run_id, requested_at=now)
        publish(run, result, load_directory(self.hours, result.run_id), now, lambda: None)
        return run


@pytest.fixture
def platform(spark: None, db: None, tmp_path: Path) -> Platform:
    return Platform(tmp_path)


def used(name: str) -> dict[str, tuple[int, int]]:
    """Topic -> messages in, and byte-seconds."""
    with platform_scope():
        rows = UsagePeriod.objects.filter(period=name)
        return {row.topic: (int(row.messages_in), int(row.stored_byte_seconds)) for row in rows}


def edge() -> list[UsageRecord]:
    """The last minute of February 29th and the first of March."""
    last = FEBRUARY_END_MS + HOUR_MS - MINUTE_MS
    return [
        record("messages_in", 3, last, cumulative=3),
        record("messages_in", 4, last + MINUTE_MS, seq=1, cumulative=7),
        record("stored_bytes", 10, last),
        record("stored_bytes", 20, last + MINUTE_MS, seq=1),
        record("messages_in", 5, last - 9 * DAY_MS, topic="persistent://acme/orders/old", cumulative=5),
    ]


def test_usage_belongs_to_the_day_and_month_of_utc_that_it_was_in(platform: Platform) -> None:
    write_all(edge(), platform.raw)
    platform.run()
    assert used("2028-02-29") == {NEW: (3, 600)}
    assert used("2028-03-01") == {NEW: (4, 1200)}
    assert used("2028-02") == {NEW: (3, 600), "persistent://acme/orders/old": (5, 0)}
    assert used("2028-03") == {NEW: (4, 1200)}
    parts = dict(UsagePeriodPartition.objects.values_list("period", "parts"))
    assert parts == {"2028-02-20": 1, "2028-02-29": 1, "2028-03-01": 1, "2028-02": 2, "2028-03": 1}


def test_hours_that_come_one_by_one_sum_to_the_same_as_at_once(platform: Platform) -> None:
    for usage in edge():
        write_all([usage], platform.raw)
        platform.run()
    assert used("2028-02-29") == {NEW: (3, 600)}
    assert used("2028-02") == {NEW: (3, 600), "persistent://acme/orders/old": (5, 0)}
    assert used("2028-03") == {NEW: (4, 1200)}


def test_a_day_whose_usage_was_withdrawn_is_empty(platform: Platform) -> None:
    files = write_all(edge()[:1], platform.raw)
    platform.run()
    files[0].with_suffix(".json").unlink()
    platform.run()
    assert (used("2028-02-29"), used("2028-02")) == ({}, {})
    assert UsagePeriodPartition.objects.get(period="2028-02").run_id == "run-2"


def test_sums_of_more_than_64_bits(platform: Platform) -> None:
    huge = [
        record("stored_bytes", 2**61, FEBRUARY_END_MS - hour * HOUR_MS, seq=seq, width_ms=1000)
        for seq, hour in enumerate(range(7, 1, -1))
    ]
    write_all(huge, platform.raw)
    platform.run()
    with platform_scope():
        stored = UsagePeriod.objects.get(period="2028-02").stored_byte_seconds
    assert abs(stored - Decimal(6 * 2**61)) <= Decimal(6 * 2**61) / 10**12  # SQLite keeps 15 digits of those; PostgreSQL all


def test_late_usage_of_a_closed_month_is_a_correction(platform: Platform) -> None:
    acme = Tenant.unscoped.create(name="acme")
    write_all(
        [record._replace(tenant_uid=acme.uid, series=f"{record.meter}|{acme.uid}|{record.topic}") for record in edge()],
        platform.raw,
    )
    assert platform.run().detail["corrections"] == 0
    last = FEBRUARY_END_MS + HOUR_MS - 5 * MINUTE_MS
    late = record("bytes_in", 50, last, tenant_uid=acme.uid)
    write_all([late], platform.raw)
    assert platform.run(datetime(2028, 3, 3, 23, tzinfo=UTC)).detail["corrections"] == 0  # the month is open for three days
    write_all(
        [late._replace(seq=1, value=7, cumulative=57, interval_start_ms=last + MINUTE_MS, interval_end_ms=last + 90_000)],
        platform.raw,
    )
    run = platform.run(datetime(2028, 3, 4, tzinfo=UTC))
    assert "closed months changed" in run.message
    with tenant_scope("acme"):
        (correction,) = UsageCorrection.objects.all()
    assert (correction.hour, correction.changes) == (datetime(2028, 2, 29, 23, tzinfo=UTC), {"bytes_in": 7})
    assert (correction.run_id, correction.previous_run_id) == ("run-3", "run-2")
    with tenant_scope("globex"):
        assert not UsageCorrection.objects.exists()


def test_a_month_closes_three_days_after_its_end() -> None:
    december = datetime(2027, 12, 31, 23, tzinfo=UTC)
    assert not is_closed(december, datetime(2028, 1, 3, 23, 59, tzinfo=UTC))
    assert is_closed(december, datetime(2028, 1, 4, tzinfo=UTC))


def test_a_day_that_lost_files_of_an_older_run_stays_as_it_is_and_is_named(platform: Platform) -> None:
    write_all(edge()[:1], platform.raw)
    platform.run()
    shutil.rmtree(run_directory(platform.hours, "run-1"))
    write_all([record("messages_in", 9, FEBRUARY_END_MS - HOUR_MS, cumulative=9)], platform.raw)
    run = platform.run()
    assert "2028-02, 2028-02-29 cannot be summed" in run.message
    assert used("2028-02-29") == {NEW: (3, 0)}


@pytest.mark.parametrize("change", [lambda line: line.replace('"3"', '"4"'), lambda line: ""])
def test_rows_that_are_not_what_the_job_wrote_change_nothing(platform: Platform, change: Callable[[str], Any]) -> None:
    write_all(edge()[:1], platform.raw)
    result = platform.compute(MARCH_2)
    path = load_directory(platform.hours, "run-1") / "periods" / "2028-02.json"
    path.write_text(change(path.read_text()))
    run = UsageRun.objects.create(run_id="run-1", requested_at=MARCH_2)
    with pytest.raises(RunFailed, match="2028-02 has checksum"):
        publish(run, result, load_directory(platform.hours, "run-1"), MARCH_2, lambda: None)
    assert used("2028-02-29") == {}
