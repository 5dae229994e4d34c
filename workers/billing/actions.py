"""What people change of billing. Each action checks who may, and leaves its audit record in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from django.db import transaction

from messaging.errors import Conflict, InvalidValue, NotFound
from messaging.limits.structs import check_fields
from messaging.permissions.model import NOTHING, Action, Resource
from tenants.access import Actor, require
from tenants.actions.change import record
from tenants.models import Tenant
from tenants.scoping import platform_scope, tenant_scope
from workers.billing import closing, headers, shapes
from workers.billing.drafts import segments_between
from workers.billing.models import BillingAccount, Credit, Invoice, Issuer, PlanAssignment, PricePlanVersion
from workers.rating.errors import RatingError
from workers.rating.money import exact, minor_of
from workers.rating.plan import plan_from
from workers.rating.rate import month_of

DETAILS = ("name", "address", "tax_id", "email", "bank")


def publish_plan(actor: Actor, document: Mapping[str, Any], now: datetime | None = None) -> PricePlanVersion:
    """A new version: the next number of its plan, in force from a time that is not over, unless it is the first.

    Raises `InvalidValue`, `Conflict`."""
    require(actor, Action.SUPERUSER, NOTHING)
    now = now or datetime.now(UTC)
    try:
        version = plan_from(dict(document))
    except RatingError as error:
        raise InvalidValue(str(error)) from None
    with transaction.atomic():
        newest = PricePlanVersion.objects.select_for_update().filter(plan=version.plan).order_by("-version").first()
        expected = newest.version + 1 if newest else 1
        if version.version != expected:
            raise Conflict(f"the next version of plan {version.plan} is {expected}, not {version.version}")
        if newest is not None:
            if version.in_force_from <= newest.in_force_from or version.in_force_from < now:
                raise Conflict(
                    f"version {expected} must be in force from a later time than now and than version {newest.version} "
                    f"({newest.in_force_from:%Y-%m-%dT%H:%MZ}): prices do not change backwards"
                )
            if version.currency != newest.currency:
                raise Conflict(f"plan {version.plan} is in {newest.currency}: make another plan for {version.currency}")
        row = PricePlanVersion.objects.create(
            plan=version.plan,
            version=version.version,
            title=version.title,
            currency=version.currency,
            in_force_from=version.in_force_from,
            document=dict(document),
            created_at=now,
            created_by=actor.principal.role,
        )
        record(actor, "price_plan.publish", "", f"{version.plan} {version.version}", after=dict(document))
    return row


def assign_plan(actor: Actor, tenant: str, plan: str, starts_at: datetime) -> PlanAssignment:
    """From `starts_at` (an hour) on the tenant pays by `plan`. Raises `NotFound`, `InvalidValue`, `Conflict` for a closed month."""
    require(actor, Action.SUPERUSER, Resource(tenant))
    if starts_at != starts_at.replace(minute=0, second=0, microsecond=0):
        raise InvalidValue(f"starts_at {starts_at.isoformat()} is not the start of an hour")
    tenant_row = existing_tenant(tenant)
    if not PricePlanVersion.objects.filter(plan=plan).exists():
        raise NotFound(f"price plan {plan[:64]!r} does not exist")
    with transaction.atomic(), platform_scope():
        if Invoice.objects.filter(tenant_uid=tenant_row.uid, state=Invoice.State.FINAL, end__gt=starts_at).exists():
            raise Conflict(f"a final invoice covers {starts_at:%Y-%m-%dT%H:%MZ}: a plan changes after it")
        row, _ = PlanAssignment.objects.update_or_create(
            tenant_uid=tenant_row.uid, starts_at=starts_at, defaults={"plan": plan, "tenant": tenant}
        )
        try:
            segments_between(tenant_row.uid, *month_of(starts_at))
        except RatingError as error:
            raise Conflict(str(error)) from None
        record(actor, "price_plan.assign", tenant, plan, after={"plan": plan, "starts_at": starts_at.isoformat()})
    return row


def set_account(actor: Actor, tenant: str, given: Mapping[str, Any]) -> BillingAccount:
    """Changes what is given of `details`, `tax_label`, `tax_rate` and `payment_days`."""
    require(actor, Action.SUPERUSER, Resource(tenant))
    tenant_row = existing_tenant(tenant)
    check_fields(shapes.BillingChange, given)
    if "tax_rate" in given:
        _rate(given["tax_rate"])
    with transaction.atomic(), platform_scope():
        row = headers.account_of(tenant_row.uid, tenant)
        before = {field: getattr(row, field) for field in ("details", "tax_label", "tax_rate", "payment_days")}
        for field in before:
            if field in given:
                setattr(row, field, given[field])
        row.details = _details(row.details)
        row.save()
        record(actor, "billing.account", tenant, tenant, before, {field: getattr(row, field) for field in before})
    return row


def set_issuer(actor: Actor, details: Mapping[str, Any], forgiven_minor: int | None = None) -> Issuer:
    require(actor, Action.SUPERUSER, NOTHING)
    check_fields(shapes.NewIssuer, {"details": details, "forgiven_minor": forgiven_minor})
    with transaction.atomic():
        row, _ = Issuer.objects.get_or_create(pk=1)
        before = {**row.details, "forgiven_minor": row.forgiven_minor}
        row.details = _details(details)
        row.forgiven_minor = row.forgiven_minor if forgiven_minor is None else forgiven_minor
        row.save(update_fields=["details", "forgiven_minor"])
        record(actor, "billing.issuer", "", "issuer", before, {**row.details, "forgiven_minor": row.forgiven_minor})
    return row


def grant_credit(actor: Actor, tenant: str, title: str, currency: str, amount: str, expires: date | None) -> Credit:
    require(actor, Action.SUPERUSER, Resource(tenant))
    tenant_row = existing_tenant(tenant)
    check_fields(shapes.NewCredit, {"title": title, "currency": currency, "amount": amount})
    try:
        minor = minor_of(amount, currency, "amount")
    except (RatingError, KeyError) as error:
        raise InvalidValue(str(error) if isinstance(error, RatingError) else f"currency {currency[:10]!r} is not known") from None
    if not 0 < minor < 2**53:
        raise InvalidValue(f"amount {amount!r} is not above 0, or too large")
    with transaction.atomic(), platform_scope():
        row = Credit.objects.create(
            tenant=tenant,
            tenant_uid=tenant_row.uid,
            title=title,
            currency=currency,
            amount_minor=minor,
            expires=expires,
            created_at=datetime.now(UTC),
        )
        record(actor, "billing.credit", tenant, row.id, after={"title": title, "amount": amount, "currency": currency})
    return row


def take_back(
    actor: Actor, tenant: str, invoice_id: str, amounts: Mapping[str, str] | None, note: str, now: datetime | None = None
) -> Invoice:
    """A credit note for an invoice, or for amounts of its lines. Raises `NotFound`, `PreconditionFailed`, `InvalidValue`."""
    require(actor, Action.SUPERUSER, Resource(tenant))
    with transaction.atomic():
        made = closing.make_credit_note(existing_invoice(tenant, invoice_id), amounts, note, now or datetime.now(UTC))
        record(
            actor, "invoice.take_back", tenant, str(made.of_invoice), after={"number": made.number, "total": made.document["total"]}
        )
    return made


def existing_tenant(name: str) -> Tenant:
    with tenant_scope(name):
        tenant = Tenant.objects.first()
    if tenant is None:
        raise NotFound(f"tenant {name!r} does not exist")
    return tenant


def existing_invoice(tenant: str, invoice_id: str) -> Invoice:
    """One of this tenant's, by id or number. Raises `NotFound`."""
    with tenant_scope(tenant):
        invoice = Invoice.objects.filter(id=invoice_id).first() or Invoice.objects.filter(number=invoice_id).first()
    if invoice is None:
        raise NotFound(f"invoice {invoice_id[:64]!r} does not exist")
    return invoice


def _details(given: Mapping[str, Any]) -> dict[str, str]:
    unknown = sorted(set(given) - set(DETAILS))
    if unknown:
        raise InvalidValue(f"details has {unknown[0][:80]!r}, which is unknown: use {', '.join(DETAILS)}")
    return {name: str(text)[:1000] for name, text in given.items()}


def _rate(text: object) -> None:
    try:
        if exact(text, "tax_rate") > 100:
            raise InvalidValue(f"tax_rate {text!r} is above 100 per cent")
    except RatingError as error:
        raise InvalidValue(str(error)) from None
