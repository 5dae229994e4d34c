"""From a finished job to numbers in the database: all of a run or none of it, the newest and no older one, each tenant its own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spark_jobs.checksum import HOUR_COLUMNS, checksum_text, row_digest
from spark_jobs.config import HourResult, Result
from tenants.models import Tenant
from tenants.scoping import OutsideScope, platform_scope, tenant_scope
from tests.support.brokers.worker_broker import START
from workers.environment import Stopping
from workers.models import UsageHour, UsagePartition, UsageRun
from workers.usage_load import known_inputs, publish
from workers.usage_run import RunFailed

HOUR = "2026-11-21T11"


HOUR_MS = int(datetime(2026, 11, 21, 11, tzinfo=UTC).timestamp()) * 1000


NEW = "persistent://acme/orders/new"


HEAT = "persistent://globex/sensors/heat"


Row = tuple[object, ...]


def row(topic: str, messages_in: int, tenant_uid: str = "") -> Row:
    namespace = "/".join(topic.split("://")[1].split("/")[:2])
    return (HOUR_MS, namespace.split("/")[0], tenant_uid, namespace, topic, messages_in, 10 * messages_in, 0, 0, 2**60, 7, 3, 5)


def finished(run_id: str, rows: list[Row], directory: Path, inputs: str = "inputs") -> Result:
    """The result of a job, and below `directory` what Spark leaves to be loaded: some lines here, some there, some nowhere."""
    folder = directory / run_id
    folder.mkdir()
    lines = [json.dumps(dict(zip(HOUR_COLUMNS, row, strict=True))) + "\n" for row in rows]
    (folder / "part-0.json").write_text("".join(lines[:1]))
    (folder / "part-1.json").write_text("")
    (folder / "part-2.json").write_text("".join(lines[1:]))
    checksum = checksum_text(len(rows), sum(row_digest(row) for row in rows))
    return Result(run_id, hours=(HourResult(HOUR, inputs, len(rows), checksum, {}),))


def publish_run(result: Result, directory: Path, still_mine: Callable[[], None] = lambda: None) -> UsageRun:
    run = UsageRun.objects.create(run_id=result.run_id, requested_at=START)
    publish(run, result, directory / result.run_id, START, still_mine)
    return run


def shown() -> dict[str, int]:
    with platform_scope():
        return dict(UsageHour.objects.values_list("topic", "messages_in"))


@pytest.mark.django_db
class TestPublishing:
    def test_rows_and_pointer_come_together(self, tmp_path: Path) -> None:
        run = publish_run(finished("1", [row(NEW, 3), row(HEAT, 5)], tmp_path), tmp_path)
        assert shown() == {NEW: 3, HEAT: 5}
        pointer = UsagePartition.objects.get()
        assert (pointer.hour, pointer.run_id, pointer.rows) == (datetime(2026, 11, 21, 11, tzinfo=UTC), "1", 2)
        run.refresh_from_db()
        assert (run.outcome, run.hours, run.rows) == ("succeeded", 1, 2)
        assert known_inputs(START - timedelta(days=37)) == {HOUR: "inputs"}
        with platform_scope():
            assert UsageHour.objects.get(topic=NEW).stored_byte_seconds == 2**60

    def test_a_later_version_takes_the_place_of_the_earlier(self, tmp_path: Path) -> None:
        publish_run(finished("1", [row(NEW, 3), row(HEAT, 5)], tmp_path), tmp_path)
        publish_run(finished("2", [row(NEW, 4)], tmp_path, "other inputs"), tmp_path)
        assert shown() == {NEW: 4}
        assert (UsagePartition.objects.get().run_id, known_inputs(START - timedelta(days=37))) == ("2", {HOUR: "other inputs"})

    def test_an_empty_version_withdraws_what_was_there(self, tmp_path: Path) -> None:
        publish_run(finished("1", [row(NEW, 3)], tmp_path), tmp_path)
        publish_run(finished("2", [], tmp_path), tmp_path)
        assert shown() == {}
        assert UsagePartition.objects.get().rows == 0

    def test_files_that_are_not_what_the_job_wrote_change_nothing(self, tmp_path: Path) -> None:
        publish_run(finished("1", [row(NEW, 3)], tmp_path), tmp_path)
        result = finished("2", [row(NEW, 4), row(HEAT, 5)], tmp_path)
        forged = dataclasses.replace(result, hours=(dataclasses.replace(result.hours[0], checksum="2-abc"),))
        with pytest.raises(RunFailed, match="nothing was published"):
            publish_run(forged, tmp_path)
        assert shown() == {NEW: 3}
        assert UsagePartition.objects.get().run_id == "1"

    def test_a_row_of_another_hour_changes_nothing(self, tmp_path: Path) -> None:
        stray = (HOUR_MS - 3_600_000, *row(NEW, 4)[1:])
        with pytest.raises(RunFailed, match="does not list"):
            publish_run(finished("1", [row(NEW, 3), stray], tmp_path), tmp_path)
        assert shown() == {}

    def test_a_run_that_was_overtaken_changes_nothing(self, tmp_path: Path) -> None:
        publish_run(finished("2", [row(NEW, 4)], tmp_path), tmp_path)

        def overtaken() -> None:
            raise Stopping("another worker took over the lease")

        with pytest.raises(Stopping):
            publish_run(finished("1", [row(NEW, 3)], tmp_path), tmp_path, overtaken)
        assert shown() == {NEW: 4}

    def test_more_rows_than_one_insert_takes(self, tmp_path: Path) -> None:
        rows = [row(f"{NEW}-{index}", index) for index in range(1201)]
        publish_run(finished("1", rows, tmp_path), tmp_path)
        assert len(shown()) == 1201

    def test_quarantined_records_rejected_files_and_holes_are_in_the_message(self, tmp_path: Path) -> None:
        result = dataclasses.replace(
            finished("1", [], tmp_path), quarantined={"conflict": 2}, rejected_files={"a.parquet": "damaged"}, hole_count=3
        )
        run = publish_run(result, tmp_path)
        assert (run.quarantined, run.rejected_files, run.holes) == (2, 1, 3)
        assert "2 records" in run.message and "1 files" in run.message and "3 series" in run.message

    def test_a_tenant_sees_its_own_usage_and_nobody_sees_any_without_a_scope(self, tmp_path: Path) -> None:
        acme = Tenant.unscoped.create(name="acme")
        publish_run(finished("1", [row(NEW, 3, acme.uid), row(HEAT, 5, "globex's")], tmp_path), tmp_path)
        with tenant_scope("acme"):
            assert [hour.topic for hour in UsageHour.objects.all()] == [NEW]
        with tenant_scope("stranger"):
            assert not UsageHour.objects.exists()
        with pytest.raises(OutsideScope):
            UsageHour.objects.count()

    def test_usage_of_a_former_tenant_of_the_name_is_not_the_present_ones(self, tmp_path: Path) -> None:
        """Also of records of old brokers, which do not say whose they are: the tenant of now was not there in that hour."""
        acme = Tenant.unscoped.create(name="acme")
        older = "persistent://acme/orders/older"
        publish_run(finished("1", [row(NEW, 3, "another"), row(NEW, 4, acme.uid), row(older, 9)], tmp_path), tmp_path)
        with tenant_scope("acme"):
            assert [(hour.topic, hour.messages_in) for hour in UsageHour.objects.all()] == [(NEW, 4)]

    def test_records_that_do_not_say_whose_they_are_go_to_the_tenant_that_was_there(self, tmp_path: Path) -> None:
        Tenant.unscoped.create(name="acme")
        Tenant.unscoped.update(created_at=datetime(2026, 11, 21, 11, 30, tzinfo=UTC))
        publish_run(finished("1", [row(NEW, 3)], tmp_path), tmp_path)
        with tenant_scope("acme"):
            assert [hour.topic for hour in UsageHour.objects.all()] == [NEW]
