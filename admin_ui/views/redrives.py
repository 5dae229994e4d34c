"""Redrives of a topic: what a job would move, the jobs there are, and what became of their messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import carried_out
from admin_ui.messages.publish_form import PublishForm, initial_of
from admin_ui.pages import crumbs, explain, navigation, show, show_error, show_message
from admin_ui.time_zones import zoned_label
from admin_ui.views.message_files import message_to_edit
from admin_ui.views.topics import topic_name
from messaging.adminrpc.redrive import RedriveEdit
from messaging.errors import MagnetarError
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.access import Actor
from tenants.masking import masks_of
from tenants.names import message_of
from workers.redrive import actions
from workers.redrive.models import RedriveJob
from workers.redrive.shapes import show_outcome

JOBS_SHOWN = OUTCOMES_SHOWN = 100
DECISIONS = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}
_LOOKS: dict[str, str] = {"done": "badge-good", "failed": "badge-bad", "paused": "badge-warn"}


class RedriveForm(forms.Form):
    target = forms.CharField(
        label="Target topic",
        required=False,
        max_length=NAME_LENGTH_MAX,
        help_text="persistent://tenant/namespace/topic. Empty: each goes back to the topic of this namespace that it came from.",
    )
    subscription = forms.CharField(
        max_length=NAME_LENGTH_MAX,
        initial=actions.SUBSCRIPTION,
        help_text="What it has not acknowledged is moved, and then acknowledged. It must have no consumers.",
    )
    key = forms.CharField(required=False, max_length=NAME_LENGTH_MAX, help_text="Only messages with this key. Empty: any.")
    property_name = forms.CharField(label="Property", required=False, max_length=NAME_LENGTH_MAX, help_text="Empty: any.")
    property_value = forms.CharField(label="Value of the property", required=False, max_length=NAME_LENGTH_MAX)
    origin_subscription = forms.CharField(
        label="Dead-lettered from subscription", required=False, max_length=NAME_LENGTH_MAX, help_text="Empty: any."
    )
    published_from = forms.DateTimeField(
        label=zoned_label("Published from"), required=False, help_text="2026-03-01 08:00. Empty: any time."
    )
    published_until = forms.DateTimeField(label=zoned_label("Published before"), required=False)
    redriven_max = forms.IntegerField(
        label="Redriven at most", initial=3, min_value=0, max_value=1000, help_text="One that was redriven so often stays. 0: any."
    )
    rate = forms.IntegerField(
        label="Messages per second", initial=100, min_value=0, max_value=actions.RATE_MAX, help_text="0: as fast as it goes."
    )

    def asked(self) -> actions.Request:
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        wanted: dict[str, Any] = {
            name: given[name]
            for name in ("key", "property_name", "property_value", "origin_subscription", "redriven_max")
            if name in given
        }
        for name, field in (("from_ms", "published_from"), ("until_ms", "published_until")):
            if field in given:
                wanted[name] = _milliseconds(given[field])
        return actions.Request(given.get("target", ""), given["subscription"], given.get("rate", 0), given=wanted)


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


@page
def redrives(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    form = RedriveForm(request.POST or None)
    dry_run = None
    if request.method == "POST" and form.is_valid():
        try:
            if "dry_run" in request.POST:
                dry_run = actions.dry_run(request.actor, name, form.asked())
            else:
                actions.start(request.actor, name, form.asked())
                show_message(request, "The redrive was started.")
                return HttpResponseRedirect(reverse("console:redrives", args=[tenant, namespace, topic]))
        except MagnetarError as error:
            form.add_error(None, explain(error))
    return show(
        request,
        "pages/redrives.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic]))),
        form=form,
        dry_run=dry_run,
        where=[tenant, namespace, topic],
        **_jobs(name, request.actor),
    )


@page
def redrive_edited(request: ConsoleRequest, tenant: str, namespace: str, topic: str, message_id: str) -> HttpResponse:
    """Moves one message back as it is edited here. It takes the right to read it."""
    name, parts = topic_name(tenant, namespace, topic), [tenant, namespace, topic]
    row = message_to_edit(request, name, message_id) if request.method == "GET" else None
    form = PublishForm(request.POST or None, initial=initial_of(row) if row is not None else {})
    at = message_of(name, message_id)

    def start() -> None:
        message = form.message()
        edit = RedriveEdit(edited_payload=bytes(message.payload), key=message.key, properties=message.properties)
        given = {"positions": [[at.ledger_id, at.entry_id]]}
        started.append(actions.start(request.actor, at.topic, actions.Request(given=given, edit=edit)))

    started: list[RedriveJob] = []
    above = ((topic, reverse("console:topic", args=parts)), ("Redrives", reverse("console:redrives", args=parts)))
    if carried_out(request, form, start):
        show_message(request, "The redrive was started.")
        return HttpResponseRedirect(reverse("console:redrive", args=[tenant, namespace, at.topic.local, started[0].id]))
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, *above),
        heading=f"Edit and redrive {message_id}",
        form=form,
        intro="It goes back once to the topic that it came from, as you edit it here. The one in this topic is acknowledged.",
        submit="Redrive",
        cancel_url=reverse("console:message", args=[*parts, message_id]),
    )


@page
def redrives_fragment(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """The part of the page that is refreshed every three seconds."""
    name = topic_name(tenant, namespace, topic)
    return show(request, "parts/redrive_jobs.html", navigation(request, "topic", tenant, namespace), **_jobs(name, request.actor))


@page
def redrive(request: ConsoleRequest, tenant: str, namespace: str, topic: str, job: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    found = actions.jobs_of(name).filter(id=job).first()
    if found is None:
        raise Http404
    if request.method == "POST":
        decision = request.POST.get("decision", "")
        try:
            if decision in DECISIONS:
                actions.decide(request.actor, name, job, decision)
                show_message(request, f"The redrive was {DECISIONS[decision]}.")
        except MagnetarError as error:
            show_error(request, explain(error))
        return HttpResponseRedirect(reverse("console:redrive", args=[tenant, namespace, topic, job]))
    above = (
        (topic, reverse("console:topic", args=[tenant, namespace, topic])),
        ("Redrives", reverse("console:redrives", args=[tenant, namespace, topic])),
    )
    masks = masks_of(request.actor, name)
    return show(
        request,
        "pages/redrive.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, *above),
        job=shown_job(found, request.actor),
        outcomes=[show_outcome(outcome, masks) for outcome in actions.outcomes_of(found).order_by("-id")[:OUTCOMES_SHOWN]],
        shown_max=OUTCOMES_SHOWN,
    )


def _jobs(name: Any, actor: Actor) -> dict[str, Any]:
    return {"jobs": [shown_job(job, actor) for job in actions.jobs_of(name)[:JOBS_SHOWN]], "local": name.local}


def shown_job(job: RedriveJob, actor: Actor) -> dict[str, Any]:
    wanted = actions.filter_for(actor, job)
    return {
        "id": job.id,
        "target": job.target or "where they came from",
        "edited": job.edit is not None,
        "subscription": job.subscription,
        "state": job.get_state_display(),
        "look": _LOOKS.get(job.state, ""),
        "moved": job.moved,
        "left": job.left,
        "looked_at": job.looked_at,
        "rate": job.rate,
        "by": job.requested_by,
        "created_at": job.created_at,
        "finished_at": job.finished_at,
        "error": job.error,
        "filter": ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in wanted.items() if value),
        "running": job.state == RedriveJob.State.RUNNING,
        "resumable": job.state in (RedriveJob.State.PAUSED, RedriveJob.State.FAILED),
    }
