"""Asking for tasks: a row in the transaction of whoever asks, and a message once that is committed.

The row is the truth. A message that cannot be sent, or that the queue lost, is sent again by `workers.tasks.repeating`.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from django.db import transaction

from messaging import logs
from messaging.errors import NotFound, PreconditionFailed
from workers.models import TaskRun
from workers.task_catalog import BY_NAME

log = logs.get_logger("magnetar.worker")
Outcome = TaskRun.Outcome
ID_LENGTH_MAX = 100


def ask_for(name: str, requested_by: str = "", **ids: str) -> TaskRun:
    """The row of a new run of the task, whose message is sent on commit. `ids`: exactly those of its entry. Whether that may be
    asked for is the caller's to check."""
    entry = BY_NAME[name]
    assert set(ids) == set(entry.ids), f"{name} takes {entry.ids}"
    assert all(isinstance(one, str) and len(one) <= ID_LENGTH_MAX for one in ids.values()), "ids only"
    run = TaskRun.objects.create(
        task_id=uuid.uuid4().hex,
        name=name,
        arguments=ids,
        requested_by=requested_by,
        started_at=datetime.now(UTC),
        outcome=Outcome.QUEUED,
    )
    transaction.on_commit(lambda: send(run))
    return run


def send(run: TaskRun) -> bool:
    """Whether the queue took the message. Blocks for some milliseconds."""
    from kombu.exceptions import OperationalError

    from workers.app import sender

    try:
        sender().send_task(run.name, kwargs=run.arguments, task_id=run.task_id, queue=BY_NAME[run.name].queue, ignore_result=True)
    except (OSError, OperationalError) as error:
        log.warning("task-not-sent", task=run.name, task_id=run.task_id, why=f"{type(error).__name__}: {error}")
        return False
    return True


def requeue(task_id: str) -> TaskRun:
    """Tries a quarantined run again, as if it had never failed. Raises `NotFound`, `PreconditionFailed`."""
    run = _quarantined(task_id)
    run.outcome, run.attempts, run.next_try_at, run.finished_at = Outcome.QUEUED, 0, None, None
    run.save()
    transaction.on_commit(lambda: send(run))
    return run


def discard(task_id: str) -> TaskRun:
    """Gives a quarantined run up. Raises `NotFound`, `PreconditionFailed`."""
    run = _quarantined(task_id)
    run.outcome = Outcome.DISCARDED
    run.save()
    return run


def _quarantined(task_id: str) -> TaskRun:
    with transaction.atomic():
        run = TaskRun.objects.select_for_update().filter(task_id=task_id).first()
        if run is None:
            raise NotFound(f"task run {task_id[:64]!r} does not exist")
        if run.outcome != Outcome.QUARANTINED:
            raise PreconditionFailed(f"task run {task_id} is {run.outcome}, not quarantined: there is nothing to decide")
        return run
