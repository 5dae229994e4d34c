"""Invoices of a tenant: the list, one with its lines, a line down to hours and runs, and files to keep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse

from admin_ui import evidence_view
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import crumbs, navigation, show, show_error
from admin_ui.row_list import Column, list_rows
from admin_ui.translation.figures import money
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.errors import MagnetarError, NotFound
from messaging.permissions.model import Action, Resource
from workers.billing import draft_runs, usage
from workers.billing.drilldown import usage_of_line
from workers.billing.html import invoice_html
from workers.billing.models import Invoice
from workers.billing.pdf import invoice_pdf
from workers.billing.present import present
from workers.billing.unit_texts import quantity_text
from workers.rating.money import money_text
from workers.translation.of_tenants import told_in

INVOICE_COLUMNS = (
    Column("month", gettext_lazy("Month (UTC)"), ("start", "made_at"), down=True),
    Column("number", gettext_lazy("Number"), ("number",), down=True),
    Column("kind", gettext_lazy("Kind"), ("kind", "start")),
    Column("state", gettext_lazy("State"), ("state", "start")),
    Column("made", gettext_lazy("Made"), ("made_at",), down=True),
    Column("total", gettext_lazy("Total"), ("total_minor",), down=True, look="number"),
)


@page
def invoices(request: ConsoleRequest, tenant: str) -> HttpResponse:
    listed = list_rows(request.GET, Invoice.objects.defer("document"), INVOICE_COLUMNS, searched=("number", "kind", "state"))
    shown = [
        {"row": row, "total": money(money_text(row.total_minor, row.currency)), "kind": said(row.get_kind_display())}
        for row in listed.rows
    ]
    run = draft_runs.newest_run()
    return show(
        request,
        "pages/invoices.html",
        navigation(request, "invoices", tenant),
        crumbs=crumbs(tenant),
        invoices=shown,
        listed=listed,
        may_compute=request.actor.may(Action.BILLING_ADMIN, Resource(tenant)),
        under_way=draft_runs.is_under_way(run),
        drafts_done=run.progress.get("drafts") if run is not None else None,
        computed_at=run.finished_at if run is not None else None,
        usage_until=usage.computed_until(),
    )


@page
def invoices_compute(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """Has drafts computed now."""
    try:
        draft_runs.compute_drafts(request.actor, tenant)
    except MagnetarError as error:
        show_error(request, error)
    return HttpResponseRedirect(reverse("console:invoices", args=[tenant]))


@page
def invoice(request: ConsoleRequest, tenant: str, invoice: str) -> HttpResponse:
    found = _existing(invoice)
    line = request.GET.get("line", "")
    return show(
        request,
        "pages/invoice.html",
        navigation(request, "invoices", tenant),
        crumbs=crumbs(tenant, "", (gettext("Invoices"), reverse("console:invoices", args=[tenant]))),
        row=found,
        shown=present(found.document),
        currency=found.currency,
        segments=found.document["segments"],
        last_day=found.end - timedelta(hours=1),
        missing=len(found.document["hours_missing"]),
        notes=list(found.credit_notes.all()),
        line=line,
        down=_down(found, line) if line else None,
        basis=evidence_view.basis_of(evidence_view.invoice_asked(found)),
        evidence=evidence_view.evidence_address(tenant=tenant, invoice=found.id),
    )


@page
def invoice_json(request: ConsoleRequest, tenant: str, invoice: str) -> HttpResponse:
    found = _existing(invoice)
    return _attachment(JsonResponse(found.document, json_dumps_params={"indent": 1}), found, "json")


@page
def invoice_as_pdf(request: ConsoleRequest, tenant: str, invoice: str) -> HttpResponse:
    found = _existing(invoice)
    with told_in(settings.MAGNETAR, found.tenant_uid):  # a document of the tenant: the same for whoever downloads it
        document = invoice_pdf(found.document)
    return _attachment(HttpResponse(document, content_type="application/pdf"), found, "pdf")


@page
def invoice_as_html(request: ConsoleRequest, tenant: str, invoice: str) -> HttpResponse:
    found = _existing(invoice)
    with told_in(settings.MAGNETAR, found.tenant_uid):
        document = invoice_html(found.document)
    return _attachment(HttpResponse(document, content_type="text/html; charset=utf-8"), found, "html")


def _existing(invoice_id: str) -> Invoice:
    """Of the tenant in scope."""
    found = Invoice.objects.filter(id=invoice_id).first()
    if found is None:
        raise Http404
    return found


def _attachment(response: HttpResponse, invoice: Invoice, suffix: str) -> HttpResponse:
    name = invoice.number or f"draft-{invoice.start:%Y-%m}"
    response["Content-Disposition"] = f'attachment; filename="{name}.{suffix}"'
    response["Cache-Control"] = "no-store"
    return response


def _down(invoice: Invoice, line: str) -> dict[str, Any]:
    try:
        found = usage_of_line(invoice, line)
    except NotFound:
        raise Http404 from None
    unit = next((one.get("unit", "") for one in invoice.document["lines"] if one["id"] == line), "")
    return {
        **found,
        "topics": [
            {**one, "quantity": quantity_text(one["quantity"], unit), "amount": money(one["amount"])} for one in found["topics"]
        ],
        "hours": [{**one, "quantity": quantity_text(one["quantity"], unit)} for one in found["hours"]],
    }
