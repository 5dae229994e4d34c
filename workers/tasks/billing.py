"""Drafts of invoices, and the close of a month."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from messaging import logs
from messaging.errors import MagnetarError
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing import usage
from workers.billing.closing import finalize
from workers.billing.drafts import refresh
from workers.billing.models import Invoice, PlanAssignment
from workers.environment import Environment, Stopping
from workers.rating.errors import RatingError
from workers.rating.rate import month_of

log = logs.get_logger("magnetar.worker")
MONTHS_BACK = 13  # of usage that was there before its charges: a year to compare with
FAILURES_TOLD_MAX = 20


def make_invoices(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Brings the drafts and charges of all tenants up to date, then closes the months that are due, the oldest first.

    Safe to run twice and to kill at any moment: a draft is a function of its inputs, and a month is closed in one transaction. A
    tenant whose plan cannot be used does not hold up the others."""
    now = environment.now()
    drafts, closed = 0, []
    failed: dict[str, str] = {}
    for tenant in [*current_tenants(), *former_tenants()]:
        try:
            for start in open_months(tenant, now):
                renew()
                invoice = refresh(tenant, start, now, renew)
                drafts += invoice is not None
                if invoice is not None and is_due(invoice, now, environment.settings.billing_close_after_h):
                    closed.append(str(finalize(invoice.pk, now).number))
        except Stopping:
            raise
        except (RatingError, MagnetarError) as error:
            log.warning("billing-failed", tenant=tenant.name, why=str(error))
            if len(failed) < FAILURES_TOLD_MAX:
                failed[tenant.name] = str(error)
    return {"drafts": drafts, "closed": closed, "failures": len(failed), "failed": failed}


def current_tenants() -> list[Tenant]:
    with platform_scope():
        return list(Tenant.objects.all())


def former_tenants() -> list[Tenant]:
    """Tenants that had a plan and were deleted: what they used before that is still billed. Not rows of the database."""
    with platform_scope():
        known = set(Tenant.objects.values_list("uid", flat=True))
        had_plans = dict(PlanAssignment.objects.values_list("tenant_uid", "tenant"))
    return [Tenant(name=name, uid=uid) for uid, name in sorted(had_plans.items()) if uid not in known]


def open_months(tenant: Tenant, now: datetime) -> list[datetime]:
    """Starts of the months that have usage or a plan and no final invoice, the oldest first."""
    first = usage.first_hour(tenant.uid)
    last = now if tenant.created_at else usage.last_hour(tenant.uid)  # a former tenant owes nothing after its last usage
    if last is None:
        return []
    this, _ = month_of(last)
    months = [this]
    while len(months) < MONTHS_BACK and first is not None and months[-1] > first:
        months.append(month_of(months[-1] - timedelta(days=1))[0])
    with platform_scope():
        finals = Invoice.objects.filter(tenant_uid=tenant.uid, kind=Invoice.Kind.INVOICE, state=Invoice.State.FINAL)
        closed = set(finals.values_list("start", flat=True))
    return [month for month in reversed(months) if month not in closed]


def is_due(invoice: Invoice, now: datetime, close_after_h: int) -> bool:
    """The time for late usage is over, and usage was computed after it: what is closed is complete as far as anybody knows."""
    if invoice.state == Invoice.State.FINAL or now < invoice.end + timedelta(hours=close_after_h):
        return False
    computed = usage.newest_complete_run()
    return computed is not None and computed >= invoice.end
