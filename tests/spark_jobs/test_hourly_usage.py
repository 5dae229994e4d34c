"""The job on a real engine: golden numbers, and what must not change the numbers."""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable
from typing import Any, cast

import pytest

from messaging.broker.usage import writer
from messaging.broker.usage.record import UsageRecord
from messaging.broker.usage.writer import write
from messaging.usage_schema import COLUMNS, COUNTERS
from tests.spark_jobs.job import Job
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NEW, NOON_MS, OLD, OTHER, golden, record, reference, write_all


def test_a_day_computed_by_hand(job: Job) -> None:
    write_all(golden(), job.raw)
    result = job.run()
    eleven = NOON_MS - HOUR_MS
    assert job.hours() == {
        (eleven, NEW): (10, 1000, 0, 0, 500 * 60, 0),
        (NOON_MS, NEW): (5, 2**62, 0, 0, 500 * 180 + 200 * 60, 9 * 30 + 3 * 10),
        (NOON_MS, OLD): (0, 0, 7, 0, 0, 0),
        (NOON_MS, OTHER): (0, 0, 0, 1, 0, 0),
    }
    assert [hour.hour for hour in result.hours] == ["2026-11-21T11", "2026-11-21T12"]
    assert [hour.rows for hour in result.hours] == [1, 3]
    assert result.hours[1].sums["bytes_in"] == 2**62
    assert (result.files_read, result.rows_read, result.duplicates) == (2, 11, 0)
    assert (result.quarantined, result.rejected_files, result.hole_count) == ({}, {}, 0)


def test_a_second_run_finds_nothing_to_do_and_one_from_scratch_finds_the_same(job: Job, new_job: Callable[[str], Job]) -> None:
    write_all(golden(), job.raw)
    job.run()
    assert job.run().hours == ()
    again = new_job("again")
    write_all(golden(), again.raw)
    again.run()
    assert again.checksums() == job.checksums()


def test_files_and_topics_apart_give_the_same(new_job: Callable[[str], Job], monkeypatch: pytest.MonkeyPatch) -> None:
    """As with very many records: each file read by a task of its own, and each hour put together in many parts."""
    together, apart = new_job("together"), new_job("apart")
    for job in (together, apart):
        for usage_record in [*golden(), *golden()[3:7], golden()[4]._replace(value=8)]:
            write_all([usage_record], job.raw)
    result = together.run()
    monkeypatch.setattr("spark_jobs.batches.ROWS_A_BATCH", 1)
    monkeypatch.setattr("spark_jobs.compute.ROWS_A_PART", 1)
    again = apart.run()
    assert apart.checksums() == together.checksums()
    assert (again.quarantined, again.duplicates, again.hole_count) == (result.quarantined, result.duplicates, result.hole_count)


def test_conservation_from_topics_to_manifests(job: Job) -> None:
    files = write_all(golden(), job.raw)
    job.run()
    manifests: dict[str, int] = dict.fromkeys(COUNTERS, 0)
    for file in files:
        for meter, value in json.loads(file.with_suffix(".json").read_bytes())["sums"].items():
            if meter in COUNTERS:
                manifests[meter] += value
    rows = [row for _, rows in job.current.values() for row in rows]
    for index, meter in enumerate(COUNTERS):
        by_tenant: dict[str, int] = {}
        by_namespace: dict[str, int] = {}
        for row in rows:
            by_tenant[row[1]] = by_tenant.get(row[1], 0) + row[5 + index]
            by_namespace[row[3]] = by_namespace.get(row[3], 0) + row[5 + index]
        assert sum(by_tenant.values()) == sum(by_namespace.values()) == sum(row[5 + index] for row in rows) == manifests[meter]


