"""What workers run: the schedule, what runs now, what ran, and what was quarantined."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import navigation, show, show_error, show_message
from admin_ui.row_list import Column, list_rows
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext_lazy
from messaging.errors import MagnetarError
from workers.history import DECISIONS, decide, overview
from workers.models import TaskRun
from workers.schedule import BY_NAME

SHOWN_MAX = 100
RUN_COLUMNS = (
    Column("newest", order=("started_at",), down=True),
    Column("task", gettext_lazy("Task"), ("name",)),
    Column("started", gettext_lazy("Started"), ("started_at",), down=True),
    Column(
        "took", gettext_lazy("Took"), (Coalesce(F("finished_at") - F("started_at"), timedelta()).asc(),), down=True, look="number"
    ),
    Column("outcome", gettext_lazy("Outcome"), ("outcome",)),
    Column("did", gettext_lazy("What it did")),
)
Outcome = TaskRun.Outcome
_LOOKS: dict[str, str] = {
    Outcome.SUCCEEDED.value: "badge-good",
    Outcome.FAILED.value: "badge-bad",
    Outcome.QUARANTINED.value: "badge-bad",
    Outcome.RETRYING.value: "badge-warn",
}
_DONE = {"requeue": gettext_lazy("The task was requeued."), "discard": gettext_lazy("The task was discarded.")}


def _look(request: ConsoleRequest) -> dict[str, Any]:
    task, outcome = request.GET.get("task", ""), request.GET.get("outcome", "")
    runs = TaskRun.objects.exclude(outcome=Outcome.RUNNING)
    if task in BY_NAME:
        runs = runs.filter(name=task)
    if outcome in Outcome.values:
        runs = runs.filter(outcome=outcome)
    listed = list_rows(request.GET, runs, RUN_COLUMNS, searched=("name", "task_id", "requested_by"))
    return {
        "tasks": [_scheduled(one) for one in overview()],
        "task": task if task in BY_NAME else "",
        "outcome": outcome if outcome in Outcome.values else "",
        "outcomes": [(value, said(label)) for value, label in Outcome.choices],
        "waiting": [_shown(run) for run in TaskRun.objects.filter(outcome=Outcome.QUARANTINED)[:SHOWN_MAX]],
        "running": [_shown(run) for run in TaskRun.objects.filter(outcome=Outcome.RUNNING)[:SHOWN_MAX]],
        "listed": listed,
        "runs": [_shown(run) for run in listed.rows],
        "asked": request.GET.urlencode(),
    }


def _scheduled(task: dict[str, Any]) -> dict[str, Any]:
    outcome = task["last_outcome"]
    label = said(Outcome(outcome).label) if outcome else ""
    return {**task, "title": said(task["title"]), "look": _LOOKS.get(outcome, ""), "last_outcome": label}


def _shown(run: TaskRun) -> dict[str, Any]:
    entry = BY_NAME.get(run.name)
    return {
        "id": run.task_id,
        "title": said(entry.title) if entry else run.name,
        "arguments": " ".join(run.arguments.values()),
        "by": run.requested_by or "schedule",
        "outcome": said(run.get_outcome_display()),
        "look": _LOOKS.get(run.outcome, ""),
        "attempts": run.attempts,
        "started_at": run.started_at,
        "next_try_at": run.next_try_at,
        "took_s": (run.finished_at - run.started_at).total_seconds() if run.finished_at else None,
        "progress": _words(run.progress),
        "did": _words(run.summary),
    }


def _words(values: dict[str, Any]) -> str:
    """Counts that are not 0, and texts."""
    return ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in values.items() if value)


@page
def tasks(request: ConsoleRequest) -> HttpResponse:
    return show(request, "pages/tasks.html", navigation(request, "tasks"), **_look(request))


@page
def tasks_fragment(request: ConsoleRequest) -> HttpResponse:
    """The part of the page that is refreshed every three seconds."""
    return show(request, "parts/task_runs.html", **_look(request))


@page
def task_decide(request: ConsoleRequest, run_id: str) -> HttpResponse:
    decision = request.POST.get("decision", "")
    if decision not in DECISIONS:
        raise Http404
    try:
        decide(request.actor, run_id, decision)
        show_message(request, _DONE[decision])
    except MagnetarError as error:
        show_error(request, error)
    return HttpResponseRedirect(reverse("console:tasks"))
