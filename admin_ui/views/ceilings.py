"""Ceilings of a tenant: what is used of each, and setting them."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseRedirect

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.pages import crumbs, explain, navigation, show, show_message
from admin_ui.policy_forms import policy_field, unit_text
from messaging.errors import MagnetarError
from messaging.policies.ceilings import CEILINGS, THRESHOLDS, Ceiling
from messaging.policies.model import Level
from tenants.actions.ceilings import set_ceilings, tenant_ceilings
from tenants.models import Tenant

_LOOKS = {0: "", 80: "warn", 95: "warn", 100: "bad"}


class CeilingsForm(forms.Form):
    """One field for each; empty: not set on the tenant. `former`: what is set there."""

    def __init__(self, data: Any, *, former: dict[str, Any]) -> None:
        super().__init__(data, initial=former)
        self.former = former
        for name, policy in CEILINGS.items():
            field = policy_field(policy)
            if field is not None:
                self.fields[name] = field

    def rows(self) -> list[dict[str, object]]:
        return [{"field": self[name], "unit": unit_text(CEILINGS[name])} for name in self.fields]

    def changes(self) -> dict[str, Any]:
        """What differs from what is set; None for what is to be unset."""
        given = {name: value for name, value in self.cleaned_data.items() if name in CEILINGS}
        return {name: value for name, value in given.items() if value != self.former.get(name)}


@page
def ceilings(request: ConsoleRequest, tenant: str) -> HttpResponse:
    row = Tenant.objects.get()
    nav = navigation(request, "ceilings", tenant)
    former = {name: value for name, value in row.policies.items() if name in CEILINGS}
    form = None
    if nav.superuser:
        given = request.GET if followed(request) else request.POST or None
        form = CeilingsForm(given, former=former)
        if followed(request):
            form.is_valid()
            return show_calls(request, [api_calls.set_ceilings(tenant, form.changes())])
        if request.method == "POST" and form.is_valid():
            try:
                if form.changes():
                    set_ceilings(request.actor, tenant, form.changes())
            except MagnetarError as error:
                form.add_error(None, explain(error))
            else:
                show_message(request, "The ceilings were saved and are now in effect.")
                return HttpResponseRedirect(request.path)
    return show(
        request,
        "pages/ceilings.html",
        nav,
        crumbs=crumbs(tenant),
        ceilings=[_shown(ceiling) for ceiling in tenant_ceilings(row)],
        thresholds=THRESHOLDS,
        form=form,
        calls=calls_of(request, [api_calls.set_ceilings(tenant, {})]) if form else (),
    )


def _shown(ceiling: Ceiling) -> dict[str, object]:
    return {
        "ceiling": ceiling,
        "title": ceiling.policy.title,
        "meaning": ceiling.policy.meaning,
        "look": _LOOKS[ceiling.threshold],
        "width": min(ceiling.used_percent or 0, 100),
        "of_tenant": ceiling.level is Level.TENANT,
    }
