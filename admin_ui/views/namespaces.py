"""Namespaces: topics live, create, policies, delete."""

from __future__ import annotations

import json

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import live_url
from admin_ui.forms import ConfirmForm, NamespaceForm
from admin_ui.live_rows import SUMS, Total, grouped, totals
from admin_ui.pages import crumbs, explain, navigation, sentence, show, show_message
from admin_ui.topic_stats import mark_state
from messaging.adminrpc.methods import NAMESPACES_LIVE
from messaging.adminrpc.topics import TopicsList
from messaging.errors import MagnetarError
from messaging.problems.kinds import MARKS
from tenants.actions.namespaces import create_namespace, delete_namespace
from tenants.actions.recycling import hours_of_namespace
from tenants.models import Namespace

FIRST_PAINT_ROWS_MAX = 250


@page
def namespace(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    live, away = broker.ask_or_why(lambda rpc: rpc.call(NAMESPACES_LIVE, TopicsList(namespace=f"{tenant}/{namespace}")))
    groups = grouped(live) if live else []
    rows = [
        {
            **group.sums,
            "name": group.name,
            "partitions": group.partitions,
            "loaded": group.loaded,
            "subscriptions": group.subscriptions,
            "mark": group.mark,
            "url": reverse("console:topic", args=[tenant, namespace, group.name]),
        }
        for group in groups[:FIRST_PAINT_ROWS_MAX]
    ]
    return show(
        request,
        "pages/namespace.html",
        navigation(request, "namespace", tenant, namespace),
        crumbs=crumbs(tenant),
        live_url=live_url(tenant, namespace),
        topic_url=reverse("console:topic", args=[tenant, namespace, "__topic__"]),
        marks=json.dumps({kind: [mark.text, mark_state(kind).kind, mark.meaning] for kind, mark in MARKS.items()}),
        groups=rows,
        totals={**totals(groups), "topics": len(groups)} if live else {**dict.fromkeys(SUMS, Total(None)), "topics": None},
        away=sentence(away),
    )


@page
def namespace_create(request: ConsoleRequest, tenant: str) -> HttpResponse:
    form = NamespaceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        local = form.cleaned_data["name"]
        try:
            create_namespace(request.actor, f"{tenant}/{local}")
        except MagnetarError as error:
            form.add_error(None, explain(error))
        else:
            show_message(request, f"Namespace {tenant}/{local} was created.")
            return HttpResponseRedirect(reverse("console:namespace", args=[tenant, local]))
    return show(
        request,
        "pages/form.html",
        navigation(request, "tenant", tenant),
        crumbs=crumbs(tenant),
        heading="New namespace",
        form=form,
        intro="A namespace is a group of topics with the same policies, such as retention and permissions.",
        submit="Create namespace",
        cancel_url=reverse("console:tenant", args=[tenant]),
    )


def _unread(backlog: Total) -> str:
    if backlog.known is None:
        return "an unknown number"
    return f"{'at least ' * backlog.least}{backlog.known:,}"


_GONE = "are deleted permanently"


@page
def namespace_delete(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    name = f"{tenant}/{namespace}"
    form = ConfirmForm(request.POST or None, expected=name)
    hours = hours_of_namespace(Namespace.objects.select_related("tenant").get(name=name))
    fate = f"go to the recycle bin of the tenant, and are deleted permanently after {hours} hours" if hours else _GONE
    if request.method == "POST" and form.is_valid():
        try:
            delete_namespace(request.actor, name, force=True)
        except MagnetarError as error:
            form.add_error(None, explain(error))
        else:
            kept = f" It is in the recycle bin for {hours} hours, where it can be restored." if hours else ""
            show_message(request, f"Namespace {name} was deleted.{kept}")
            return HttpResponseRedirect(reverse("console:tenant", args=[tenant]))
    listed, away = broker.ask_or_why(lambda rpc: rpc.call(NAMESPACES_LIVE, TopicsList(namespace=name)))
    if listed is None:
        impact = [f"All topics and messages {fate}. The number of topics is currently unknown ({away})."]
    else:
        groups = grouped(listed)
        clients = sum(row.producers + row.consumers for row in listed.topics)
        backlog = totals(groups)["backlog_entries"]
        impact = [
            f"{len(groups)} topic{'s' * (len(groups) != 1)} and all messages, {_unread(backlog)} of them in backlogs, {fate}.",
            f"{clients} producer{'s' * (clients != 1)} and consumers are disconnected." if clients else "No clients are connected.",
        ]
    return show(
        request,
        "pages/confirm.html",
        navigation(request, "policies", tenant, namespace),
        crumbs=crumbs(tenant, namespace),
        heading=f"Delete namespace {name}",
        impact=impact,
        name=name,
        form=form,
        submit="Delete namespace and topics",
        cancel_url=reverse("console:namespace", args=[tenant, namespace]),
    )
