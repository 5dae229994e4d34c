"""Price plans, who sends invoices, and by which plan and terms a tenant pays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.conf import settings as django_settings
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import add_error, crumbs, navigation, show, show_message
from admin_ui.price_plan_forms import AccountForm, AssignForm, CreditForm, IssuerForm, PricePlanForm, initial_of, utc_text
from admin_ui.row_list import Column, list_rows
from admin_ui.translation.figures import money
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.errors import InvalidValue, MagnetarError
from tenants.models import Tenant
from tenants.scoping import platform_scope
from workers.billing import actions, headers
from workers.billing.models import Credit, PlanAssignment, PricePlanVersion
from workers.billing.plan_preview import preview
from workers.billing.unit_texts import quantity_text
from workers.rating.errors import RatingError
from workers.rating.money import money_text
from workers.rating.plan import plan_from, whole_hour
from workers.rating.rate import month_of

TENANTS_MAX = PLANS_MAX = 1_000  # to choose from
PLAN_COLUMNS = (
    Column("name", gettext_lazy("Plan"), ("plan", F("version").desc())),
    Column("version", gettext_lazy("Version"), ("version", "plan"), down=True, look="number"),
    Column("state", gettext_lazy("State")),
    Column("currency", gettext_lazy("Currency"), ("currency", "plan")),
    Column("since", gettext_lazy("In force from (UTC)"), ("in_force_from",), down=True),
    Column("published", gettext_lazy("Published"), ("created_at",), down=True),
)
ASSIGNED_COLUMNS = (Column("newest", order=("starts_at",), down=True),)
CREDIT_COLUMNS = (Column("oldest", order=("created_at",)),)


@page
def price_plans(request: ConsoleRequest) -> HttpResponse:
    rows = PricePlanVersion.objects.defer("document")
    listed = list_rows(request.GET, rows, PLAN_COLUMNS, searched=("plan", "title", "currency"))
    now = datetime.now(UTC)
    of_shown = PricePlanVersion.objects.filter(plan__in={row.plan for row in listed.rows}).order_by().values("plan")
    latest = of_shown.annotate(newest=Max("version"), in_force=Max("version", filter=Q(in_force_from__lte=now)))
    versions = {plan: (newest, in_force) for plan, newest, in_force in latest.values_list("plan", "newest", "in_force")}
    shown = [
        {
            "row": row,
            "newest": versions[row.plan][0] == row.version,
            "in_force": (in_force := versions[row.plan][1] == row.version),
            "state": _state(in_force, row.in_force_from > now),
        }
        for row in listed.rows
    ]
    return show(request, "pages/price_plans.html", navigation(request, "price_plans"), plans=shown, listed=listed)


@page
def price_plan_create(request: ConsoleRequest) -> HttpResponse:
    """A new plan, or with `?plan=` a new version of one. A preview changes nothing."""
    now = datetime.now(UTC)
    with platform_scope():
        tenants = list(Tenant.objects.order_by("name").values_list("name", flat=True)[:TENANTS_MAX])
    newest = _newest(request.POST.get("plan", request.GET.get("plan", "")))
    initial = {
        **(initial_of(newest.document) if newest else {}),
        "in_force_from": f"{month_of(now)[1 if newest else 0]:%Y-%m-%d %H:%M}",
    }
    form = PricePlanForm(request.POST or None, tenants=tenants, initial=initial)
    looked = None
    if request.method == "POST" and form.is_valid():
        document = form.document(newest.version + 1 if newest else 1)
        try:
            version = plan_from(document)
            if request.POST.get("what") == "preview":
                looked = _preview(version, form.cleaned_data["tenant"], now)
            else:
                row = actions.publish_plan(request.actor, document, now)
                since = f"{row.in_force_from:%Y-%m-%d %H:%M}"
                text = gettext("Version {version} of plan {plan} is in force from {since} UTC.")
                show_message(request, text.format(version=row.version, plan=row.plan, since=since))
                return HttpResponseRedirect(reverse("console:price_plans"))
        except RatingError as error:
            form.blame(str(error))
        except MagnetarError as error:
            add_error(request, form, error)
    return show(
        request,
        "pages/price_plan.html",
        navigation(request, "price_plans"),
        crumbs=[(gettext("Price plans"), reverse("console:price_plans"))],
        form=form,
        newest=newest,
        looked=looked,
    )


def _state(in_force: bool, to_come: bool) -> str:
    return gettext("In force") if in_force else gettext("To come") if to_come else gettext("Replaced")


def _newest(plan: str) -> PricePlanVersion | None:
    return PricePlanVersion.objects.filter(plan=plan).order_by("-version").first() if "\x00" not in plan else None


def _preview(version: Any, tenant: str, now: datetime) -> dict[str, Any]:
    if not tenant:
        raise InvalidValue(gettext("choose a tenant whose usage the preview is made with"))
    found = preview(version, actions.existing_tenant(tenant).uid, now)
    lines = [
        {
            "title": line.title,
            "quantity": quantity_text(line.quantity, line.unit) if line.unit else "",
            "amount": money(money_text(line.amount, version.currency)),
        }
        for line in found.lines
    ]
    total = money(money_text(found.total, version.currency))
    billed = f"{money(found.billed)} {found.billed_currency}" if found.billed else ""
    return {"tenant": tenant, "month": found.month, "lines": lines, "total": total, "currency": version.currency, "billed": billed}


@page
def issuer(request: ConsoleRequest) -> HttpResponse:
    held = headers.issuer()
    form = IssuerForm(request.POST or None, initial={**held.details, "forgiven_minor": held.forgiven_minor})
    if request.method == "POST" and form.is_valid():
        try:
            actions.set_issuer(request.actor, form.details(), form.cleaned_data["forgiven_minor"])
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, gettext("Invoices are sent in this name from now on."))
            return HttpResponseRedirect(reverse("console:price_plans"))
    return show(
        request,
        "pages/form.html",
        navigation(request, "price_plans"),
        crumbs=[(gettext("Price plans"), reverse("console:price_plans"))],
        heading=gettext("Who sends invoices"),
        intro=gettext("Drafts and new invoices show this. Final invoices stay as they are."),
        form=form,
        submit=gettext("Save"),
        cancel_url=reverse("console:price_plans"),
    )


@page
def billing(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """How a tenant pays. Its administrators see it; administrators of the platform change it."""
    row = Tenant.objects.get(name=tenant)
    account = headers.account_of(row.uid, tenant)
    given = {name: getattr(account, name) for name in ("tax_label", "tax_rate", "payment_days")}
    plans = _titles(PricePlanVersion.objects.all())
    what, now = request.POST.get("what", ""), datetime.now(UTC)
    all_forms = {
        "plan": AssignForm(
            request.POST if what == "plan" else None,
            plans=sorted(plans.items()),
            prefix="plan",
            starts=_starts(now),
        ),
        "account": AccountForm(request.POST if what == "account" else None, prefix="account", initial={**account.details, **given}),
        "credit": CreditForm(request.POST if what == "credit" else None, prefix="credit"),
    }
    if request.method == "POST" and what in all_forms and all_forms[what].is_valid():
        try:
            said = _change(request, tenant, what, all_forms[what])
        except RatingError as error:
            add_error(request, all_forms[what], InvalidValue(str(error)))
        except MagnetarError as error:
            add_error(request, all_forms[what], error)
        else:
            show_message(request, said)
            return HttpResponseRedirect(reverse("console:billing", args=[tenant]))
    assigned = list_rows(request.GET, PlanAssignment.objects.all(), ASSIGNED_COLUMNS, name="plans-")
    plans |= _titles(PricePlanVersion.objects.filter(plan__in={one.plan for one in assigned.rows}))
    current = PlanAssignment.objects.filter(starts_at__lte=now).order_by("-starts_at").first()
    granted = list_rows(request.GET, Credit.objects.all(), CREDIT_COLUMNS, name="credits-")
    return show(
        request,
        "pages/billing.html",
        navigation(request, "billing", tenant),
        crumbs=crumbs(tenant),
        account=account,
        assigned=[{"row": one, "title": plans.get(one.plan, one.plan), "current": one == current} for one in assigned.rows],
        assigned_links=assigned.links,
        credits=_credits(granted.rows),
        credits_links=granted.links,
        forms=all_forms,
        close_after_h=django_settings.MAGNETAR.billing_close_after_h,
    )


def _starts(now: datetime) -> list[tuple[str, str]]:
    """When a plan may start, as it is typed, with what it is: the first is chosen where nothing else is."""
    this_month, next_month = month_of(now)
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    return [
        (f"{at:%Y-%m-%d %H:%M}", f"{said}: {at:%Y-%m-%d %H:%M} UTC")
        for at, said in (
            (next_month, gettext("the next month")),
            (this_month, gettext("the start of this month")),
            (this_hour, gettext("this hour")),
        )
    ]


def _titles(rows: QuerySet[PricePlanVersion]) -> dict[str, str]:
    """Plan -> what its newest version is called; of `PLANS_MAX` plans at most."""
    newer = PricePlanVersion.objects.filter(plan=OuterRef("plan"), version__gt=OuterRef("version"))
    newest = rows.filter(~Exists(newer)).order_by("plan").values_list("plan", "title", "currency")[:PLANS_MAX]
    return {plan: f"{title} ({plan}, {currency})" for plan, title, currency in newest}


def _credits(rows: Sequence[Credit]) -> list[dict[str, Any]]:
    """Of one tenant."""
    today = datetime.now(UTC).date()
    left: dict[str, int] = {}
    for tenant_uid, currency in {(one.tenant_uid, one.currency) for one in rows}:
        left |= {found.id: found.left for found in headers.credits_of(tenant_uid, currency, today)}
    return [
        {
            "row": one,
            "amount": money(money_text(one.amount_minor, one.currency)),
            "left": money(money_text(left.get(one.id, 0), one.currency)),
        }
        for one in rows
    ]


def _change(request: ConsoleRequest, tenant: str, what: str, form: forms.Form) -> str:
    """What was done, in words. Raises `RatingError` and the errors of the actions."""
    given = form.cleaned_data
    if what == "plan":
        row = actions.assign_plan(request.actor, tenant, given["plan"], whole_hour(utc_text(given["starts_at"]), gettext("From")))
        since = f"{row.starts_at:%Y-%m-%d %H:%M}"
        text = gettext("{tenant} pays by plan {plan} from {since} UTC on.").format(tenant=tenant, plan=row.plan, since=since)
        first = PricePlanVersion.objects.filter(plan=row.plan).order_by("in_force_from").values_list("in_force_from", flat=True)[0]
        if first > row.starts_at:
            priced = gettext("The plan has prices from {since} UTC on: what is used before costs nothing.")
            text += f" {priced.format(since=f'{first:%Y-%m-%d %H:%M}')}"
        return text
    if isinstance(form, AccountForm):
        terms = {name: given[name] for name in ("tax_label", "tax_rate", "payment_days")}
        actions.set_account(request.actor, tenant, {"details": form.details(), **terms})
        return gettext("The account was changed: drafts and new invoices show it.")
    actions.grant_credit(request.actor, tenant, given["title"], given["currency"], given["amount"], given["expires"])
    return gettext("The credit of {amount} {currency} was given.").format(amount=given["amount"], currency=given["currency"])
