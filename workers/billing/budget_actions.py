"""What owners of a tenant change about budgets and reports, each with its audit record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from messaging.errors import InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.scoping import platform_scope, tenant_scope
from workers.billing import costs
from workers.billing.actions import existing_tenant
from workers.billing.budget_models import Budget, Report, ReportSchedule
from workers.rating.errors import RatingError
from workers.rating.money import CURRENCIES, minor_of

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
    """Raises `InvalidValue`, `PreconditionFailed` for one too many."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    found = existing_tenant(tenant)
    if currency not in CURRENCIES:
        raise InvalidValue(f"currency {currency[:10]!r} is not known: use one of {', '.join(sorted(CURRENCIES))}")
    try:
        minor = minor_of(amount, currency, "amount")
    except RatingError as error:
        raise InvalidValue(str(error)) from None
    if not 0 < minor < 2**53:
        raise InvalidValue(f"amount {amount!r} is not above 0, or too large")
    if not 1 <= len(thresholds) <= THRESHOLDS_MAX or not all(1 <= one <= THRESHOLD_MAX for one in thresholds):
        raise InvalidValue(f"thresholds must be 1 to {THRESHOLDS_MAX} numbers from 1 to {THRESHOLD_MAX}, in per cent")
    if namespace and not namespace.startswith(f"{tenant}/"):
        raise InvalidValue(f"namespace {namespace[:80]!r} is not one of tenant {tenant}")
    told = _emails(emails)
    with transaction.atomic(), platform_scope():
        if Budget.objects.filter(tenant_uid=found.uid).count() >= BUDGETS_MAX:
            raise PreconditionFailed(f"a tenant has at most {BUDGETS_MAX} budgets: delete one first")
        row = Budget.objects.create(
            tenant=tenant,
            tenant_uid=found.uid,
            name=name,
            currency=currency,
            amount_minor=minor,
            namespace=namespace,
            thresholds=sorted(set(thresholds)),
            emails=told,
            created_at=datetime.now(UTC),
        )
        record(
            actor,
            "budget.create",
            tenant,
            name,
            after={"amount": amount, "currency": currency, "namespace": namespace, "emails": told},
        )
    return row


def delete_budget(actor: Actor, tenant: str, budget_id: str) -> None:
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with tenant_scope(tenant), transaction.atomic():
        row = Budget.objects.filter(id=budget_id).first()
        if row is None:
            raise NotFound(f"budget {budget_id[:64]!r} does not exist")
        record(actor, "budget.delete", tenant, row.name)
        row.delete()


def create_schedule(
    actor: Actor, tenant: str, name: str, every: str, by: str, emails: Sequence[str] = (), today: date | None = None
) -> ReportSchedule:
    """The first report is of the span that was over last, if there is usage of it. Raises as `create_budget`."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    found = existing_tenant(tenant)
    if every not in ReportSchedule.Every.values:
        raise InvalidValue(f"every {every[:20]!r} is not one of {', '.join(ReportSchedule.Every.values)}")
    if by not in costs.LEVELS and not by.startswith(costs.LABEL):
        raise InvalidValue(f"by {by[:40]!r} is not one of {', '.join(costs.LEVELS)} or {costs.LABEL}KEY")
    told = _emails(emails)
    with transaction.atomic(), platform_scope():
        if ReportSchedule.objects.filter(tenant_uid=found.uid).count() >= SCHEDULES_MAX:
            raise PreconditionFailed(f"a tenant has at most {SCHEDULES_MAX} reports on schedule: delete one first")
        row = ReportSchedule.objects.create(
            tenant=tenant,
            tenant_uid=found.uid,
            name=name,
            every=every,
            by=by,
            emails=told,
            made_until=_begin(every, today or datetime.now(UTC).date()),
            created_at=datetime.now(UTC),
        )
        record(actor, "report.create", tenant, name, after={"every": every, "by": by, "emails": told})
    return row


def delete_schedule(actor: Actor, tenant: str, schedule_id: str) -> None:
    """Reports that were made stay."""
    require(actor, Action.TENANT_ADMIN, Resource(tenant))
    with tenant_scope(tenant), transaction.atomic():
        row = ReportSchedule.objects.filter(id=schedule_id).first()
        if row is None:
            raise NotFound(f"report {schedule_id[:64]!r} does not exist")
        record(actor, "report.delete", tenant, row.name)
        row.delete()


def existing_report(tenant: str, report_id: str) -> Report:
    with tenant_scope(tenant):
        found = Report.objects.filter(id=report_id).first()
    if found is None:
        raise NotFound(f"report {report_id[:64]!r} does not exist")
    return found


def _begin(every: str, today: date) -> date:
    if every == ReportSchedule.Every.DAY:
        return today - timedelta(days=1)
    if every == ReportSchedule.Every.WEEK:
        return today - timedelta(days=today.weekday() + 7)
    return (today.replace(day=1) - timedelta(days=1)).replace(day=1)


def _emails(emails: Sequence[str]) -> list[str]:
    told = sorted({one.strip() for one in emails if one.strip()})
    if len(told) > EMAILS_MAX:
        raise InvalidValue(f"{len(told)} addresses are too many: at most {EMAILS_MAX}")
    for one in told:
        try:
            validate_email(one)
        except ValidationError:
            raise InvalidValue(f"{one[:80]!r} is not a mail address") from None
    return told
