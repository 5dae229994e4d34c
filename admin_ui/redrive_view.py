"""Redrives as pages show them, and what people decide of them: on the page of a topic, of a job, and of all dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import QueryDict

from admin_ui.access import ConsoleRequest
from admin_ui.addresses import short_name
from admin_ui.pages import show_error, show_message
from admin_ui.row_list import Column, RowList, list_rows
from admin_ui.translation.figures import exact
from admin_ui.translation.texts import gettext_lazy, ngettext
from messaging.errors import MagnetarError
from messaging.permissions.model import Action
from messaging.protocol.names import parse_topic
from tenants.access import Actor, require
from tenants.actions.topics import topic_resource
from workers.redrive import actions
from workers.redrive.models import RedriveJob

State = RedriveJob.State
STATES: Mapping[str, tuple[str, str]] = {  # what is shown, and the style of the badge
    State.RUNNING: (gettext_lazy("Running"), ""),
    State.PAUSED: (gettext_lazy("Paused"), "badge-warn"),
    State.DONE: (gettext_lazy("Done"), "badge-good"),
    State.CANCELLED: (gettext_lazy("Cancelled"), ""),
    State.FAILED: (gettext_lazy("Failed"), "badge-bad"),
}
# What each decision is taken of where all are meant, and what is said then.
DECISIONS: Mapping[str, tuple[tuple[str, ...], Callable[[int], str]]] = {
    "pause": (
        (State.RUNNING,),
        lambda count: ngettext("{count} redrive was paused.", "{count} redrives were paused.", count),
    ),
    "resume": (
        (State.PAUSED,),
        lambda count: ngettext("{count} redrive was resumed.", "{count} redrives were resumed.", count),
    ),
    "cancel": (
        (State.RUNNING, State.PAUSED),
        lambda count: ngettext("{count} redrive was cancelled.", "{count} redrives were cancelled.", count),
    ),
}
FILTERS: Mapping[str, str] = {
    "topic": gettext_lazy("in"),
    "reason": gettext_lazy("reason"),
    "origin_topic": gettext_lazy("from"),
    "origin_subscription": gettext_lazy("subscription"),
    "producer": gettext_lazy("sent here by producer"),
    "key": gettext_lazy("key"),
    "property_name": gettext_lazy("property"),
    "property_value": gettext_lazy("with value"),
    "from_ms": gettext_lazy("since"),
    "until_ms": gettext_lazy("until"),
    "redriven_max": gettext_lazy("redriven at most"),
    "positions": gettext_lazy("chosen"),
}
MOMENTS = ("from_ms", "until_ms")
_NEWEST = Column("newest", order=("created_at",), down=True)
_STARTED = Column("started", gettext_lazy("Started"), ("created_at",), down=True)
_BY = Column("by", gettext_lazy("By"), ("requested_by",))
_COLUMNS = (
    Column("to", gettext_lazy("To"), ("target",)),
    Column("state", gettext_lazy("State"), ("state",)),
    Column("moved", gettext_lazy("Moved"), ("moved",), down=True, look="number"),
    Column("stay", gettext_lazy("Stay"), ("left",), down=True, look="number"),
    Column("looked_at", gettext_lazy("Looked at"), ("looked_at",), down=True, look="number"),
)
_OF_A_TOPIC = (_STARTED, *_COLUMNS, _BY)
_OF_A_TENANT = (_NEWEST, Column("of", gettext_lazy("Of"), ("topic",)), *_COLUMNS, _STARTED, _BY)
JOBS = "jobs-"  # before the parameters of the list: there are others on the same page


def jobs_listed(query: QueryDict, jobs: QuerySet[RedriveJob], actor: Actor, *, of_tenant: bool) -> dict[str, Any]:
    """What `parts/redrive_jobs.html` takes."""
    searched = ("topic", "target", "requested_by", "state", "id") if of_tenant else ("target", "requested_by", "state", "id")
    listed: RowList[RedriveJob] = list_rows(query, jobs, _OF_A_TENANT if of_tenant else _OF_A_TOPIC, searched=searched, name=JOBS)
    return {"jobs": [shown_job(job, actor) for job in listed.rows], "jobs_listed": listed, "of_tenant": of_tenant}


def shown_job(job: RedriveJob, actor: Actor) -> dict[str, Any]:
    wanted = actions.filter_for(actor, job)
    name = parse_topic(job.topic)
    state, look = STATES.get(job.state, (job.state, ""))
    return {
        "id": job.id,
        "topic": job.topic,
        "where": (name.tenant, name.namespace_local, short_name(job.topic)),
        "target": job.target,
        "edited": job.edit is not None,
        "subscription": job.subscription,
        "state": state,
        "look": look,
        "moved": job.moved,
        "left": job.left,
        "looked_at": job.looked_at,
        "rate": job.rate,
        "by": job.requested_by,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
        "error": job.error,
        "filter": [_condition(name, value) for name, value in wanted.items() if value],
        "running": job.state == State.RUNNING,
        "resumable": job.state in (State.PAUSED, State.FAILED),
    }


def _condition(name: str, value: Any) -> dict[str, Any]:
    """`at_ms`: of a moment; else None."""
    label = FILTERS.get(name, name)
    if name == "positions":
        return {"label": label, "value": exact(len(value)), "at_ms": None}
    return {"label": label, "value": value, "at_ms": value if name in MOMENTS else None}


def decide(request: ConsoleRequest, jobs: Iterable[tuple[str, str]], decision: str) -> None:
    """Of jobs (topic, id), which may be in different states. What was done, and what was refused, is shown with the next page."""
    done = 0
    for topic, job_id in jobs:
        try:
            name = parse_topic(topic)
            require(request.actor, Action.OPERATE, topic_resource(name))
            actions.decide(request.actor, name, job_id, decision)
            done += 1
        except MagnetarError as error:
            show_error(request, error, topic)
    if done:
        show_message(request, DECISIONS[decision][1](done).format(count=exact(done)))
