"""Reports of a tenant: on which schedule, and those that were made."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings as django_settings
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.billing_forms import ReportForm, addresses
from admin_ui.pages import add_error, crumbs, navigation, show, show_message
from admin_ui.row_list import Column, list_rows
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.errors import MagnetarError, NotFound
from workers.alerts.notices import mails_refused
from workers.billing import budget_actions
from workers.billing.budget_models import Report, ReportSchedule
from workers.billing.reports import KINDS, folder_of
from workers.former_members import former_of

REPORT_COLUMNS = (
    Column("newest", order=("made_at",), down=True),
    Column("name", gettext_lazy("Report"), ("name",)),
    Column("days", gettext_lazy("Days (UTC)"), ("first", "last"), down=True),
    Column("made", gettext_lazy("Made"), ("made_at",), down=True),
    Column("runs", gettext_lazy("Usage runs")),
    Column("mail", gettext_lazy("Mail")),
    Column("files", gettext_lazy("Files")),
)


@page
def report_list(request: ConsoleRequest, tenant: str) -> HttpResponse:
    form = ReportForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            budget_actions.create_schedule(
                request.actor, tenant, given["name"], given["every"], given["by"], addresses(given["emails"])
            )
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(
                request, gettext("Report {name} is made as soon as the usage of its days is computed.").format(name=given["name"])
            )
            return HttpResponseRedirect(reverse("console:reports", args=[tenant]))
    schedules = list(ReportSchedule.objects.all())
    return show(
        request,
        "pages/reports.html",
        navigation(request, "reports", tenant),
        crumbs=crumbs(tenant),
        schedules=schedules,
        former_mail=former_of(tenant, (address for one in schedules for address in one.emails)),
        listed=list_rows(request.GET, Report.objects.all(), REPORT_COLUMNS, searched=("name", "by")),
        kept_days=django_settings.MAGNETAR.reports_kept_days,
        mails_refused=mails_refused(datetime.now(UTC)),
        form=form,
    )


@page
def report_delete(request: ConsoleRequest, tenant: str, schedule: str) -> HttpResponse:
    if request.method == "GET":  # an address that was copied
        return HttpResponseRedirect(reverse("console:reports", args=[tenant]))
    try:
        budget_actions.delete_schedule(request.actor, tenant, schedule)
    except NotFound:
        raise Http404 from None
    return HttpResponseRedirect(reverse("console:reports", args=[tenant]))


@page
def report_file(request: ConsoleRequest, tenant: str, report: str, name: str) -> HttpResponse:
    """A file of a report of this tenant; its names are those that the report lists."""
    found = Report.objects.filter(id=report).first()
    if found is None or name not in {one["name"] for one in found.files}:
        raise Http404
    path = folder_of(django_settings.MAGNETAR, found.pk) / name
    if not path.exists():
        raise Http404
    kind = KINDS[name.rpartition(".")[2]]
    response = HttpResponse(path.read_bytes(), content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="{found.first}-{name}"'
    response["Cache-Control"] = "no-store"
    return response
