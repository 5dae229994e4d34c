"""Budgets that were reached, and reports that are due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tenants.scoping import platform_scope
from workers.billing import budgets, reports, usage
from workers.billing.budget_models import Budget, ReportSchedule
from workers.environment import Environment


def make_reports(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Checks every budget and makes every report whose days are over and computed.

    Safe to run twice: an alert is told once a month and threshold, a report is made once a schedule and span. One whose worker died
    between its row and its mail is not mailed again."""
    now = environment.now()
    told = made = 0
    with platform_scope():
        all_budgets, schedules = list(Budget.objects.all()), list(ReportSchedule.objects.all())
    for budget in all_budgets:
        renew()
        told += len(budgets.check(environment.settings, budget, now))
    ready = ready_until(now)
    for schedule in schedules:
        renew()
        made += len(reports.make_due(environment.settings, schedule, now, ready.date()))
    return {"budgets": len(all_budgets), "alerts": told, "reports": made}


def ready_until(now: datetime) -> datetime:
    """Days before this are computed: the newest run that succeeded began after they were over."""
    computed = usage.newest_complete_run()
    return datetime(2000, 1, 1, tzinfo=UTC) if computed is None else min(now, computed - timedelta(minutes=10))
