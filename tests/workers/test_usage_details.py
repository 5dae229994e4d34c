"""The parts of hours by subscription and key: published with their hours or not at all, and forgotten after a while."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.checksum import DETAIL_COLUMNS, checksum_text, row_digest
from spark_jobs.config import HourResult, Result, details_directory
from tenants.models import Tenant
from tenants.scoping import platform_scope
from tests.support.brokers.worker_broker import START, Clock
from workers.detail_models import UsageDetail
from workers.environment import Environment
from workers.models import UsageHour, UsageRun
from workers.tasks.forgetting import DETAILS_DAYS_MIN, forget_old
from workers.usage_load import publish
from workers.usage_run import RunFailed

HOUR, HOUR_MS = "2026-11-21T11", 1_795_258_800_000
NEW = "persistent://acme/orders/new"
pytestmark = pytest.mark.django_db


def finished(run_id: str, directory: Path, *parts: tuple[str, str, int]) -> Result:
    """A job's result with parts: subscription, key, messages out."""
    folder = details_directory(directory)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        (HOUR_MS, "acme", "", "acme/orders", NEW, subscription, key, 0, 0, 0, count, 0, 0, 0, 0, 0, 0)
        for subscription, key, count in parts
    ]
    lines = [json.dumps(dict(zip(DETAIL_COLUMNS, row, strict=True))) for row in rows]
    (folder / f"{HOUR}-000.json").write_text("\n".join(lines) + "\n" * bool(lines))
    checksum = checksum_text(len(rows), sum(row_digest(row) for row in rows))
    return Result(run_id, hours=(HourResult(HOUR, "inputs", 0, "0-0", {}, len(rows), checksum),))


def publish_run(result: Result, directory: Path) -> None:
    publish(UsageRun.objects.create(run_id=result.run_id, requested_at=START), result, directory, START, lambda: None)


def shown() -> list[tuple[str, str, str, int]]:
    with platform_scope():
        return list(UsageDetail.objects.values_list("tenant_uid", "subscription", "key", "messages_out"))


def test_parts_take_the_place_of_those_before_and_know_their_tenant(tmp_path: Path) -> None:
    acme = Tenant.unscoped.create(name="acme")
    Tenant.unscoped.update(created_at=START - timedelta(days=9))
    publish_run(finished("1", tmp_path, ("s", "k", 3), ("t", "k", 4)), tmp_path)
    assert shown() == [(acme.uid, "s", "k", 3), (acme.uid, "t", "k", 4)]
    publish_run(finished("2", tmp_path, ("s", "k", 5)), tmp_path)
    assert shown() == [(acme.uid, "s", "k", 5)] and not UsageHour.unscoped.exists()


def test_parts_that_are_not_what_the_job_wrote_publish_nothing(tmp_path: Path) -> None:
    result = finished("1", tmp_path, ("s", "k", 3))
    (hour,) = result.hours
    for change in ({"detail_rows": 2}, {"detail_checksum": "1-0"}, {"detail_rows": 0}):
        with pytest.raises(RunFailed, match="the parts of hour 2026-11-21T11"):
            publish_run(dataclasses.replace(result, run_id=str(change), hours=(dataclasses.replace(hour, **change),)), tmp_path)
    assert not shown()


def test_parts_of_old_hours_are_forgotten(environment: Environment, clock: Clock, tmp_path: Path) -> None:
    publish_run(finished("1", tmp_path, ("s", "k", 3)), tmp_path)
    days = max(DETAILS_DAYS_MIN, environment.settings.usage_versions_kept_days)
    clock.advance(days * 86_400 - 3 * 86_400)
    assert forget_old(environment, "f", lambda: None)["usage_details"] == 0
    clock.advance(6 * 86_400)
    assert forget_old(environment, "f", lambda: None)["usage_details"] == 1
    assert not shown()
