"""Sends again what was asked for and is not done: what failed and is due, what its worker or the queue lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db.models import Q

from workers import lease
from workers.environment import Environment
from workers.models import TaskRun
from workers.sending import send
from workers.task_catalog import BY_NAME, WAIT_S_MAX, lease_name

QUEUED_S = 60  # a message that no worker took by then may be lost; twice is harmless
A_RUN = 500
Outcome = TaskRun.Outcome


def repeat_tasks(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Oldest first. Safe to run twice: a run that is under way, or done, ignores a further message."""
    now = environment.now()
    repeated = [name for name, entry in BY_NAME.items() if entry.retry_s]
    # What lies further ahead than it can was written before the clock went back.
    ahead = now + timedelta(seconds=WAIT_S_MAX + lease.SKEW_S)
    due = Q(outcome=Outcome.RETRYING) & (Q(next_try_at__lte=now) | Q(next_try_at__gt=ahead))
    unseen = Q(outcome=Outcome.QUEUED) & (Q(started_at__lte=now - timedelta(seconds=QUEUED_S)) | Q(started_at__gt=ahead))
    running = Q(outcome=Outcome.RUNNING) & (Q(started_at__lte=now - timedelta(seconds=lease.LEASE_S)) | Q(started_at__gt=ahead))
    sent = failed = 0
    for run in TaskRun.objects.filter(due | unseen | running, name__in=repeated).order_by("started_at")[:A_RUN]:
        renew()
        if run.outcome == Outcome.RUNNING and lease.held_for(lease_name(run.name, run.arguments), run.task_id, now):
            continue
        if send(run):
            sent += 1
            TaskRun.objects.filter(task_id=run.task_id, outcome=Outcome.QUEUED).update(started_at=now)  # not at once again
            TaskRun.objects.filter(task_id=run.task_id, outcome=Outcome.RETRYING).update(
                next_try_at=now + timedelta(seconds=QUEUED_S)
            )
        else:
            failed += 1
    return {"sent": sent, "not_sent": failed}
