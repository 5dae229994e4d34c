"""Redrives of a topic: what a job would move, the jobs there are, and what became of their messages."""

from __future__ import annotations

from dataclasses import replace

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import carried_out
from admin_ui.messages.publish_form import PublishForm, initial_of
from admin_ui.pages import add_error, crumbs, navigation, show, show_message
from admin_ui.redrive_forms import RedriveForm
from admin_ui.redrive_view import DECISIONS, decide, jobs_listed, shown_job
from admin_ui.row_list import Column, list_rows
from admin_ui.translation.texts import gettext, gettext_lazy
from admin_ui.views.message_files import message_to_edit
from admin_ui.views.topics import topic_name
from messaging.adminrpc.redrive import RedriveEdit
from messaging.errors import MagnetarError
from tenants.masking import masks_of_lists
from tenants.names import message_of
from workers.redrive import actions
from workers.redrive.models import RedriveJob
from workers.redrive.shapes import show_outcome

OUTCOME_COLUMNS = (
    Column("newest", "", ("id",), down=True),
    Column("message", gettext_lazy("Message"), ("ledger_id", "entry_id")),
    Column("key", gettext_lazy("Key"), ("key",)),
    Column("messages", gettext_lazy("Messages"), ("messages",), down=True, look="number"),
    Column("outcome", gettext_lazy("Outcome"), ("why", "target")),
)


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
                show_message(request, gettext("The redrive was started."))
                return HttpResponseRedirect(reverse("console:redrives", args=[tenant, namespace, topic]))
        except MagnetarError as error:
            add_error(request, form, error, begun="dry_run" not in request.POST)
    return show(
        request,
        "pages/redrives.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace),
        form=form,
        dry_run=dry_run,
        where=[tenant, namespace, topic],
        local=name.local,
        **jobs_listed(request.GET, actions.jobs_of(name), request.actor, of_tenant=False),
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
    if carried_out(request, form, start):
        show_message(request, gettext("The redrive was started."))
        return HttpResponseRedirect(reverse("console:redrive", args=[tenant, namespace, at.topic.local, started[0].id]))
    return show(
        request,
        "pages/form.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, *_above(tenant, namespace, topic)),
        heading=gettext("Edit and redrive {message_id}").format(message_id=message_id),
        form=form,
        intro=gettext(
            "It goes back once to the topic that it came from, as you edit it here. The one in this topic is acknowledged."
        ),
        submit=gettext("Redrive"),
        cancel_url=reverse("console:message", args=[*parts, message_id]),
    )


@page
def redrives_fragment(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """The part of the page that is refreshed every three seconds."""
    jobs = actions.jobs_of(topic_name(tenant, namespace, topic))
    nav = navigation(request, "topic", tenant, namespace)
    return show(request, "parts/redrive_jobs.html", nav, **jobs_listed(request.GET, jobs, request.actor, of_tenant=False))


@page
def redrive(request: ConsoleRequest, tenant: str, namespace: str, topic: str, job: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    found = actions.jobs_of(name).filter(id=job).first()
    if found is None:
        raise Http404
    if request.method == "POST":
        decision = request.POST.get("decision", "")
        if decision in DECISIONS:
            decide(request, [(str(name), job)], decision)
        return HttpResponseRedirect(reverse("console:redrive", args=[tenant, namespace, topic, job]))
    masks = masks_of_lists(request.actor, name)
    columns = [replace(one, order=()) if masks.key and one.key == "key" else one for one in OUTCOME_COLUMNS]
    searched = ["why", "target", *([] if masks.key else ["key"])]  # by what is masked nobody searches either
    listed = list_rows(request.GET, actions.outcomes_of(found), columns, searched=searched)
    return show(
        request,
        "pages/redrive.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, *_above(tenant, namespace, topic)),
        job=shown_job(found, request.actor),
        outcomes=[show_outcome(outcome, masks) for outcome in listed.rows],
        listed=listed,
    )


def _above(tenant: str, namespace: str, topic: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Between the namespace and the page in its path."""
    where = [tenant, namespace, topic]
    return (topic, reverse("console:topic", args=where)), (gettext("Redrives"), reverse("console:redrives", args=where))
