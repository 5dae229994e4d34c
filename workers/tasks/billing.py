"""Drafts of invoices, and the close of a month."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from messaging import logs
from messaging.errors import MagnetarError
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing import headers, usage
from workers.billing.closing import finalize
from workers.billing.drafts import refresh
from workers.billing.models import Invoice, PlanAssignment
from workers.billing.months import open_months_of
from workers.environment import Environment, Stopping
from workers.rating.errors import RatingError
from workers.runs import Renew

log = logs.get_logger("magnetar.worker")
FAILURES_TOLD_MAX = 20
FAILURE_LENGTH_MAX = 500


def make_invoices(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """Brings the drafts and charges of all tenants up to date, then closes the months that are due, the oldest first.

    Safe to run twice and to kill at any moment: a draft is a function of its inputs, and a month is closed in one transaction. A
    tenant whose plan cannot be used does not hold up the others."""
    now = environment.now()
    drafts, closed, failures = 0, list[str](), 0
    failed: dict[str, str] = {}
    for tenant in [*current_tenants(), *former_tenants()]:
        try:
            for start in open_months_of(tenant, now):
                renew(drafts=drafts)
                invoice = refresh(tenant, start, now, renew)
                drafts += invoice is not None
                if invoice is not None and is_due(invoice, now, environment.settings.billing_close_after_h):
                    closed += close_month(tenant, start, now, renew)
        except Stopping:
            raise
        except Exception as error:  # whatever is wrong with one tenant, the others are billed
            failures += 1
            why = str(error) if isinstance(error, RatingError | MagnetarError) else f"{type(error).__name__}: {error}"
            log.warning("billing-failed", tenant=tenant.name, why=why, exc_info=not isinstance(error, RatingError | MagnetarError))
            if len(failed) < FAILURES_TOLD_MAX:
                failed[tenant.name] = why[:FAILURE_LENGTH_MAX]
    return {"drafts": drafts, "closed": closed, "failures": failures, "failed": failed}


def close_month(tenant: Tenant, start: datetime, now: datetime, renew: Callable[[], None]) -> list[str]:
    """Makes the month's drafts final; their numbers. Under the lock of numbers they are computed once more: a credit note or
    another invoice may have become final meanwhile."""
    with transaction.atomic():
        headers.lock_numbers()
        refresh(tenant, start, now, renew)
        with platform_scope():
            drafts = Invoice.objects.filter(tenant_uid=tenant.uid, start=start, state=Invoice.State.DRAFT)
            ids = sorted(drafts.values_list("pk", flat=True))
        return [str(finalize(invoice_id, now).number) for invoice_id in ids]


def current_tenants() -> list[Tenant]:
    with platform_scope():
        return list(Tenant.objects.all())


def former_tenants() -> list[Tenant]:
    """Tenants that had a plan and were deleted: what they used before that is still billed. Not rows of the database."""
    with platform_scope():
        known = set(Tenant.objects.values_list("uid", flat=True))
        had_plans = dict(PlanAssignment.objects.values_list("tenant_uid", "tenant"))
    return [Tenant(name=name, uid=uid) for uid, name in sorted(had_plans.items()) if uid not in known]


def is_due(invoice: Invoice, now: datetime, close_after_h: int) -> bool:
    """The time for late usage is over, and usage was computed after it: what is closed is complete as far as anybody knows."""
    if invoice.state == Invoice.State.FINAL or now < invoice.end + timedelta(hours=close_after_h):
        return False
    computed = usage.newest_complete_run()
    return computed is not None and computed >= invoice.end
