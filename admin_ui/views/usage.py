"""Hourly usage of the tenants that the user may see."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import cast
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext

from admin_ui import usage_view
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, show, show_error
from messaging.errors import MagnetarError, NotAuthorized
from messaging.permissions.model import Action
from tenants.http.authentication import actor_now
from tenants.http.piecewise import PiecewiseResponse
from tenants.visible import tenants_for
from workers.billing.usage_lines import DAYS_MAX, FORMATS, LEVELS, usage_lines
from workers.models import UsageRun
from workers.requests import request_usage_run


@page
def usage(request: ConsoleRequest) -> HttpResponse:
    now = datetime.now(UTC)
    day = _day(request.GET.get("day", ""), now.date())
    number = _number(request.GET.get("page", ""))
    level = request.GET.get("by", "")
    if level not in dict(usage_view.LEVELS):
        level = "namespace"
    tenants = tenants_for(request.actor, Action.USAGE_READ)
    marks = usage_view.hour_marks(day, now)
    missing = sum(mark.state == "missing" for mark in marks)
    outcomes = UsageRun.Outcome
    rows, further = usage_view.rows_of(day, level, tenants, number)
    last = usage_view.newest_run(*(one for one in outcomes.values if one != outcomes.SKIPPED))
    return show(
        request,
        "pages/usage.html",
        navigation(request, "usage"),
        crumbs=[],
        day=day,
        today=now.date(),
        level=level,
        first_of_month=day.replace(day=1),
        levels=usage_view.LEVELS,
        level_label=level.capitalize(),
        level_title=dict(usage_view.LEVELS)[level],
        rows=rows,
        links=usage_view.links(request.GET, number, further),
        hours=marks,
        hours_text=gettext("{missing} missing").format(missing=missing) if missing else gettext("none missing"),
        run=usage_view.newest_run(outcomes.SUCCEEDED),
        problem=usage_view.problem_of(last, detailed=request.actor.may(Action.SUPERUSER)),
        under_way=last is not None and last.outcome in (outcomes.REQUESTED, outcomes.RUNNING),
        empty_text=gettext(
            "Either there was no traffic on this day, or its usage has not been computed yet. Brokers record usage every minute "
            "and a Spark job aggregates it once an hour."
        ),
    )


@page
def usage_export(request: ConsoleRequest) -> HttpResponse:
    """Usage of each day of the tenants that the user may see, from `first` to `last`, as CSV or JSON lines."""
    today = datetime.now(UTC).date()
    form, level = request.GET.get("format", "csv"), request.GET.get("by", "namespace")
    last = _day(request.GET.get("last", ""), today)
    first = _day(request.GET.get("first", ""), last.replace(day=1))
    if form not in FORMATS or level not in LEVELS or not 0 <= (last - first).days < DAYS_MAX:
        show_error(request, gettext("Choose days in order, at most {days} of them.").format(days=DAYS_MAX))
        return HttpResponseRedirect(reverse("console:usage"))
    tenants = dict(tenants_for(request.actor, Action.USAGE_READ).values_list("name", "uid"))

    def require_still() -> None:
        if set(tenants) - set(tenants_for(actor_now(request), Action.USAGE_READ).values_list("name", flat=True)):
            raise NotAuthorized(gettext("you may no longer see the usage of all these tenants: download it again"))

    response = PiecewiseResponse(usage_lines(tenants, first, last, level, form), require_still, FORMATS[form])
    response["Content-Disposition"] = f'attachment; filename="usage-by-{level}-{first}-{last}.{form}"'
    response["Cache-Control"] = "no-store"
    return cast(HttpResponse, response)  # pages are whole answers; this one is sent as it is read


@page
def usage_compute(request: ConsoleRequest) -> HttpResponse:
    """Asks the worker for a run now, and shows the same sums and day as before."""
    try:
        request_usage_run(request.actor.principal.role)
    except MagnetarError as error:
        show_error(request, error)
    level, day = request.POST.get("by", ""), _day(request.POST.get("day", ""), datetime.now(UTC).date())
    kept = {"day": day.isoformat(), **({"by": level} if level in dict(usage_view.LEVELS) else {})}
    return HttpResponseRedirect(f"{reverse('console:usage')}?{urlencode(kept)}")


def _number(text: str) -> int:
    """Of a page, from 1 on."""
    return max(1, min(int(text), usage_view.PAGES_MAX)) if text.isascii() and text.isdecimal() and len(text) < 7 else 1


def _day(text: str, otherwise: date) -> date:
    """Not after today."""
    try:
        return min(date.fromisoformat(text), datetime.now(UTC).date())
    except ValueError:
        return otherwise
