"""What other processes request from the workers. Needs Django, and no Celery."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import transaction

from workers.models import TaskRun, UsageRun
from workers.queue import ask_for
from workers.schedule import COMPACT_TOPICS, REFRESH_ISSUERS, RUN_USAGE_JOB, WRITE_POLICY_EVENTS


def request_usage_run(requested_by: str = "") -> str:
    """Asks for a run of the hourly usage job now; its id, whose `UsageRun` tells how it goes. The caller checks permission.

    If one is in progress or waits, that one's id; one that failed and would be repeated later is due now.
    """
    now = datetime.now(UTC)
    under_way = TaskRun.objects.filter(name=RUN_USAGE_JOB, outcome=TaskRun.Outcome.RUNNING, due_at__gt=now).first()
    if under_way is not None:
        usage_run = UsageRun.objects.filter(outcome=UsageRun.Outcome.RUNNING).order_by("-requested_at").first()
        return str(under_way.task_id if usage_run is None else usage_run.run_id)
    with transaction.atomic():
        run = ask_for(RUN_USAGE_JOB, requested_by)
        asked = {"outcome": UsageRun.Outcome.REQUESTED, "requested_by": requested_by, "requested_at": now}
        UsageRun.objects.update_or_create(run_id=run.task_id, defaults=asked)
        return str(run.task_id)


def request_compactions() -> None:
    """Asks for a run that compacts what was requested, now."""
    ask_for(COMPACT_TOPICS)


def request_issuer_keys() -> None:
    """Asks for a run that fetches the keys of issuers, now."""
    ask_for(REFRESH_ISSUERS)


def request_policy_events() -> None:
    """Asks for a run that has the changes of topic policies written, now."""
    ask_for(WRITE_POLICY_EVENTS)
