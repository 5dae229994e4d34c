"""The cost explorer: what the tenants that the user may see have cost, by day or month and by what it is attributed to."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import cost_files, cost_view, evidence_view
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, show, show_error
from admin_ui.translation.texts import gettext
from messaging.permissions.model import Action
from tenants.visible import sees_everything, tenants_for
from workers.billing import costs as sums


@page
def costs(request: ConsoleRequest) -> HttpResponse:
    tenants = tenants_for(request.actor, Action.USAGE_READ)
    query = {key: str(value) for key, value in request.GET.items() if "\x00" not in value and value}
    today = datetime.now(UTC).date()
    asked = cost_view.asked_by(query, tenants, today)
    question = asked.question
    exports = [(form, f"{reverse('console:costs_export')}?{urlencode({**query, 'format': form})}") for form in cost_files.FORMATS]
    everything = not asked.tenant and sees_everything(request.actor)
    offered, are_all = cost_view.choices(tenants, asked.unknown)
    seen = evidence_view.Asked(*evidence_view.days(question.first, question.last), None if everything else question.tenants)
    labels = [(by, gettext("By {by}").format(by=sums.label_title(by))) for by in sums.label_keys(question.tenants)]
    return show(
        request,
        "pages/costs.html",
        navigation(request, "costs"),
        crumbs=[],
        asked=asked,
        question=question,
        offered=offered,
        are_all=are_all,
        today=today,
        levels=[*cost_view.LEVELS, *labels],
        spans=cost_view.SPANS,
        currencies=[one for one in sums.currencies_of(question) if one],
        filters=[(name, getattr(question, name)) for name in cost_view.FILTERS if getattr(question, name)],
        basis=evidence_view.basis_of(seen),
        evidence=evidence_view.evidence_address(first=question.first, last=question.last, tenant=asked.tenant),
        exports=exports,
        savings_tenant=asked.tenant or (offered[0] if are_all and len(offered) == 1 else ""),
        **cost_view.page_of(asked, query),
    )


@page
def costs_export(request: ConsoleRequest) -> HttpResponse:
    """The costs that the page shows, every name and step of them, as CSV or JSON lines."""
    query = {key: str(value) for key, value in request.GET.items() if "\x00" not in value and value}
    form = query.get("format", "csv")
    if form not in cost_files.FORMATS:
        show_error(
            request,
            gettext("Costs are no {form} file: use {formats}.").format(
                form=f"{form[:20]!r}", formats=" or ".join(cost_files.FORMATS)
            ),
        )
        return HttpResponseRedirect(reverse("console:costs"))
    asked = cost_view.asked_by(query, tenants_for(request.actor, Action.USAGE_READ), datetime.now(UTC).date())
    if asked.unknown:
        show_error(request, gettext("You may see the costs of no tenant called {name}.").format(name=asked.unknown))
        return HttpResponseRedirect(reverse("console:costs"))
    question = asked.question
    response = HttpResponse(cost_files.written(question, form), content_type=cost_files.FORMATS[form])
    said = f"costs-by-{question.by}-{question.first:%Y-%m-%d}-{question.last:%Y-%m-%d}-{question.currency}"
    name = re.sub(r"[^a-zA-Z0-9.-]+", "-", said).strip("-")  # a label may be called anything
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    response["Cache-Control"] = "no-store"
    return response
