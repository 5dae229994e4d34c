"""Usage runs: what each read, what it published, and what it left out. Administrators see all of that, others what is of the
tenants that they may see."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings as django_settings
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.urls import reverse

from admin_ui import cost_view, evidence_view
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, show
from admin_ui.row_list import Column, list_rows, page_links
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.permissions.model import Action
from tenants.models import Tenant
from tenants.scoping import platform_scope
from tenants.visible import sees_everything, tenants_for
from workers.billing.costs import Uids
from workers.billing.models import Invoice
from workers.findings.files import files_page
from workers.findings.load import FINDINGS_MAX
from workers.findings.models import UsageFinding
from workers.models import UsageRun

HOURS_SHOWN = 200
RUN_COLUMNS = (
    Column("newest", order=("requested_at",), down=True),
    Column("run", gettext_lazy("Run"), ("run_id",)),
    Column("outcome", gettext_lazy("Outcome"), ("outcome",)),
    Column("requested", gettext_lazy("Requested"), ("requested_at",), down=True),
    Column("hours", gettext_lazy("Hours"), ("hours",), down=True, look="number"),
    Column("rows", gettext_lazy("Rows"), ("rows",), down=True, look="number"),
    Column("quarantined", gettext_lazy("Quarantined"), ("quarantined",), down=True, look="number"),
    Column("left_out", gettext_lazy("Files left out"), ("rejected_files",), down=True, look="number"),
    Column("holes", gettext_lazy("Holes"), ("holes",), down=True, look="number"),
)
Kind = UsageFinding.Kind


@page
def usage_runs(request: ConsoleRequest) -> HttpResponse:
    runs = UsageRun.objects.exclude(outcome=UsageRun.Outcome.SKIPPED).defer("detail")
    listed = list_rows(request.GET, runs, RUN_COLUMNS, searched=("run_id", "outcome"))
    above = [(gettext("Usage"), reverse("console:usage"))]
    return show(request, "pages/usage_runs.html", navigation(request, "usage"), crumbs=above, listed=listed)


@page
def usage_run(request: ConsoleRequest, run: str) -> HttpResponse:
    found = UsageRun.objects.filter(run_id=run).first()
    if found is None:
        raise Http404
    everything = sees_everything(request.actor)
    uids = None if everything else _uids(tenants_for(request.actor, Action.USAGE_READ))
    detail = found.detail if everything else {}
    above = [(gettext("Usage"), reverse("console:usage"))] + (
        [(gettext("Runs"), reverse("console:usage_runs"))] if everything else []
    )
    asked = {name: request.GET.get(name, "1") for name in ("files", "records", "holes")}
    files = files_page(django_settings.MAGNETAR, found, asked["files"])
    records = evidence_view.findings_page(found, [Kind.QUARANTINED], uids, asked["records"])
    holes = evidence_view.findings_page(found, [Kind.HOLE, Kind.OUTAGE], uids, asked["holes"])
    pages = {
        "files": page_links(request.GET, "files", files.number, files.pages),
        "records": page_links(request.GET, "records", records.number, records.paginator.num_pages),
        "holes": page_links(request.GET, "holes", holes.number, holes.paginator.num_pages),
    }
    return show(
        request,
        "pages/usage_run.html",
        navigation(request, "usage"),
        crumbs=above,
        run=found,
        facts=[
            (title, f"{detail[key]:,}" if isinstance(detail[key], int) else detail[key])
            for title, key in (
                (gettext("Of these files read by this run"), "files_read"), (gettext("Records read by this run"), "rows_read"),
                (gettext("Duplicates"), "duplicates"),
                (gettext("Spark"), "spark"), (gettext("Java"), "java"),
            )
            if key in detail
        ],
        everything=everything,
        files=files,
        records=records,
        more_records=found.quarantined > FINDINGS_MAX,
        records_max=FINDINGS_MAX,
        holes=holes,
        pages=pages,
        rejected=sorted(detail.get("rejected_files", {}).items()),
        hours=found.partitions.order_by("-hour")[:HOURS_SHOWN],
    )  # fmt: skip


@page
def usage_evidence(request: ConsoleRequest) -> HttpResponse:
    """What figures of a span of days, or an invoice, are based on."""
    tenants = tenants_for(request.actor, Action.USAGE_READ)
    query = {key: str(value) for key, value in request.GET.items() if "\x00" not in value and value}
    chosen = tenants.filter(name=query.get("tenant", ""))
    tenant = chosen.values_list("name", flat=True).first() or ""
    everything = not tenant and sees_everything(request.actor)
    asked, of = _asked_by(query, _uids(chosen if tenant else tenants), everything=everything)
    return show(
        request,
        "pages/usage_evidence.html",
        navigation(request, "usage"),
        crumbs=[(gettext("Costs"), reverse("console:costs"))],
        of=of,
        tenant=tenant,
        basis=evidence_view.basis_of(asked),
        runs=evidence_view.runs_of(asked),
        runs_max=evidence_view.RUNS_SHOWN,
        outages=evidence_view.outages_of(asked),
    )


def _uids(tenants: QuerySet[Tenant]) -> Uids:
    return tenants.values_list("uid", flat=True)


def _asked_by(query: dict[str, str], uids: Uids, *, everything: bool) -> tuple[evidence_view.Asked, str]:
    if query.get("invoice"):
        with platform_scope():
            invoice = Invoice.objects.filter(id=query["invoice"], tenant_uid__in=uids).first()
        if invoice is None:
            raise Http404
        text = gettext("{kind} {number} of {tenant}")
        kind, number = said(invoice.get_kind_display()), invoice.number or gettext("draft")
        return evidence_view.invoice_asked(invoice), text.format(kind=kind, number=number, tenant=invoice.tenant)
    first, last = cost_view.days_of(query, "" if query.get("first") else "this-month", datetime.now(UTC).date())
    start, end = evidence_view.days(first, last)
    return evidence_view.Asked(start, end, None if everything else uids), gettext("{first} to {last} (UTC)").format(
        first=first, last=last
    )
