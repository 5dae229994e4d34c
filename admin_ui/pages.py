"""What every page is made of: its template, its place in the console, its crumbs, its theme."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from admin_ui.access import ConsoleRequest, resource_of
from admin_ui.time_zones import chosen_zone
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext
from admin_ui.worker_away import worker_away
from messaging.errors import InvalidValue, MagnetarError
from messaging.permissions.model import Action, Resource
from messaging.permissions.roles import OF_TENANT
from tenants.http.errors import fail
from tenants.models import Namespace
from tenants.scoping import tenant_scope

NAMESPACES_IN_SIDE = 12
THEMES = ("light", "dark")


@dataclass
class Navigation:
    """What the side shows. `here` is the entry that is marked; `namespaces` are local names. `may` are the actions that the user
    has in the whole tenant, `may_here` those in the namespace, on the page of a topic on that topic: what leads to a refusal is not
    offered. `sees_namespace`: whether the page of the namespace is theirs to read."""

    here: str
    superuser: bool
    may_administer: bool = False
    may: frozenset[str] = frozenset()
    may_here: frozenset[str] = frozenset()
    tenant: str = ""
    namespace: str = ""
    sees_namespace: bool = False
    namespaces: list[str] = field(default_factory=list)
    more_namespaces: int = 0


def navigation(request: ConsoleRequest, entry: str, tenant: str = "", namespace: str = "") -> Navigation:
    actor = request.actor
    nav = Navigation(entry, actor.may(Action.SUPERUSER), tenant=tenant, namespace=namespace)
    if tenant:
        nav.may = frozenset(action for action in OF_TENANT if actor.may(action, Resource(tenant)))
        here = Resource(tenant, f"{tenant}/{namespace}" if namespace else "")
        nav.sees_namespace = bool(namespace) and actor.may(Action.NAMESPACE_READ, here)
        if request.resolver_match is not None and (asked := resource_of(request.resolver_match.kwargs)).namespace == here.namespace:
            here = asked
        nav.may_here = frozenset(action for action in OF_TENANT if actor.may(action, here)) if namespace else nav.may
        nav.may_administer = Action.TENANT_ADMIN in nav.may
        if actor.may(Action.TENANT_SEE, Resource(tenant)):
            with tenant_scope(tenant):
                rows = Namespace.objects.values_list("name", flat=True)
                if not actor.may(Action.NAMESPACE_READ, Resource(tenant)):  # only some of them
                    actor.grants.read_namespaces(list(rows))
                    names = [name for name in rows if actor.may(Action.NAMESPACE_READ, Resource(tenant, name))]
                    rows = rows.filter(name__in=names)
                nav.namespaces = [name.partition("/")[2] for name in rows[:NAMESPACES_IN_SIDE]]
                nav.more_namespaces = max(0, rows.count() - NAMESPACES_IN_SIDE) if len(nav.namespaces) == NAMESPACES_IN_SIDE else 0
        if nav.sees_namespace and namespace not in nav.namespaces:
            nav.namespaces.append(namespace)
    return nav


def crumbs(tenant: str = "", namespace: str = "", *further: tuple[str, str]) -> list[tuple[str, str]]:
    """(label, address) of the pages above this one."""
    found = [(gettext("Tenants"), reverse("console:tenants"))]
    if tenant:
        found.append((tenant, reverse("console:tenant", args=[tenant])))
    if namespace:
        found.append((namespace, reverse("console:namespace", args=[tenant, namespace])))
    return [*found, *further]


def show(request: HttpRequest, template: str, nav: Navigation | None = None, *, status: int = 200, **context: Any) -> HttpResponse:
    """The page. Nothing of the console is kept by caches: a page that was shown to one person is not for the next."""
    match = request.resolver_match
    away = worker_away(match.url_name or "") if nav is not None and match is not None and template.startswith("pages/") else {}
    if nav is not None and nav.namespace and not nav.sees_namespace and "crumbs" in context:
        closed = reverse("console:namespace", args=[nav.tenant, nav.namespace])
        context["crumbs"] = [(label, "" if url == closed else url) for label, url in context["crumbs"]]
    full = {"nav": nav, "theme": theme_of(request), "time_zone": chosen_zone(request), **away, **context}
    response = render(request, f"admin_ui/{template}", full, status=status)
    response["Cache-Control"] = "no-store"
    return response


def theme_of(request: HttpRequest) -> str:
    """What the person has chosen; "": what their system says."""
    theme = request.COOKIES.get("theme", "")
    return theme if theme in THEMES else ""


def show_message(request: HttpRequest, text: str) -> None:
    """A line at the top of the next page."""
    messages.success(request, text)


def show_error(request: HttpRequest, why: str | MagnetarError, about: str = "", *, begun: bool = True) -> None:
    """The same for what did not work, and the audit log learns that it did not. `why`: the error, or a sentence on what was refused
    before it was begun. `about`: which of several things. `begun`: False for what only looked what a change would do."""
    fail(request, InvalidValue(why) if isinstance(why, str) else why, begun=begun)
    text = why if isinstance(why, str) else explain(why)
    messages.error(request, gettext("{name}: {why}").format(name=about, why=text) if about else text)


def add_error(request: HttpRequest, form: Form, error: MagnetarError, field: str | None = None, *, begun: bool = True) -> None:
    """The same where it is said beside the form, or beside one field of it."""
    fail(request, error, begun=begun)
    form.add_error(field, explain(error))


def explain(error: MagnetarError) -> str:
    """The error for people: as a sentence."""
    return sentence(said(error.message) or gettext("an internal error occurred"))


def sentence(text: str) -> str:
    if not text:
        return ""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
