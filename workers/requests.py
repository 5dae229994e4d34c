"""What other processes may request from the workers. Needs Django, and loads Celery at the first request."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from messaging import logs
from messaging.errors import NotReady
from workers import lease
from workers.models import UsageRun
from workers.task_catalog import COMPACT_TOPICS, RUN_USAGE_JOB

log = logs.get_logger("magnetar.worker")
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


def request_compactions() -> None:
    """Asks for a run that compacts what was requested, now. Where the queue cannot be reached, the next scheduled run does it."""
    from kombu.exceptions import OperationalError

    from workers.app import sender

    try:
        sender().send_task(COMPACT_TOPICS, ignore_result=True)
    except (OSError, OperationalError) as error:
        log.warning("compaction-not-sent", why=f"{type(error).__name__}: {error}")


def _under_way(now: datetime) -> str | None:
    runs = UsageRun.objects.order_by("-requested_at")
    asked = runs.filter(outcome=UsageRun.Outcome.REQUESTED, requested_at__gt=now - timedelta(seconds=REQUEST_WAITS_S)).first()
    if asked is None and lease.held(RUN_USAGE_JOB, now):
        asked = runs.filter(outcome=UsageRun.Outcome.RUNNING).first()
    return None if asked is None else str(asked.run_id)
