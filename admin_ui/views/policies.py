"""Policies: of a tenant, a namespace, and a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import policy_texts
from admin_ui.access import ConsoleRequest, page
from admin_ui.pages import Navigation, crumbs, explain, navigation, show, show_error, show_message
from admin_ui.policy_forms import PoliciesForm
from admin_ui.views.topics import topic_name
from messaging.adminrpc.policies import PolicyPreviewAnswer
from messaging.errors import MagnetarError, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.policies.model import Level
from messaging.policies.resolution import Levels
from messaging.policies.validation import JsonPolicies
from tenants.actions import policy_history, policy_views
from tenants.actions.namespaces import set_policies
from tenants.actions.policy_history import PolicyPlace
from tenants.actions.tenants import set_tenant_policies
from tenants.actions.topic_policies import set_topic_policies
from tenants.actions.topic_policies import topic_policies as stored_policies
from tenants.actions.topics import topic_resource
from tenants.models import Namespace, Tenant

CHANGES_SHOWN = 20


class _Subject(NamedTuple):
    """What the page is about: what is set there and above, and how to try and make a change."""

    level: Level
    levels: Levels
    preview: Callable[[JsonPolicies], PolicyPreviewAnswer]
    save: Callable[[JsonPolicies], object]
    place: Callable[[], PolicyPlace]
    may_change: bool
    may_see_history: bool

    @property
    def held(self) -> JsonPolicies:
        return dict(self.levels[self.level] or {})


@page
def tenant_policies(request: ConsoleRequest, tenant: str) -> HttpResponse:
    row = Tenant.objects.get(name=tenant)
    subject = _Subject(
        Level.TENANT,
        {Level.TENANT: row.policies},
        lambda changes: policy_views.preview_tenant(request.actor, row, changes),
        lambda changes: set_tenant_policies(request.actor, tenant, changes),
        lambda: policy_history.of_tenant(tenant),
        request.actor.may(Action.SUPERUSER),
        request.actor.may(Action.AUDIT_READ, Resource(tenant)),
    )
    nav = navigation(request, "tenant", tenant)
    return _page(request, nav, subject, crumbs=crumbs(tenant), heading=tenant, topic="")


@page
def namespace_policies(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    row = Namespace.objects.select_related("tenant").get(name=f"{tenant}/{namespace}")
    nav = navigation(request, "policies", tenant, namespace)
    subject = _Subject(
        Level.NAMESPACE,
        policy_views.levels_of_namespace(row),
        lambda changes: policy_views.preview_namespace(request.actor, row, changes),
        lambda changes: set_policies(request.actor, row.name, changes),
        lambda: policy_history.of_namespace(row.name),
        Action.NAMESPACE_ADMIN in nav.may_here,
        request.actor.may(Action.AUDIT_READ, Resource(tenant, row.name)),
    )
    return _page(request, nav, subject, crumbs=crumbs(tenant), heading=namespace, topic="")


@page
def topic_policies(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    back = reverse("console:topic", args=[tenant, namespace, topic])
    nav = navigation(request, "topic", tenant, namespace)
    above = crumbs(tenant, namespace, (topic, back))
    try:
        row = stored_policies(name)
    except PreconditionFailed:  # a partition: its topic has them
        return HttpResponseRedirect(reverse("console:topic_policies", args=[tenant, namespace, name.base.local]))
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        return show(
            request, "pages/policies.html", nav, crumbs=above, heading=topic, topic=topic, level=Level.TOPIC, away=explain(error)
        )
    subject = _Subject(
        Level.TOPIC,
        policy_views.levels_of(row),
        lambda changes: policy_views.preview_topic(request.actor, name, changes),
        lambda changes: set_topic_policies(request.actor, name, changes),
        lambda: policy_history.of_topic(name),
        request.actor.may(Action.TOPIC_ADMIN, topic_resource(name)),
        request.actor.may(Action.AUDIT_READ, topic_resource(name)),
    )
    return _page(request, nav, subject, crumbs=above, heading=topic, topic=topic)


def _page(request: ConsoleRequest, nav: Navigation, subject: _Subject, **context: Any) -> HttpResponse:
    form, found = None, None
    if subject.may_change:
        removed, undone = request.POST.get("remove", ""), request.POST.get("undo", "")
        filled = request.POST if request.POST and not removed and not undone else None
        form = PoliciesForm(filled, level=subject.level, held=subject.held)
        if request.method == "POST" and (removed or undone or form.is_valid()):
            changes = form.cleaned_data if filled else {removed: None}
            try:
                if undone:
                    policy_history.undo(request.actor, subject.place(), undone)
                elif "preview" in request.POST:
                    found = subject.preview(changes)
                else:
                    subject.save(changes)
            except MagnetarError as error:
                if form.is_bound:
                    form.add_error(None, explain(error))
                else:  # a button beside the form
                    show_error(request, explain(error))
            else:
                if found is None:
                    done = f"Policy {removed} was removed." if removed else "The policies were saved and are now in effect."
                    done = "The change was taken back." if undone else done
                    show_message(request, done)
                    return HttpResponseRedirect(request.path)
    if found is not None:
        context |= {"effects": policy_texts.effects(found), "looked_at": policy_texts.looked_at(found)}
    records = policy_history.history(subject.place(), limit=CHANGES_SHOWN).records if subject.may_see_history else []
    return show(
        request,
        "pages/policies.html",
        nav,
        level=subject.level,
        form=form,
        policy_changes=policy_texts.policy_changes(records),
        effective=policy_texts.in_force(subject.levels, subject.level),
        idle=policy_texts.not_enforced(subject.held),
        **context,
    )
