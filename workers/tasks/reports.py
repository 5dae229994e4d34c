"""Budgets that were reached, and reports that are due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from messaging import logs
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing import budgets, reports, usage
from workers.billing.budget_models import Budget, ReportSchedule
from workers.environment import Environment, Stopping

log = logs.get_logger("magnetar.worker")
Row = TypeVar("Row", Budget, ReportSchedule)


def make_reports(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Checks every budget and makes every report whose days are over and computed.

    Safe to run twice: an alert is told once a month and threshold, a report is made once a schedule and span. A report whose worker
    died between its row and its mail is not mailed again."""
    now = environment.now()
    settings, ready = environment.settings, ready_until(now).date()
    checked = _each(Budget, lambda budget: len(budgets.check(budget, now)), renew)
    made = _each(ReportSchedule, lambda schedule: len(reports.make_due(settings, schedule, now, ready)), renew)
    failed = checked.failed + made.failed
    return {"budgets": checked.rows, "alerts": checked.done, "reports": made.done, **({"failed": failed} if failed else {})}


class _Done(NamedTuple):
    rows: int
    done: int
    failed: int


def _each(kind: type[Row], work: Callable[[Row], int], renew: Callable[[], None]) -> _Done:
    """Of tenants that exist. Each row is read at its turn, as its tenant may delete it meanwhile; what fails for one is logged, and
    holds up no other."""
    rows = done = failed = 0
    with platform_scope():
        of_tenants = kind.objects.filter(tenant_uid__in=Tenant.objects.values("uid"))
        ids = list(of_tenants.order_by("id").values_list("id", flat=True))
    for row_id in ids:
        renew()
        with platform_scope():
            row = of_tenants.filter(id=row_id).first()
        if row is None:
            continue
        rows += 1
        try:
            done += work(row)
        except Stopping:
            raise
        except Exception:
            failed += 1
            log.exception("report-failed", kind=kind.__name__, id=row_id, tenant=row.tenant)
    return _Done(rows, done, failed)


def ready_until(now: datetime) -> datetime:
    """Days before this are computed: the newest run that succeeded began after they were over."""
    computed = usage.newest_complete_run()
    return datetime(2000, 1, 1, tzinfo=UTC) if computed is None else min(now, computed - timedelta(minutes=10))
