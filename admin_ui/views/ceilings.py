"""Ceilings of a tenant: what is used of each; and its spend caps."""

from __future__ import annotations

from datetime import UTC, datetime

from django.http import HttpResponse, HttpResponseRedirect

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.pages import add_error, crumbs, navigation, show, show_error, show_message
from admin_ui.spend_cap_forms import SpendCapForm
from admin_ui.translation.figures import money
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext
from messaging.errors import MagnetarError
from messaging.permissions.model import Action, Resource
from messaging.policies.ceilings import THRESHOLDS, Ceiling
from messaging.policies.groups import SUBJECT_OF
from messaging.policies.model import Level
from tenants.actions.ceilings import tenant_ceilings
from tenants.models import Tenant
from workers.rating.money import money_text
from workers.spend_caps import actions as spend_cap_actions
from workers.spend_caps.enforcement import caps_of
from workers.spend_caps.models import SpendCap
from workers.spend_caps.spent import Spent, spent_of

_LOOKS = {0: "", 80: "warn", 95: "warn", 100: "bad"}


@page
def ceilings(request: ConsoleRequest, tenant: str) -> HttpResponse:
    row = Tenant.objects.get()
    return show(
        request,
        "pages/ceilings.html",
        navigation(request, "ceilings", tenant),
        crumbs=crumbs(tenant),
        ceilings=[_shown(ceiling) for ceiling in tenant_ceilings(row)],
        thresholds=THRESHOLDS,
        spend=row.spend,
        sees_spend=request.actor.may(Action.BILLING_READ, Resource(tenant)),
    )


def _shown(ceiling: Ceiling) -> dict[str, object]:
    return {
        "ceiling": ceiling,
        "title": said(ceiling.policy.title),
        "meaning": said(ceiling.policy.meaning),
        "look": _LOOKS[ceiling.threshold],
        "percent": ceiling.exact_percent,
        "width": min(ceiling.used_percent or 0, 100),
        "of_tenant": ceiling.level is Level.TENANT,
        "subject": SUBJECT_OF[ceiling.policy.name].name,
    }


@page
def spend_caps(request: ConsoleRequest, tenant: str) -> HttpResponse:
    row = Tenant.objects.get()
    nav = navigation(request, "ceilings", tenant)
    form = None
    if request.actor.may(Action.BILLING_ADMIN, Resource(tenant)):
        given = request.GET if followed(request) else request.POST or None
        form = SpendCapForm(given if given and "remove" not in given else None, platform=nav.superuser)
        if followed(request):
            form.is_valid()
            return show_calls(request, [api_calls.set_spend_cap(tenant, form.cleaned_data, form.rates())])
        if request.method == "POST" and _changed(request, tenant, form):
            return HttpResponseRedirect(request.path)
    spent = spent_of(row.uid, datetime.now(UTC))
    return show(
        request,
        "pages/spend_caps.html",
        nav,
        crumbs=crumbs(tenant),
        spent=spent,
        spent_text="" if spent.minor is None else _with_currency(spent.minor, spent.currency),
        spend=row.spend,
        caps=[_shown_cap(cap, spent, nav.superuser, form is not None) for cap in caps_of(row.uid)],
        form=form,
        calls=calls_of(request, [api_calls.set_spend_cap(tenant, {}, {})]) if form else (),
    )


def _changed(request: ConsoleRequest, tenant: str, form: SpendCapForm) -> bool:
    """Whether what was asked for is done; else `form` says why not."""
    if "remove" in request.POST:
        try:
            spend_cap_actions.remove_cap(request.actor, tenant, request.POST["remove"])
            show_message(request, gettext("The spend cap was removed; what it did has ended."))
        except MagnetarError as error:
            show_error(request, error)
        return True
    if not form.is_valid():
        return False
    given = {name: form.cleaned_data[name] for name in ("set_by", "amount", "currency", "action")}
    try:
        spend_cap_actions.set_cap(request.actor, tenant, **given, rates=form.rates())
    except MagnetarError as error:
        add_error(request, form, error)
        return False
    show_message(request, gettext("The spend cap was set and is now in effect."))
    return True


def _with_currency(minor: int, currency: str) -> str:
    return f"{money(money_text(minor, currency))} {currency}"


def _shown_cap(cap: SpendCap, spent: Spent, superuser: bool, may_set: bool) -> dict[str, object]:
    percent = spent.exact_percent_of(cap)
    threshold = max((threshold for threshold in THRESHOLDS if (percent or 0) >= threshold), default=0)
    return {
        "cap": cap,
        "money": _with_currency(cap.amount_minor, cap.currency),
        "whose": gettext("the platform") if cap.set_by == SpendCap.SetBy.PLATFORM else gettext("the tenant"),
        "percent": percent,
        "look": _LOOKS[threshold],
        "width": min(int(percent or 0), 100),
        "unknown": spent.unknown_for(cap),
        "rates": ", ".join(f"{name} = {rate}" for name, rate in cap.rates.items()),
        "removable": superuser or (may_set and cap.set_by == SpendCap.SetBy.TENANT),
    }
