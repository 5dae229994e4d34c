"""The state of the platform, from the broker, the supervisor and the worker, including what is unknown."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings as django_settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext
from admin_ui.worker_away import last_begun, quiet
from messaging.adminrpc.status import BrokerStatus
from messaging.settings import Settings
from workers.models import TaskRun
from workers.schedule import TASKS

_LOOKS = {
    "ready": "badge-good",
    "starting": "badge-warn",
    "backing-off": "badge-bad",
    "stopping": "badge-warn",
    "failed": "badge-bad",
}


@dataclass(frozen=True)
class ChildRow:
    name: str
    state: str
    look: str
    pid: int | None
    restarts: int
    last_exit: str
    since: datetime | None
    exits: tuple[datetime, ...] = ()  # when it ended unexpectedly, the last times


@dataclass(frozen=True)
class BrokerRow:
    """One of several brokers. `status` None: it is not responding, as `away` says."""

    broker_id: str
    broker_url: str
    status: BrokerStatus | None
    away: str


@dataclass(frozen=True)
class WorkerRow:
    word: str
    look: str
    detail: str
    at: datetime | None
    is_quiet: bool = False  # it has run nothing for too long


def process_of(broker_id: str) -> str:
    """The name of its process on this machine: of the first of several brokers, or of the only one, it has no number. "": it is of
    another machine."""
    settings: Settings = django_settings.MAGNETAR
    if broker_id == settings.broker_id:
        return "broker"
    base, _, number = broker_id.rpartition("-")
    return f"broker-{number}" if number.isdecimal() and base == settings.broker_id.removesuffix("-1") else ""


def children(silent: Collection[str]) -> tuple[list[ChildRow], str]:
    """The processes of run/supervisor.json, or why there are none; `silent`: those that do not answer. The supervisor knows that a
    process became ready, not that it still responds."""
    settings: Settings = django_settings.MAGNETAR
    try:
        found = json.loads((settings.data_path / "run" / "supervisor.json").read_bytes())
        rows = [_child(one) for one in found["children"]]
        return [_silent(row) if row.name in silent else row for row in rows], ""
    except FileNotFoundError:
        return [], gettext("No supervisor is running: the processes were started individually, so their state is unknown.")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [], gettext("run/supervisor.json cannot be read ({error}).").format(error=type(error).__name__)


def _silent(row: ChildRow) -> ChildRow:
    return replace(row, state=gettext("not responding"), look="badge-bad") if row.state == "ready" else row


def _child(one: dict[str, Any]) -> ChildRow:
    state, code = str(one["state"]), one.get("last_exit")
    last_exit = "" if code is None else f"signal {-code}" if code < 0 else f"code {code}"
    return ChildRow(
        one["name"],
        state,
        _LOOKS.get(state, ""),
        one.get("pid"),
        one.get("restarts", 0),
        last_exit,
        parse_datetime(str(one.get("since") or "")),
        tuple(at for text in one.get("exits", ()) if (at := parse_datetime(str(text))) is not None),
    )


def worker() -> WorkerRow:
    """Judged by the newest task run: a worker that is alive but runs nothing is not working."""
    run = last_begun()
    if run is None:
        return WorkerRow(
            gettext("No runs yet"),
            "badge-warn",
            gettext("No task has run yet. The first one starts within a minute of the worker's start."),
            None,
        )
    title = {task.name: said(task.title) for task in TASKS}.get(run.name, run.name)
    if timezone.now() - run.started_at > quiet():
        return WorkerRow(
            gettext("Not running tasks"),
            "badge-bad",
            gettext("The last task was “{title}”,").format(title=title),
            run.started_at,
            is_quiet=True,
        )
    look = "badge-bad" if run.outcome == TaskRun.Outcome.FAILED else "badge-good"
    return WorkerRow(
        gettext("Working"),
        look,
        gettext("The last task was “{title}” ({outcome}),").format(title=title, outcome=run.outcome),
        run.started_at,
    )
