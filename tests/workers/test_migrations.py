"""An upgrade: what the release before had under way is not lost and not done twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from workers.alerts.models import NotificationTarget
from workers.models import TaskRun, UsageRun
from workers.queue import take
from workers.schedule import POOLS

OLD, NEW = [("workers", "0018_alert_partitions")], [("workers", "0019_queue")]
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.mark.django_db(transaction=True)
def test_runs_of_the_release_before_are_a_queue() -> None:
    executor = MigrationExecutor(connection)
    latest = executor.loader.graph.leaf_nodes()
    try:
        executor.migrate(OLD)
        runs = executor.loader.project_state(OLD).apps.get_model("workers", "TaskRun")
        usage_runs = executor.loader.project_state(OLD).apps.get_model("workers", "UsageRun")
        for task_id, name, outcome in (
            ("asked", "workers.redrive", "queued"),
            ("killed", "workers.redrive", "running"),
            ("failed", "workers.send_notice", "retrying"),
            ("given up", "workers.send_notice", "quarantined"),
            ("scheduled", "workers.expire_messages", "running"),
            ("scheduled before", "workers.expire_messages", "running"),
            ("done", "workers.expire_messages", "succeeded"),
        ):
            due = NOW if outcome == "retrying" else None
            runs.objects.create(task_id=task_id, name=name, outcome=outcome, started_at=NOW, next_try_at=due)
        usage_runs.objects.create(run_id="usage", requested_at=NOW, outcome="running")
        executor = MigrationExecutor(connection)
        executor.migrate(NEW)
        assert dict(TaskRun.objects.values_list("task_id", "outcome")) == {
            "asked": "queued",
            "killed": "retrying",
            "failed": "retrying",
            "given up": "quarantined",
            "scheduled": "failed",
            "scheduled before": "failed",
            "done": "succeeded",
        }
        assert UsageRun.objects.values_list("outcome", flat=True).get() == "failed"  # by a column that it has
        free = dict.fromkeys(POOLS, 9)
        later = datetime.now(UTC) + timedelta(minutes=1)
        assert sorted(run.task_id for run in take(free, later)) == ["asked", "failed", "killed"]
    finally:
        MigrationExecutor(connection).migrate(latest)


@pytest.mark.django_db
def test_a_process_of_the_release_before_saves_where_notices_go() -> None:
    """It runs beside the new ones during an upgrade, and does not fill the columns of the daily limit, nor of failures."""
    named = [str(field.column) for field in NotificationTarget._meta.fields]
    values: dict[str, Any] = {name: "" for name in named if not name.startswith(("pattern_calls", "failing"))}
    values |= {"id": 1, "tenant": "acme", "tenant_uid": "u1", "mail_to": "[]"}
    with connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(values))
        cursor.execute(
            f"INSERT INTO {NotificationTarget._meta.db_table} ({', '.join(values)}) VALUES ({places})", list(values.values())
        )
    target = NotificationTarget.unscoped.get()
    assert (target.pattern_calls, target.pattern_calls_on, target.failing) == (0, None, None)
