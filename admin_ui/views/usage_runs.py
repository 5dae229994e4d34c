"""Usage runs for administrators: what each read, what it published, and what it left out."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, show
from workers.models import UsageRun

RUNS_SHOWN, HOURS_SHOWN = 100, 200


@page
def usage_runs(request: ConsoleRequest) -> HttpResponse:
    runs = UsageRun.objects.exclude(outcome=UsageRun.Outcome.SKIPPED).defer("detail")[:RUNS_SHOWN]
    above = [("Usage", reverse("console:usage"))]
    return show(request, "pages/usage_runs.html", navigation(request, "usage"), crumbs=above, runs=runs)


@page
def usage_run(request: ConsoleRequest, run: str) -> HttpResponse:
    found = UsageRun.objects.filter(run_id=run).first()
    if found is None:
        raise Http404
    detail = found.detail
    above = [("Usage", reverse("console:usage")), ("Runs", reverse("console:usage_runs"))]
    return show(
        request,
        "pages/usage_run.html",
        navigation(request, "usage"),
        crumbs=above,
        run=found,
        facts=[
            (title, detail[key])
            for title, key in (
                ("Files read", "files_read"), ("Records read", "rows_read"), ("Duplicates", "duplicates"), ("Spark", "spark"),
                ("Java", "java"),
            )
            if key in detail
        ],
        quarantined=sorted(detail.get("quarantined", {}).items()),
        rejected=sorted(detail.get("rejected_files", {}).items()),
        holes=detail.get("holes", []),
        hours=found.partitions.order_by("-hour")[:HOURS_SHOWN],
    )  # fmt: skip
