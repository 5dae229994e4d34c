"""What other processes may request from the workers. Needs Django, and loads Celery at the first request."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from messaging import logs
from messaging.errors import NotReady
from workers import lease
from workers.models import UsageRun
from workers.task_catalog import COMPACT_TOPICS, RUN_USAGE_JOB, WRITE_POLICY_EVENTS

log = logs.get_logger("magnetar.worker")
FAILED_WAITS_S = 120  # before the first run in place of one that failed
TAKEN_UP_MAX = 5  # failures in a row; then only the schedule asks
REQUEST_WAITS_S = 60  # a request that no worker took by then does not keep others from asking again


def request_usage_run(requested_by: str = "") -> str:
    """Asks for a run of the hourly usage job now; its id, whose `UsageRun` tells how it goes. The caller checks permission.

    If one is in progress or was asked for a moment ago, that one's id. Blocks for a few milliseconds. Raises `NotReady` if the
    queue
    of the workers cannot be reached.
    """
    now = datetime.now(UTC)
    under_way = _under_way(now)
    if under_way is not None:
        return under_way
    run = UsageRun.objects.create(run_id=uuid.uuid4().hex, requested_by=requested_by, requested_at=now)
    from kombu.exceptions import OperationalError

    from workers.app import sender

    try:
        sender().send_task(RUN_USAGE_JOB, task_id=run.run_id, ignore_result=True)
    except (OSError, OperationalError) as error:
        run.delete()
        raise NotReady(
            f"the task queue cannot be reached ({type(error).__name__}): check that Redis or Valkey is running"
        ) from None
    return str(run.run_id)


def take_up_usage_run(now: datetime) -> str | None:
    """Asks for a run in place of the newest one, if its worker died in the middle, or if it failed some minutes ago (more, where
    those before it had failed too); the new run's id. Raises `NotReady`."""
    newest = list(UsageRun.objects.exclude(outcome=UsageRun.Outcome.SKIPPED).order_by("-requested_at")[:TAKEN_UP_MAX])
    if not newest:
        return None
    if newest[0].outcome == UsageRun.Outcome.RUNNING:
        return None if lease.held(RUN_USAGE_JOB, now) else request_usage_run()
    failures = 0
    for run in newest:
        if run.outcome != UsageRun.Outcome.FAILED:
            break
        failures += 1
    waits = timedelta(seconds=FAILED_WAITS_S * 2 ** (failures - 1))
    if not 0 < failures < TAKEN_UP_MAX or (newest[0].finished_at or now) + waits > now:
        return None
    return request_usage_run()


def request_compactions() -> None:
    """Asks for a run that compacts what was requested, now."""
    _ask(COMPACT_TOPICS)


def request_policy_events() -> None:
    """Asks for a run that has the changes of topic policies written, now."""
    _ask(WRITE_POLICY_EVENTS)


def _ask(task: str) -> None:
    """Where the queue cannot be reached, the next scheduled run does it."""
    from kombu.exceptions import OperationalError

    from workers.app import sender

    try:
        sender().send_task(task, ignore_result=True)
    except (OSError, OperationalError) as error:
        log.warning("task-not-sent", task=task, why=f"{type(error).__name__}: {error}")


def _under_way(now: datetime) -> str | None:
    runs = UsageRun.objects.order_by("-requested_at")
    asked = runs.filter(outcome=UsageRun.Outcome.REQUESTED, requested_at__gt=now - timedelta(seconds=REQUEST_WAITS_S)).first()
    if asked is None and lease.held(RUN_USAGE_JOB, now):
        asked = runs.filter(outcome=UsageRun.Outcome.RUNNING).first()
    return None if asked is None else str(asked.run_id)
