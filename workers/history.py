"""What ran and what waits, for administrators; and their decisions about what was quarantined, which the audit log keeps."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings
from django.db import transaction

from tenants.access import Actor
from tenants.actions.change import record
from workers.models import TaskRun
from workers.queue import discard, requeue
from workers.schedule import TASKS

DECISIONS = {"requeue": requeue, "discard": discard}


def overview() -> list[dict[str, Any]]:
    """One for each task of the catalog: its schedule and its last run."""
    rows = []
    for entry in TASKS:
        last = TaskRun.objects.filter(name=entry.name).order_by("-started_at").first()
        rows.append(
            {
                "name": entry.name,
                "title": entry.title,
                "queue": entry.queue,
                "every_s": getattr(django_settings.MAGNETAR, entry.interval) if entry.interval else None,
                "last_outcome": last.outcome if last else None,
                "last_started_at": last.started_at if last else None,
            }
        )
    return rows


def decide(actor: Actor, task_id: str, decision: str) -> TaskRun:
    """`decision`: of `DECISIONS`. Raises `NotFound`, `PreconditionFailed`."""
    with transaction.atomic():
        run = DECISIONS[decision](task_id)
        record(actor, f"task.{decision}", "", f"task {run.name} {task_id}", {"outcome": "quarantined"}, {"outcome": run.outcome})
    return run
