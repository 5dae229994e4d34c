"""Policies of a tenant, a namespace and a topic: all of them in groups, and one of them to look at and to change."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import api_calls, policy_texts
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.pages import Navigation, add_error, crumbs, explain, navigation, show, show_error, show_message
from admin_ui.policy_forms import SubjectForm
from admin_ui.policy_what_if import SPANS, WhatIfRows, shown, span_asked
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext
from admin_ui.views.topics import topic_name
from messaging.adminrpc.policies import PolicyPreviewAnswer
from messaging.errors import Conflict, MagnetarError, NotFound, PlatformError, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.policies.groups import SUBJECTS, Subject
from messaging.policies.model import Level
from messaging.policies.resolution import Levels
from messaging.policies.validation import JsonPolicies
from tenants.actions import policy_history, policy_views
from tenants.actions.namespaces import MASKED
from tenants.actions.policy_history import PolicyPlace
from tenants.actions.topic_policies import topic_policies as stored_policies
from tenants.actions.topics import topic_resource
from tenants.broker_settings import policy_defaults
from tenants.history.spans import asked_span
from tenants.history.what_if import PolicyChangeAsked
from tenants.http.errors import fail
from tenants.http.request_state import state_of
from tenants.models import AuditRecord, Namespace, Tenant

CHANGES_SHOWN = 20
CHANGES_LOOKED_AT = 100  # for those of one subject
WORDS_LENGTH_MAX = 100  # of a search


class _Place(NamedTuple):
    """What the page is about: what is set there and above, and how to check and make a change. `names`: local ones."""

    level: Level
    names: Sequence[str]
    levels: Levels
    checked: Callable[[JsonPolicies], PolicyChangeAsked]
    place: Callable[[], PolicyPlace]
    may_change: bool
    may_see_history: bool
    may_mask: bool = False  # a tenant's own administrator: what is masked in it, and nothing else

    @property
    def set_here(self) -> JsonPolicies:
        return dict(self.levels[self.level] or {})


@page
def tenant_policies(request: ConsoleRequest, tenant: str) -> HttpResponse:
    row = Tenant.objects.get(name=tenant)
    place = _Place(
        Level.TENANT,
        (tenant,),
        {Level.TENANT: row.policies},
        lambda changes: policy_views.checked_tenant(request.actor, row, changes),
        lambda: policy_history.of_tenant(tenant),
        request.actor.may(Action.SUPERUSER),
        request.actor.may(Action.AUDIT_READ, Resource(tenant)),
        request.actor.may(Action.TENANT_ADMIN, Resource(tenant)) and request.actor.may(Action.CONSUME, Resource(tenant)),
    )
    nav = navigation(request, "tenant", tenant)
    return _page(request, nav, place, crumbs=crumbs(tenant), heading=tenant, topic="")


@page
def namespace_policies(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    row = Namespace.objects.select_related("tenant").get(name=f"{tenant}/{namespace}")
    nav = navigation(request, "policies", tenant, namespace)
    place = _Place(
        Level.NAMESPACE,
        (tenant, namespace),
        policy_views.levels_of_namespace(row),
        lambda changes: policy_views.checked_namespace(request.actor, row, changes),
        lambda: policy_history.of_namespace(row.name),
        Action.NAMESPACE_ADMIN in nav.may_here,
        request.actor.may(Action.AUDIT_READ, Resource(tenant, row.name)),
    )
    return _page(request, nav, place, crumbs=crumbs(tenant), heading=namespace, topic="")


@page
def topic_policies(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name = topic_name(tenant, namespace, topic)
    nav = navigation(request, "topic", tenant, namespace)
    above = crumbs(tenant, namespace)
    try:
        row = stored_policies(name)
    except PreconditionFailed as error:  # a partition: its topic has them
        fail(request, error, begun=False)
        return HttpResponseRedirect(reverse("console:topic_policies", args=[tenant, namespace, name.base.local]))
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        return show(
            request, "pages/policies.html", nav, crumbs=above, heading=topic, topic=topic, level=Level.TOPIC, away=explain(error)
        )
    place = _Place(
        Level.TOPIC,
        (tenant, namespace, topic),
        policy_views.levels_of(row),
        lambda changes: policy_views.checked_topic(request.actor, name, changes),
        lambda: policy_history.of_topic(name),
        request.actor.may(Action.TOPIC_ADMIN, topic_resource(name)),
        request.actor.may(Action.AUDIT_READ, topic_resource(name)),
    )
    return _page(request, nav, place, crumbs=above, heading=topic, topic=topic, persistent=name.persistent)


def _page(request: ConsoleRequest, nav: Navigation, place: _Place, **context: Any) -> HttpResponse:
    words = request.GET.get("q", "")[:WORDS_LENGTH_MAX]
    subject, defaults = SUBJECTS.get(request.GET.get("policy", "")), policy_defaults()
    if subject is not None and policy_texts.shown_at(subject, place.level):
        outcome = _subject(request, place, subject, defaults)
        if isinstance(outcome, HttpResponse):
            return outcome
        context |= outcome
    elif request.method == "POST":
        return _button(request, place)
    every = policy_texts.groups(place.levels, defaults, place.level)
    return show(
        request,
        "pages/policies.html",
        nav,
        level=place.level,
        words=words,
        set_here=policy_texts.set_here(every),
        groups=policy_texts.groups(place.levels, defaults, place.level, words) if words.strip() else every,
        idle=policy_texts.not_enforced(place.set_here),
        may_change=place.may_change,
        policy_changes=policy_texts.policy_changes(_changes(place)[:CHANGES_SHOWN]),
        **context,
    )


def _button(request: ConsoleRequest, place: _Place) -> HttpResponse:
    """Takes a change back, or removes what is stored and not enforced."""
    removed, undone = request.POST.get("remove", ""), request.POST.get("undo", "")
    try:
        if undone:
            policy_history.undo(request.actor, place.place(), undone)
        elif removed:
            present = place.set_here
            policy_history.set_unless_changed(request.actor, place.place(), {removed: None}, present)
        else:
            show_error(request, gettext("Nothing was changed: choose a policy first."))
            return HttpResponseRedirect(request.get_full_path())
    except MagnetarError as error:
        show_error(request, error)
    else:
        show_message(
            request, gettext("The change was taken back.") if undone else gettext("Policy {name} was removed.").format(name=removed)
        )
    return HttpResponseRedirect(request.get_full_path())


def _subject(
    request: ConsoleRequest, place: _Place, subject: Subject, defaults: Mapping[str, Any]
) -> HttpResponse | dict[str, Any]:
    """The panel of one subject; an answer of its own where something was done."""
    settable = subject.at(place.level)
    form: SubjectForm | None = None
    looked = _Looked()
    if (place.may_change or (place.may_mask and subject.name == MASKED)) and settable:
        given = request.GET if followed(request) else request.POST or None
        form = SubjectForm(given if given and "undo" not in given else None, policies=settable, set_here=place.set_here)
        if followed(request):
            return show_calls(request, [api_calls.set_policies(place.names, form.changes() if form.is_valid() else {})])
        if request.method == "POST":
            if "undo" in request.POST:
                return _button(request, place)
            done, looked = _changed(request, place, subject, form)
            if done:
                show_message(request, done)
                return HttpResponseRedirect(f"{request.get_full_path()}#policy")
    elif request.method == "POST":
        raise PermissionDenied(gettext("This policy is for administrators of the platform to set."))
    values = dict.fromkeys([policy.name for policy in settable])
    return {
        "subject": subject,
        "form": form,
        "where": policy_texts.levels_set(subject, place.levels, defaults, place.level),
        "effects": policy_texts.effects(looked.now) if looked.now is not None else [],
        "looked_at": policy_texts.looked_at(looked.now) if looked.now is not None else "",
        "effects_away": looked.away,
        "what_if": looked.before,
        "what_if_spans": [(name, name == span_asked(request.POST.get("span", ""))) for name in SPANS],
        "is_set": any(policy.name in place.set_here for policy in settable),
        "subject_changes": policy_texts.policy_changes(_changes(place, CHANGES_LOOKED_AT), subject)[:CHANGES_SHOWN],
        "calls": calls_of(request, [api_calls.set_policies(place.names, values)]) if form else [],
    }


class _Looked(NamedTuple):
    """What a change would do `now`, or why nobody can say (`away`), and what it would have done."""

    now: PolicyPreviewAnswer | None = None
    away: str = ""
    before: WhatIfRows | None = None


def _look(request: ConsoleRequest, place: _Place, changes: JsonPolicies) -> _Looked:
    changing = place.checked(changes)
    now_ms, name = time.time_ns() // 1_000_000, span_asked(request.POST.get("span", ""))
    span = asked_span({"span": name}, now_ms)
    before = shown(policy_views.held_against_history(changing, span, now_ms), name, span.width_ms / 1000)
    try:
        return _Looked(now=policy_views.preview(changing), before=before)
    except PlatformError as error:
        return _Looked(away=explain(error), before=before)


def _changed(request: ConsoleRequest, place: _Place, subject: Subject, form: SubjectForm) -> tuple[str, _Looked]:
    """What was done, in words, and what a preview found; where neither is, `form` says why not."""
    inherit = "inherit" in request.POST
    if not form.is_valid() and not (inherit and "before" in form.cleaned_data):
        return "", _Looked()
    before = form.cleaned_data["before"]
    changes = {policy.name: None for policy in form.policies if policy.name in before} if inherit else form.changes()
    try:
        if "preview" in request.POST:
            return "", _look(request, place, changes)
        if not changes:
            state_of(request).dry_run = True
            return gettext("Nothing was changed."), _Looked()
        policy_history.set_unless_changed(request.actor, place.place(), changes, before)
    except Conflict as error:
        add_error(request, form, error)
        form.look_again()
    except MagnetarError as error:
        add_error(request, form, error, begun="preview" not in request.POST)
    else:
        text = gettext("{policy} is inherited from now on.") if inherit else gettext("{policy} was saved and is now in effect.")
        return text.format(policy=said(subject.title)), _Looked()
    return "", _Looked()


def _changes(place: _Place, limit: int = CHANGES_SHOWN) -> list[AuditRecord]:
    return policy_history.history(place.place(), limit=limit).records if place.may_see_history else []
