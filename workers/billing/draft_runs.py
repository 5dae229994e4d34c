"""Having drafts computed now: the scheduled task does it, for all tenants, one at a time. What it did for others is not told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import transaction

from messaging.errors import PreconditionFailed
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import limit_rate, record
from workers.models import TaskRun
from workers.queue import ask_for
from workers.schedule import MAKE_INVOICES

PAUSE_S = 60  # between the end of a run and one that is asked for: nothing new comes more often, and a run takes threads of others
Outcome = TaskRun.Outcome
UNDER_WAY = (Outcome.QUEUED, Outcome.RUNNING, Outcome.RETRYING)


def newest_run() -> TaskRun | None:
    """That computes drafts or did; one that was skipped did nothing."""
    runs = TaskRun.objects.filter(name=MAKE_INVOICES).exclude(outcome=Outcome.SKIPPED)
    return runs.filter(outcome__in=UNDER_WAY).order_by("-started_at").first() or runs.order_by("-started_at").first()


def is_under_way(run: TaskRun | None) -> bool:
    return run is not None and run.outcome in UNDER_WAY


def compute_drafts(actor: Actor, tenant: str) -> TaskRun:
    """The run that is under way or waits, or one that was asked for. Raises `PreconditionFailed` soon after the last one ended."""
    require(actor, Action.BILLING_ADMIN, Resource(tenant))
    now = datetime.now(UTC)
    with transaction.atomic():
        run = newest_run()
        if run is not None and is_under_way(run):
            return run
        if run is not None and run.finished_at is not None and now - timedelta(seconds=PAUSE_S) < run.finished_at <= now:
            left_s = PAUSE_S - int((now - run.finished_at).total_seconds())
            raise PreconditionFailed(f"drafts were computed at {run.finished_at:%H:%M:%S} UTC: ask again in {left_s} s")
        limit_rate(actor)
        run = ask_for(MAKE_INVOICES, actor.principal.role)
        record(actor, "invoice.compute", tenant, tenant, after={"task": run.task_id})
    return run