def test_meters_of_clients_and_tenants_are_no_part_of_what_topics_used(job: Job) -> None:
    client = record("client_bytes_in", 7, NOON_MS)
    client = client._replace(series=f"{client.series}\nreports\nkey-1", subscription="reports", key="key-1")
    calls = record("api_calls", 3, NOON_MS)._replace(namespace="", topic="", series="api_calls|\n\nkey-1", key="key-1")
    strange = record("api_calls", 3, NOON_MS)._replace(series="api_calls|\n\nkey-1", key="key-1")
    attributed = record("messages_in", 9, NOON_MS, seq=1)._replace(series=f"messages_in|{NEW}\n\nkey-1", key="key-1")
    write_all([record("messages_in", 1, NOON_MS), client, calls], job.raw)
    write_all([strange, attributed], job.raw)
    result = job.run()
    assert result.quarantined == {"invalid": 2}
    assert job.hours() == {(NOON_MS, NEW): (1, 0, 0, 0, 0, 0), (NOON_MS, ""): (0, 0, 0, 0, 0, 0)}
    [(_, rows)] = job.current.values()
    assert [row[11:] for row in rows] == [(3, 0), (0, 0)]  # API calls, connection-seconds


def test_a_late_file_changes_its_own_hour_only(job: Job) -> None:
    records = golden()
    late = record("messages_in", 100, NOON_MS - HOUR_MS + 10 * MINUTE_MS, topic=OLD)
    write_all(records, job.raw)
    job.run()
    before = job.checksums()
    write_all([late], job.raw)
    result = job.run(NOON_MS + 20 * HOUR_MS)
    assert [hour.hour for hour in result.hours] == ["2026-11-21T11"]
    assert job.checksums()["2026-11-21T12"] == before["2026-11-21T12"]
    assert job.hours() == reference([*records, late])


def test_a_late_record_near_the_edge_changes_the_hour_that_it_carries_into(job: Job) -> None:
    records = [record("stored_bytes", 500, NOON_MS - MINUTE_MS, width_ms=20_000)]
    write_all(records, job.raw)
    job.run()
    assert job.hours() == {(NOON_MS - HOUR_MS, NEW): (0, 0, 0, 0, 500 * 20, 0)}
    late = record("stored_bytes", 1, NOON_MS + MINUTE_MS, seq=1)
    write_all([late], job.raw)
    job.run()
    assert job.hours() == {
        (NOON_MS - HOUR_MS, NEW): (0, 0, 0, 0, 500 * 60, 0),
        (NOON_MS, NEW): (0, 0, 0, 0, 500 * 60 + 60, 0),
    }


def test_an_hour_that_leaves_the_window_stays_as_it_is(job: Job) -> None:
    """On its last day it was computed again without the hour before, from which its first minutes are."""
    midnight = NOON_MS - 12 * HOUR_MS
    stored = [record("stored_bytes", 500, midnight - MINUTE_MS), record("stored_bytes", 500, midnight + 4 * MINUTE_MS, seq=1)]
    write_all(stored, job.raw)
    job.run()
    assert job.hours()[midnight, NEW][4] == 500 * 300
    for days in range(33, 38):
        assert job.run(midnight + days * 24 * HOUR_MS + HOUR_MS).hours == ()
    late = record("messages_in", 1, midnight + 30 * MINUTE_MS)
    write_all([late], job.raw)
    assert [hour.hour for hour in job.run(midnight + 35 * 24 * HOUR_MS).hours] == ["2026-11-21T00"]
    assert job.hours()[midnight, NEW][4] == 500 * 300


def test_files_taken_away_leave_an_explicit_empty_hour(job: Job) -> None:
    files = write_all(golden(), job.raw)
    job.run()
    for file in files:
        if "hour=12" in str(file):
            file.with_suffix(".json").unlink()
    result = job.run()
    assert {hour.hour: hour.rows for hour in result.hours} == {"2026-11-21T11": 1, "2026-11-21T12": 0}
    assert result.hours[1].checksum == "0-0"


def test_a_damaged_file_is_left_out_until_it_is_whole(job: Job) -> None:
    write_all([record("messages_in", 1, NOON_MS)], job.raw)
    (damaged,) = write_all([record("messages_in", 2, NOON_MS, seq=1, cumulative=3)], job.raw)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    result = job.run()
    assert list(result.rejected_files) == [damaged.relative_to(job.raw).as_posix()]
    assert job.hours() == {(NOON_MS, NEW): (1, 0, 0, 0, 0, 0)}
    assert job.run().hours == ()  # still damaged: said again, nothing computed
    damaged.write_bytes(whole)
    assert job.run().rejected_files == {}
    assert job.hours() == {(NOON_MS, NEW): (3, 0, 0, 0, 0, 0)}


