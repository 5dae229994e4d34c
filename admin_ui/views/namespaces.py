"""Namespaces: topics live, create, policies, delete."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import live_url
from admin_ui.forms import ConfirmForm, NamespaceForm
from admin_ui.live_rows import SUMS, Total, known_totals, totals
from admin_ui.now.rows import row
from admin_ui.pages import add_error, crumbs, navigation, sentence, show, show_message
from admin_ui.topic_list import BY_NAME, WHOLE_MAX, TopicsAsked, TopicsListed, list_topics
from admin_ui.topic_stats import mark_state
from admin_ui.translation.figures import exact
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from admin_ui.views.recycled import kept_for
from messaging.adminrpc.methods import NAMESPACES_LIVE, PROBLEMS_LIST
from messaging.adminrpc.problems import ProblemsList
from messaging.adminrpc.topics import LiveAsked
from messaging.errors import MagnetarError
from messaging.problems.kinds import MARKS, Kind
from messaging.problems.order import Problem
from tenants.actions.namespaces import create_namespace, delete_namespace
from tenants.actions.recycling import hours_of_namespace
from tenants.models import Namespace

FIRST_PAINT_ROWS_MAX = 250


@page
def namespace(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    asked = TopicsAsked.of(request.GET)
    listed = list_topics(f"{tenant}/{namespace}", asked)
    groups = listed.groups
    rows = [
        {
            **(dict.fromkeys(group.sums) if listed.unreachable and not group.loaded else group.sums),
            "name": group.name,
            "partitions": group.partitions,
            "loaded": group.loaded,
            "subscriptions": group.subscriptions,
            "mark": group.mark,
            "url": reverse("console:topic", args=[tenant, namespace, group.name]),
        }
        for group in groups[:FIRST_PAINT_ROWS_MAX]
    ]
    unserved = None if listed.away else _unserved(f"{tenant}/{namespace}")
    return show(
        request,
        "pages/namespace.html",
        navigation(request, "namespace", tenant, namespace),
        crumbs=crumbs(tenant),
        live_url=live_url(tenant, namespace, **listed.feed_query),
        topic_url=reverse("console:topic", args=[tenant, namespace, "__topic__"]),
        marks=json.dumps({kind: [state.text, state.kind, state.meaning] for kind in MARKS for state in (mark_state(kind),)}),
        listed=listed,
        columns=[(key, label, look, *_sorting(asked, key)) for key, label, look in COLUMNS],
        watched=None if listed.watched is None else json.dumps(listed.watched),
        groups=rows,
        totals=_totals(listed),
        away=sentence(listed.away),
        unserved=row(unserved, request.actor) if unserved is not None else None,
    )


def _unserved(namespace: str) -> Problem | None:
    """That no broker may serve it, which is the most urgent that a namespace can have. Its topics have marks of their own."""
    asked = ProblemsList(of_namespaces=[namespace], problems_max=1)
    found, _ = broker.ask_or_why(lambda rpc: rpc.call(PROBLEMS_LIST, asked))
    return next((each for each in found.problems if each.kind == Kind.UNSERVED), None) if found is not None else None


COLUMNS = (
    ("topic", gettext_lazy("Topic"), ""),
    ("rate_in", gettext_lazy("In/s"), "number"),
    ("rate_out", gettext_lazy("Out/s"), "number"),
    ("throughput_in", gettext_lazy("Bytes in"), "number wide"),
    ("throughput_out", gettext_lazy("Bytes out"), "number wide"),
    ("backlog_entries", gettext_lazy("Backlog"), "number"),
    ("storage_bytes", gettext_lazy("Stored"), "number middle"),
    ("producers", gettext_lazy("Producers"), "number middle"),
    ("subscriptions", gettext_lazy("Subs"), "number middle"),
    ("consumers", gettext_lazy("Consumers"), "number middle"),
)


def _sorting(asked: TopicsAsked, key: str) -> tuple[str, str]:
    """What `aria-sort` says of a column, and what a press of its head asks for: figures begin with the largest."""
    if asked.sort != key:
        return "none", key if key == BY_NAME else f"-{key}"
    return ("descending", key) if asked.descending else ("ascending", f"-{key}")


def _totals(listed: TopicsListed) -> dict[str, Any]:
    """Of a whole namespace, as far as they are known."""
    if listed.away or listed.unreachable:
        return {**dict.fromkeys(SUMS, Total(None)), "topics": None}
    if listed.whole and not listed.asked.words:
        return {**totals(listed.groups), "topics": len(listed.groups)}
    if listed.totals is None:
        return {**dict.fromkeys(SUMS, Total(None)), "topics": None}
    return {**known_totals(listed.totals), "topics": listed.totals.topics}


@page
def namespace_create(request: ConsoleRequest, tenant: str) -> HttpResponse:
    form = NamespaceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        local = form.cleaned_data["name"]
        try:
            create_namespace(request.actor, f"{tenant}/{local}")
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, gettext("Namespace {tenant}/{local} was created.").format(tenant=tenant, local=local))
            return HttpResponseRedirect(reverse("console:namespace", args=[tenant, local]))
    return show(
        request,
        "pages/form.html",
        navigation(request, "tenant", tenant),
        crumbs=crumbs(tenant),
        heading=gettext("New namespace"),
        form=form,
        intro=gettext("A namespace is a group of topics with the same policies, such as retention and permissions."),
        submit=gettext("Create namespace"),
        cancel_url=reverse("console:tenant", args=[tenant]),
    )


def _unread(backlog: Total) -> str:
    if backlog.known is None:
        return gettext("an unknown number")
    return (gettext("at least {count}") if backlog.least else "{count}").format(count=exact(backlog.known))


@page
def namespace_delete(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    name = f"{tenant}/{namespace}"
    form = ConfirmForm(request.POST or None, expected=name)
    hours = hours_of_namespace(Namespace.objects.select_related("tenant").get(name=name))
    fate = (
        ngettext(
            "They go to the recycle bin of the tenant, and are deleted permanently after {hours} hour.",
            "They go to the recycle bin of the tenant, and are deleted permanently after {hours} hours.",
            hours,
        ).format(hours=hours)
        if hours
        else gettext("They are deleted permanently.")
    )
    if request.method == "POST" and form.is_valid():
        try:
            delete_namespace(request.actor, name, force=True)
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, gettext("Namespace {name} was deleted.{kept}").format(name=name, kept=kept_for(hours)))
            return HttpResponseRedirect(reverse("console:tenant", args=[tenant]))
    listed, away = broker.ask_or_why(lambda rpc: rpc.call(NAMESPACES_LIVE, LiveAsked(namespace=name, rows_max=WHOLE_MAX)).whole())
    if listed is None or listed.totals is None:
        impact = [
            gettext("All topics and messages are deleted. The number of topics is currently unknown ({away}).").format(away=away),
            fate,
        ]
    else:
        known = listed.totals
        clients = known.producers + known.consumers
        backlog = known_totals(known)["backlog_entries"]
        impact = [
            ngettext(
                "{topics} topic and all messages, {backlog} of them in backlogs, are deleted.",
                "{topics} topics and all messages, {backlog} of them in backlogs, are deleted.",
                known.topics,
            ).format(topics=exact(known.topics), backlog=_unread(backlog)),
            fate,
            ngettext("{clients} client is disconnected.", "{clients} clients are disconnected.", clients).format(
                clients=exact(clients)
            )
            if clients
            else gettext("No clients are connected."),
        ]
    return show(
        request,
        "pages/confirm.html",
        navigation(request, "policies", tenant, namespace),
        crumbs=crumbs(tenant, namespace),
        heading=gettext("Delete namespace {name}").format(name=name),
        impact=impact,
        name=name,
        form=form,
        submit=gettext("Delete namespace and topics"),
        cancel_url=reverse("console:namespace", args=[tenant, namespace]),
    )
