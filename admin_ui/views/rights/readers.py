"""Who may read messages of a tenant, a namespace or a topic, and who did; to be looked at, or taken along as CSV or JSON."""

from __future__ import annotations

import msgspec
from django import forms
from django.http import HttpResponse

from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import add_error, crumbs, navigation, show
from messaging.errors import MagnetarError
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.explanations import resource_of
from tenants.models import Namespace
from tenants.readers import DAYS_MAX, ReadersReport, as_csv
from tenants.readers import readers as report_of

OFFERED_MAX = 200
DAYS = 30


class ReadersForm(forms.Form):
    namespace = forms.CharField(
        label="Namespace", required=False, max_length=NAME_LENGTH_MAX, widget=forms.TextInput(attrs={"list": "namespaces"})
    )
    topic = forms.CharField(label="Topic", required=False, max_length=NAME_LENGTH_MAX)
    days = forms.IntegerField(label="Days", required=False, min_value=1, max_value=DAYS_MAX)


@page
def readers(request: ConsoleRequest, tenant: str) -> HttpResponse:
    form = ReadersForm(request.GET)
    report: ReadersReport | None = None
    if form.is_valid():
        asked = {name: form.cleaned_data[name] for name in ("namespace", "topic")}
        try:
            report = report_of(tenant, resource_of(tenant, asked), form.cleaned_data["days"] or DAYS)
        except MagnetarError as error:
            add_error(request, form, error)
    form_asked = request.GET.get("as", "")
    if report is not None and form_asked in ("csv", "json"):
        return _file(report, tenant, form_asked)
    parameters = request.GET.copy()
    parameters.pop("as", None)
    return show(
        request,
        "pages/readers.html",
        navigation(request, "readers", tenant),
        crumbs=crumbs(tenant),
        form=form,
        report=report,
        also=parameters.urlencode(),
        days=DAYS,
        namespaces=[row.local for row in Namespace.objects.order_by("name")[:OFFERED_MAX]],
    )


def _file(report: ReadersReport, tenant: str, form: str) -> HttpResponse:
    if form == "csv":
        response = HttpResponse(as_csv(report), content_type="text/csv; charset=utf-8")
    else:
        response = HttpResponse(msgspec.json.encode(report), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="readers-{tenant}.{form}"'
    response["Cache-Control"] = "no-store"
    response["X-Content-Type-Options"] = "nosniff"
    return response