def test_a_file_that_belies_its_manifest_is_left_out(job: Job) -> None:
    write_all([record("messages_in", 1, NOON_MS)], job.raw)
    (liar,) = write_all([record("messages_in", 2, NOON_MS, seq=1)], job.raw)
    manifest = liar.with_suffix(".json")
    manifest.write_text(json.dumps(json.loads(manifest.read_bytes()) | {"sums": {"messages_in": 3}}))
    result = job.run()
    assert "sums" in result.rejected_files[liar.relative_to(job.raw).as_posix()]
    assert job.hours() == {(NOON_MS, NEW): (1, 0, 0, 0, 0, 0)}


def test_brokers_that_overlap_do_not_charge_storage_twice(job: Job) -> None:
    """A topic moved to another broker: both report its size for a while; it has one size at a time."""
    records = [
        record("stored_bytes", 100, NOON_MS),
        record("stored_bytes", 100, NOON_MS + 30_000, source="broker-2"),
        record("messages_in", 3, NOON_MS),
        record("messages_in", 4, NOON_MS, source="broker-2"),
    ]
    write_all(records, job.raw)
    job.run()
    assert job.hours() == {(NOON_MS, NEW): (7, 0, 0, 0, 100 * 90, 0)}


def test_names_with_odd_characters_and_a_directory_that_looks_like_a_pattern(new_job: Callable[[str], Job]) -> None:
    job = new_job("a [b] {c,d} * e")
    topic = "persistent://acme/orders/a|b é 'q' \"x\" {1} ☃"
    write_all([record("messages_in", 3, NOON_MS, topic=topic)], job.raw)
    job.run()
    assert job.hours() == {(NOON_MS, topic): (3, 0, 0, 0, 0, 0)}


def test_two_tenants_of_one_name_are_billed_apart(job: Job) -> None:
    """Also what they stored: a silence between the two is not carried from the one to the other."""
    later = NOON_MS + 2 * MINUTE_MS
    write_all(
        [
            record("messages_in", 3, NOON_MS, tenant_uid="first"),
            record("stored_bytes", 60, NOON_MS, tenant_uid="first"),
            record("messages_in", 4, later, tenant_uid="second"),
            record("stored_bytes", 10, later, tenant_uid="second"),
        ],
        job.raw,
    )
    job.run()
    [(_, rows)] = job.current.values()
    assert {row[2]: row[5:11] for row in rows} == {"first": (3, 0, 0, 0, 3600, 0), "second": (4, 0, 0, 0, 600, 0)}


def test_files_of_the_first_version_are_read(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not say which tenant of a name they speak of."""
    first = cast(Any, namedtuple("first", UsageRecord._fields[:-1]))
    monkeypatch.setattr(writer, "COLUMNS", COLUMNS[:-1])
    monkeypatch.setattr(writer, "SCHEMA_VERSION", 1)
    old = first(*record("messages_in", 3, NOON_MS)._replace(schema_version=1)[:-1])
    write([old], job.raw)
    monkeypatch.undo()
    write_all([record("messages_in", 4, NOON_MS, topic=OLD, tenant_uid="uid")], job.raw)
    job.run()
    [(_, rows)] = job.current.values()
    assert {(row[2], row[4]): row[5] for row in rows} == {("", NEW): 3, ("uid", OLD): 4}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_spark_finds_the_same(job: Job, spark_job: Job) -> None:
    records = [*golden(), golden()[4]._replace(value=8), *golden()[:3]]
    for each_job in (job, spark_job):
        write_all(golden(), each_job.raw)
        write_all(records[11:], each_job.raw)
        each_job.run()
    assert spark_job.checksums() == job.checksums()
    assert spark_job.run().hours == ()
