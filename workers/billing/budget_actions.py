"""What owners of a tenant change about budgets and reports, each with its audit record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import transaction

from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import limit_rate, record
from tenants.scoping import platform_scope, tenant_scope
from workers.billing import costs
from workers.billing.actions import existing_tenant
from workers.billing.budget_models import Budget, Report, ReportSchedule
from workers.mail import recipients
from workers.rating.errors import RatingError
from workers.rating.money import CURRENCIES, minor_of, money_text

BUDGETS_MAX = SCHEDULES_MAX = 50  # of one tenant
EMAILS_MAX, THRESHOLDS_MAX, THRESHOLD_MAX = 5, 10, 1000


def create_budget(
    actor: Actor,
    tenant: str,
    name: str,
    amount: str,
    currency: str,
    namespace: str = "",
    thresholds: Sequence[int] = (50, 80, 100),
    emails: Sequence[str] = (),
) -> Budget:
    """Raises `InvalidValue`, `PreconditionFailed` for one too many, `QuotaExceeded` for too many changes."""
    require(actor, Action.BILLING_ADMIN, Resource(tenant))
    limit_rate(actor)
    tenant_row = existing_tenant(tenant)
    fields = _budget_fields(tenant, name, amount, currency, namespace, thresholds, emails)
    with transaction.atomic(), platform_scope():
        if Budget.objects.filter(tenant_uid=tenant_row.uid).count() >= BUDGETS_MAX:
            raise PreconditionFailed(f"a tenant has at most {BUDGETS_MAX} budgets: delete one first")
        row = Budget.objects.create(tenant=tenant, tenant_uid=tenant_row.uid, created_at=datetime.now(UTC), **fields)
        record(actor, "budget.create", tenant, name, after=_told_of_budget(row))
    return row


def change_budget(actor: Actor, tenant: str, budget_id: str, given: Mapping[str, Any]) -> Budget:
    """Changes what is given of the arguments of `create_budget`. Of another amount, or of something else, the thresholds of the
    running month are told anew. Raises `NotFound`, `InvalidValue`."""
    require(actor, Action.BILLING_ADMIN, Resource(tenant))
    limit_rate(actor)
    with tenant_scope(tenant), transaction.atomic():
        row = existing_budget(tenant, budget_id)
        before = _told_of_budget(row)
        fields = _budget_fields(tenant, **{**before, **given})
        for name, value in fields.items():
            setattr(row, name, value)
        row.save()
        after = _told_of_budget(row)
        if any(before[name] != after[name] for name in ("amount", "currency", "namespace")):
            row.alerts.filter(month=datetime.now(UTC).date().replace(day=1)).delete()
        record(actor, "budget.update", tenant, row.name, before, after)
    return row


def _budget_fields(
    tenant: str, name: str, amount: str, currency: str, namespace: str, thresholds: Sequence[int], emails: Sequence[str]
) -> dict[str, Any]:
    """The columns. Raises `InvalidValue`."""
    if currency not in CURRENCIES:
        raise InvalidValue(f"currency {currency[:10]!r} is not known: use one of {', '.join(sorted(CURRENCIES))}")
    try:
        minor = minor_of(amount, currency, "amount")
    except RatingError as error:
        raise InvalidValue(str(error)) from None
    if not 0 < minor < 2**53:
        raise InvalidValue(f"amount {amount!r} is not above 0, or too large")
    if not 1 <= len(thresholds) <= THRESHOLDS_MAX or not all(1 <= threshold <= THRESHOLD_MAX for threshold in thresholds):
        raise InvalidValue(f"thresholds must be 1 to {THRESHOLDS_MAX} numbers from 1 to {THRESHOLD_MAX}, in per cent")
    if namespace and not namespace.startswith(f"{tenant}/"):
        raise InvalidValue(f"namespace {namespace[:80]!r} is not one of tenant {tenant}")
    return {
        "name": name,
        "currency": currency,
        "amount_minor": minor,
        "namespace": namespace,
        "thresholds": sorted(set(thresholds)),
        "emails": recipients(emails, EMAILS_MAX),
    }


def _told_of_budget(row: Budget) -> dict[str, Any]:
    fields: dict[str, Any] = {field: getattr(row, field) for field in ("name", "currency", "namespace", "thresholds", "emails")}
    return {**fields, "amount": money_text(row.amount_minor, row.currency)}


def existing_budget(tenant: str, budget_id: str) -> Budget:
    with tenant_scope(tenant):
        budget = Budget.objects.filter(id=budget_id).first()
    if budget is None:
        raise NotFound(f"budget {budget_id[:64]!r} does not exist")
    return budget


def delete_budget(actor: Actor, tenant: str, budget_id: str) -> None:
    require(actor, Action.BILLING_ADMIN, Resource(tenant))
    limit_rate(actor)
    with tenant_scope(tenant), transaction.atomic():
        row = existing_budget(tenant, budget_id)
        record(actor, "budget.delete", tenant, row.name, before=_told_of_budget(row))
        row.delete()


def create_schedule(
    actor: Actor, tenant: str, name: str, every: str, by: str, emails: Sequence[str] = (), today: date | None = None
) -> ReportSchedule:
    """The first report is of the span that was over last, if there is usage of it. Raises as `create_budget`."""
    require(actor, Action.BILLING_ADMIN, Resource(tenant))
    limit_rate(actor)
    tenant_row = existing_tenant(tenant)
    if every not in ReportSchedule.Every.values:
        raise InvalidValue(f"every {every[:20]!r} is not one of {', '.join(ReportSchedule.Every.values)}")
    _check_by(by)
    told = recipients(emails, EMAILS_MAX)
    with transaction.atomic(), platform_scope():
        if ReportSchedule.objects.filter(tenant_uid=tenant_row.uid).count() >= SCHEDULES_MAX:
            raise PreconditionFailed(f"a tenant has at most {SCHEDULES_MAX} reports on schedule: delete one first")
        row = ReportSchedule.objects.create(
            tenant=tenant,
            tenant_uid=tenant_row.uid,
            name=name,
            every=every,
            by=by,
            emails=told,
            made_until=_begin(every, today or datetime.now(UTC).date()),
            created_at=datetime.now(UTC),
        )
        record(actor, "report.create", tenant, name, after={"every": every, "by": by, "emails": told})
    return row


def change_schedule(actor: Actor, tenant: str, schedule_id: str, given: Mapping[str, Any]) -> ReportSchedule:
    """Changes what is given of `name`, `by` and `emails`, for the reports that are made from now on. Raises `NotFound`,
    `InvalidValue`."""
    require(actor, Action.BILLING_ADMIN, Resource(tenant))
    limit_rate(actor)
    with tenant_scope(tenant), transaction.atomic():
        row = existing_schedule(tenant, schedule_id)
        before = {"name": row.name, "by": row.by, "emails": row.emails}
        after = {**before, **given}
        _check_by(after["by"])
        row.name, row.by, row.emails = after["name"], after["by"], recipients(after["emails"], EMAILS_MAX)
        row.save(update_fields=["name", "by", "emails"])
        record(actor, "report.update", tenant, row.name, before, {**after, "emails": row.emails})
    return row


def existing_schedule(tenant: str, schedule_id: str) -> ReportSchedule:
    with tenant_scope(tenant):
        schedule = ReportSchedule.objects.filter(id=schedule_id).first()
    if schedule is None:
        raise NotFound(f"report {schedule_id[:64]!r} does not exist")
    return schedule


def delete_schedule(actor: Actor, tenant: str, schedule_id: str) -> None:
    """Reports that were made stay."""
    require(actor, Action.BILLING_ADMIN, Resource(tenant))
    limit_rate(actor)
    with tenant_scope(tenant), transaction.atomic():
        row = existing_schedule(tenant, schedule_id)
        record(actor, "report.delete", tenant, row.name)
        row.delete()


def existing_report(tenant: str, report_id: str) -> Report:
    with tenant_scope(tenant):
        report = Report.objects.filter(id=report_id).first()
    if report is None:
        raise NotFound(f"report {report_id[:64]!r} does not exist")
    return report


def _check_by(by: str) -> None:
    if not costs.groups_by(by) or "\x00" in by:
        raise InvalidValue(f"by {by[:40]!r} is not one of {', '.join(costs.LEVELS)}, {costs.LABEL}KEY or {costs.TENANT_LABEL}KEY")


def _begin(every: str, today: date) -> date:
    if every == ReportSchedule.Every.DAY:
        return today - timedelta(days=1)
    if every == ReportSchedule.Every.WEEK:
        return today - timedelta(days=today.weekday() + 7)
    return (today.replace(day=1) - timedelta(days=1)).replace(day=1)
