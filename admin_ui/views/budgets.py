"""Budgets of a tenant, the month ahead, and what could be saved."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.billing_forms import BudgetForm, RetentionForm, addresses
from admin_ui.pages import add_error, crumbs, explain, navigation, show, show_message
from admin_ui.translation.figures import money, of_language
from admin_ui.translation.texts import gettext
from messaging.errors import MagnetarError, NotFound
from messaging.protocol.names import parse_topic
from tenants.models import Namespace, Tenant
from workers.alerts.notices import mails_refused
from workers.billing import budget_actions, budgets, costs, outlook
from workers.billing.budget_models import Budget, SpendAlert
from workers.billing.idle_subscriptions import with_subscriptions
from workers.billing.models import NANO
from workers.billing.retention_savings import retention_savings
from workers.billing.unit_texts import quantity_text
from workers.former_members import former_of
from workers.rating.forecast import Forecast
from workers.rating.money import CURRENCIES, money_text
from workers.redrive.letters import ENDING as DEAD_LETTERS

ALERTS_SHOWN = 50
DAY_S = 86_400
RECYCLED = "recycled://"  # what a deleted topic is stored as: tenant/namespace/id/topic
NAMESPACES_OFFERED = 200  # while one types


@page
def budget_list(request: ConsoleRequest, tenant: str) -> HttpResponse:
    form = BudgetForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        given = {**form.cleaned_data, "emails": addresses(form.cleaned_data["emails"])}
        try:
            budget_actions.create_budget(request.actor, tenant, **given)
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, gettext("Budget {name} was made.").format(name=given["name"]))
            return HttpResponseRedirect(reverse("console:budgets", args=[tenant]))
    now = datetime.now(UTC)
    rows = [budget_row(budget, now) for budget in Budget.objects.all()]
    alerts = SpendAlert.objects.filter(budget__in=[row["budget"] for row in rows]).select_related("budget", "notice")[:ALERTS_SHOWN]
    shown = [
        {"alert": alert, "amount": money(money_text(alert.amount_minor, alert.budget.currency)), "sent": _sent(alert)}
        for alert in alerts
    ]
    nav = navigation(request, "budgets", tenant)
    return show(
        request,
        "pages/budgets.html",
        nav,
        crumbs=crumbs(tenant),
        budgets=rows,
        alerts=shown,
        form=form,
        mails_refused=mails_refused(now),
        former_mail=former_of(tenant, (address for row in rows for address in row["budget"].emails)),
    )


def _sent(alert: SpendAlert) -> str:
    delivered = alert.notice.delivered if alert.notice else {}
    return ", ".join(f"{channel}: {how}" for channel, how in sorted(delivered.items())) or alert.delivered


def budget_row(budget: Budget, now: datetime) -> dict[str, Any]:
    ahead = budgets.month_ahead(budget.tenant_uid, budget.currency, now, budget.namespace)
    whole = budget.amount_minor * (NANO // int(10 ** CURRENCIES[budget.currency]))
    return {
        "budget": budget,
        "amount": money(money_text(budget.amount_minor, budget.currency)),
        "percent": 100 * ahead.so_far / whole,
        "likely_percent": 100 * ahead.likely / whole if ahead.known else None,
        **_shown(ahead, budget.currency),
    }


@page
def budget_delete(request: ConsoleRequest, tenant: str, budget: str) -> HttpResponse:
    if request.method == "GET":  # an address that was copied
        return HttpResponseRedirect(reverse("console:budgets", args=[tenant]))
    try:
        budget_actions.delete_budget(request.actor, tenant, budget)
    except NotFound:
        raise Http404 from None
    return HttpResponseRedirect(reverse("console:budgets", args=[tenant]))


@page
def month_ahead(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """The running month with its bounds, another retention, and topics that nobody reads."""
    now = datetime.now(UTC)
    row = Tenant.objects.get(name=tenant)
    currency = outlook.currency_of_month(row.uid, now.date())
    form = RetentionForm(request.GET if "days" in request.GET else None)
    what_if, why, retention_url = None, "", ""
    if form.is_bound and form.is_valid():
        days, local = form.cleaned_data["days"], form.cleaned_data["namespace"].removeprefix(f"{tenant}/")
        namespace = f"{tenant}/{local}" if local else ""
        try:
            if namespace and not Namespace.objects.filter(name=namespace).exists():
                raise NotFound(gettext("there is no namespace {namespace}").format(namespace=namespace))
            what_if = _what_if(outlook.with_retention(row, days * DAY_S, namespace, now))
            if namespace:
                retention_url = f"{reverse('console:policies', args=[tenant, local])}?policy=retention#policy"
        except MagnetarError as error:
            why = explain(error)
    kept, all_known = retention_savings(row.uid, now)
    saved = [_saving(one) for one in outlook.together([*with_subscriptions(outlook.savings(row.uid, now)), *kept])]
    return show(
        request,
        "pages/month_ahead.html",
        navigation(request, "month_ahead", tenant),
        crumbs=crumbs(tenant),
        ahead=_shown(budgets.month_ahead(row.uid, currency, now), currency),
        currency=currency,
        month=now,
        form=form,
        what_if=what_if,
        retention_url=retention_url,
        namespaces=[each.local for each in Namespace.objects.order_by("name")[:NAMESPACES_OFFERED]],
        why=why,
        savings=saved,
        kept_known=all_known,
        days=outlook.DAYS,
    )


def _saving(one: outlook.Saving) -> dict[str, Any]:
    """With the page where it is fixed: `what` is which one, `url` its address."""
    if one.topic.startswith(RECYCLED):
        tenant, namespace, _, local = one.topic.removeprefix(RECYCLED).split("/", 3)
        url = reverse("console:recycle_bin", args=[tenant, namespace])
        return {"saving": one, "cost": _cost(one), "name": f"{namespace}/{local}", "what": "recycle_bin", "url": url}
    name = parse_topic(one.topic)
    place = [name.tenant, name.namespace_local, name.local]
    if one.kind == "retention":
        what, url = "retention", f"{reverse('console:topic_policies', args=place)}?policy=retention#policy"
    elif name.local.endswith(DEAD_LETTERS) and one.kind != "idle_subscription":
        what, url = "dead_letters", f"{reverse('console:dead_letters', args=place[:1])}?{urlencode({'topic': one.topic})}"
    elif len(one.subscriptions) == 1:
        what, url = "subscription", reverse("console:subscription", args=[*place, one.subscriptions[0]])
    elif one.kind == "still":
        what, url = "operations", reverse("console:topic_operations", args=place)
    else:
        what, url = "topic", reverse("console:topic", args=place)
    return {"saving": one, "cost": _cost(one), "name": "/".join(place[1:]), "what": what, "url": url}


def _cost(one: outlook.Saving) -> str:
    return of_language(costs.nano_text(one.nano, one.currency))


def _shown(ahead: Forecast, currency: str) -> dict[str, Any]:
    texts = {name: of_language(costs.nano_text(getattr(ahead, name), currency)) for name in ("so_far", "low", "likely", "high")}
    return {**texts, "days": ahead.days, "known": ahead.known, "bounded": ahead.bounded}


def _what_if(found: outlook.WhatIf) -> dict[str, str]:
    return {
        "currency": found.currency,
        "now": money(money_text(found.now, found.currency)),
        "then": money(money_text(found.then, found.currency)),
        "difference": money(money_text(found.then - found.now, found.currency)),
        "stored_now": quantity_text(found.stored_now, "GiB-month", 2),
        "stored_then": quantity_text(found.stored_then, "GiB-month", 2),
    }
