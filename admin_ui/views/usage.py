"""Hourly usage of the tenants that the user may see."""

from __future__ import annotations

from datetime import UTC, date, datetime

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import usage_view
from admin_ui.access import ConsoleRequest, page, usage_tenants
from admin_ui.pages import explain, navigation, show, show_error
from messaging.errors import MagnetarError
from messaging.permissions.model import Action
from workers.models import UsageRun
from workers.requests import request_usage_run


@page
def usage(request: ConsoleRequest) -> HttpResponse:
    now = datetime.now(UTC)
    day = _day(request.GET.get("day", ""), now.date())
    level = request.GET.get("by", "")
    if level not in dict(usage_view.LEVELS):
        level = "namespace"
    tenants = usage_tenants(request.actor, request.user)
    marks = usage_view.hour_marks(day, now)
    missing = sum(mark.state == "missing" for mark in marks)
    outcomes = UsageRun.Outcome
    last = usage_view.newest_run(*(one for one in outcomes.values if one != outcomes.SKIPPED))
    return show(
        request,
        "pages/usage.html",
        navigation(request, "usage"),
        crumbs=[],
        day=day,
        today=now.date(),
        level=level,
        levels=usage_view.LEVELS,
        level_label=level.capitalize(),
        level_title=dict(usage_view.LEVELS)[level],
        rows=usage_view.rows_of(day, level, tenants),
        rows_max=usage_view.ROWS_MAX,
        hours=marks,
        hours_text=f"{missing} missing" if missing else "none missing",
        run=usage_view.newest_run(outcomes.SUCCEEDED),
        problem=usage_view.problem_of(last, detailed=request.actor.may(Action.SUPERUSER)),
        under_way=last is not None and last.outcome in (outcomes.REQUESTED, outcomes.RUNNING),
        empty_text=(
            "Either there was no traffic on this day, or its usage has not been computed yet. Brokers record usage every minute "
            "and a Spark job aggregates it once an hour."
        ),
    )


@page
def usage_compute(request: ConsoleRequest) -> HttpResponse:
    """Asks the worker for a run now."""
    try:
        request_usage_run(request.actor.principal.role)
    except MagnetarError as error:
        show_error(request, explain(error))
    return HttpResponseRedirect(reverse("console:usage"))


def _day(text: str, today: date) -> date:
    try:
        return min(date.fromisoformat(text), today)
    except ValueError:
        return today
