"""All dead letters of a tenant: in groups, one by one, and redriven together."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import msgspec
from django import forms
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import short_name
from admin_ui.pages import Navigation, crumbs, explain, navigation, sentence, show, show_error, show_message
from admin_ui.views.redrives import DECISIONS, shown_job
from messaging.errors import InvalidValue, MagnetarError, NotAuthorized
from messaging.permissions.model import Action
from messaging.protocol.names import NAME_LENGTH_MAX, parse_topic
from tenants.access import Actor, require
from tenants.actions.topics import topic_resource
from tenants.scoping import tenant_scope
from workers.redrive import actions, letters
from workers.redrive.models import RedriveJob
from workers.redrive.shapes import Letter, LetterGroup, LettersQuery, NotStarted, letters_query

JOBS_SHOWN = 20
LETTERS_SHOWN = 25
SUMS_KEPT = 4  # of a session: of as many pages that count at the same time
SUMS = "dead_letters"
BY = {
    "reason": "Reason",
    "origin_subscription": "Subscription",
    "origin_topic": "Came from",
    "producer": "Sent here by producer",
    "day": "Day",
    "hour": "Hour",
    "topic": "Dead-letter topic",
    "key": "Key",
}
FILTERS = {
    "topic": "in",
    "reason": "reason",
    "origin_topic": "from",
    "origin_subscription": "subscription",
    "producer": "sent here by producer",
    "key": "key",
    "property_name": "property",
    "property_value": "with value",
    "from_ms": "since",
    "until_ms": "until",
}
NOT_SAID = {
    "reason": "no reason given",
    "origin_topic": "not said",
    "origin_subscription": "not said",
    "producer": "not said",
    "key": "no key",
    "property": "without it",
}
_UNIT_MS = {"day": 86_400_000, "hour": 3_600_000}


class _Sums(msgspec.Struct):
    """What earlier requests of the same page counted."""

    groups: list[LetterGroup] = []
    beyond: int = 0
    looked_at: int = 0
    next: str = ""


class LettersForm(forms.Form):
    target = forms.CharField(
        label="Target topic",
        required=False,
        max_length=NAME_LENGTH_MAX,
        help_text="Empty: each goes back to the topic that it came from.",
    )
    redriven_max = forms.IntegerField(
        label="Redriven at most", initial=3, min_value=0, max_value=1000, help_text="One that was redriven so often stays. 0: any."
    )
    rate = forms.IntegerField(
        label="Messages per second, of each topic",
        initial=100,
        min_value=0,
        max_value=actions.RATE_MAX,
        help_text="0: as fast as it goes.",
    )


@page
def dead_letters(request: ConsoleRequest, tenant: str) -> HttpResponse:
    here = reverse("console:dead_letters", args=[tenant])
    form = LettersForm(request.POST if "redrive" in request.POST else None)
    if request.method == "POST":
        if "decision" in request.POST:
            _decide(request, tenant)
            return HttpResponseRedirect(request.get_full_path())
        if form.is_valid() and _started(request, tenant, form):
            return HttpResponseRedirect(here)
    parameters = {name: value for name, value in request.GET.dict().items() if value}
    problem, found = "", {}
    try:
        found = _found(request, tenant, parameters)
    except NotAuthorized as error:
        raise PermissionDenied(error.message) from None
    except MagnetarError as error:
        problem = sentence(error.message if isinstance(error, InvalidValue) else broker.why(error))
    nav = navigation(request, "dead_letters", tenant)
    part = "parts/dead_letter_groups.html" if request.headers.get("HX-Request") else "pages/dead_letters.html"
    return show(
        request,
        part,
        nav,
        crumbs=crumbs(tenant),
        here=here,
        form=form,
        problem=problem,
        chips=list(_chips(here, parameters)),
        tabs=[(_address(here, parameters, by=by), label, by == parameters.get("by", "reason")) for by, label in BY.items()],
        of_property=parameters.get("property", "") if parameters.get("by") == "property" else "",
        outcome=parameters.get("by") == "outcome",
        outcome_address=_address(here, parameters, by="outcome"),
        kept={name: value for name, value in parameters.items() if name in FILTERS},
        **found,
        **(_jobs(tenant, request.actor) if part.startswith("pages") else {}),
    )


@page
def dead_letter_jobs(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """The part of the page that is refreshed every three seconds."""
    nav = Navigation("dead_letters", False, tenant=tenant)
    return show(request, "parts/dead_letter_jobs.html", nav, **_jobs(tenant, request.actor))


def _jobs(tenant: str, actor: Actor) -> dict[str, Any]:
    with tenant_scope(tenant):
        active = list(RedriveJob.objects.filter(state__in=(actions.State.RUNNING, actions.State.PAUSED))[:JOBS_SHOWN])
        ended = RedriveJob.objects.exclude(state__in=(actions.State.RUNNING, actions.State.PAUSED))
        rows = [*active, *ended[: max(0, JOBS_SHOWN - len(active))]]
    return {
        "jobs": [{**shown_job(job, actor), "where": _parts(job.topic), "topic": job.topic} for job in rows],
        "running": sum(job.state == actions.State.RUNNING for job in active),
        "paused": sum(job.state == actions.State.PAUSED for job in active),
    }


def _parts(topic: str) -> tuple[str, str, str]:
    """As the addresses of pages have it."""
    name = parse_topic(topic)
    return name.tenant, name.namespace_local, short_name(topic)


# --- what is there


def _found(request: ConsoleRequest, tenant: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    query = letters_query(parameters)
    if "after" in parameters and "sums" in parameters:
        sums = _kept(request, parameters["sums"], parameters["after"])
    else:
        sums = _Sums()
    counted = letters.groups(request.actor, tenant, query, sums.next)
    groups = {group.value: group for group in sums.groups}
    beyond = sums.beyond + counted.beyond
    for group in counted.groups:
        if group.value in groups:
            letters.add(groups[group.value], group)
        elif len(groups) < letters.GROUPS_MAX:
            groups[group.value] = group
        else:
            beyond += group.messages
    rows = sorted(groups.values(), key=lambda group: (-group.messages, group.value))
    looked_at = sums.looked_at + counted.looked_at
    here = reverse("console:dead_letters", args=[tenant])
    more = ""
    if counted.next is not None:
        number = parameters.get("sums") or secrets.token_hex(8)
        _keep(request, number, _Sums(rows, beyond, looked_at, counted.next))
        more = _address(here, parameters, sums=number, after=counted.next)
    listed = None
    if not request.headers.get("HX-Request"):
        listed = letters.letters(request.actor, tenant, query, parameters.get("from_letter", ""), LETTERS_SHOWN)
    messages = sum(group.messages for group in rows) + beyond
    return {
        "groups": [_group(here, parameters, query, group, messages) for group in rows],
        "group_title": BY.get(query.by, "What would become of them" if query.by == "outcome" else query.shown_property),
        "beyond": beyond,
        "total": messages,
        "staying": sum(group.staying for group in rows),
        "looked_at": looked_at,
        "topics": counted.topics,
        "topics_done": counted.topics_done,
        "left_out": counted.left_out,
        "more_topics": counted.more_topics,
        "more": more,
        "rows": [] if listed is None else [_letter(letter) for letter in listed.items],
        "next_letters": "" if listed is None or listed.next is None else _address(here, parameters, from_letter=listed.next),
        "later_letters": "from_letter" in parameters,
    }


def _kept(request: ConsoleRequest, number: str, after: str) -> _Sums:
    """What this page has counted so far; anew where that is not known any more."""
    kept = request.session.get(SUMS, {}).get(number)
    sums = msgspec.convert(kept, _Sums) if kept else _Sums()
    return sums if sums.next == after else _Sums()


def _keep(request: ConsoleRequest, number: str, sums: _Sums) -> None:
    kept = {key: value for key, value in request.session.get(SUMS, {}).items() if key != number}
    for oldest in list(kept)[: max(0, len(kept) - SUMS_KEPT + 1)]:
        del kept[oldest]
    request.session[SUMS] = {**kept, number: msgspec.to_builtins(sums)}


def _group(here: str, parameters: Mapping[str, str], query: LettersQuery, group: LetterGroup, messages: int) -> dict[str, Any]:
    return {
        "value": group.value or NOT_SAID.get(query.by, ""),
        "said": bool(group.value),
        "messages": group.messages,
        "percent": round(100 * group.messages / messages) if messages else 0,
        "staying": group.staying,
        "oldest_ms": group.oldest_ms,
        "newest_ms": group.newest_ms,
        "address": _address(here, parameters, **narrowed) if (narrowed := _narrowed(query, group)) else "",
    }


def _narrowed(query: LettersQuery, group: LetterGroup) -> dict[str, str]:
    """The parameters that show this group alone; none where there is no such filter."""
    if query.by in _UNIT_MS:
        unit_ms = _UNIT_MS[query.by]
        begin_ms = group.oldest_ms - group.oldest_ms % unit_ms
        return {"from_ms": str(begin_ms), "until_ms": str(begin_ms + unit_ms), "by": "hour" if query.by == "day" else "reason"}
    if not group.value or group.value.endswith("…") or query.by == "outcome":
        return {}
    if query.by == "property":
        return {"property_name": query.shown_property, "property_value": group.value, "by": "reason"}
    return {query.by: group.value, "by": "origin_subscription" if query.by == "reason" else "reason"}


def _letter(letter: Letter) -> dict[str, Any]:
    choice = f"{letter.topic} {letter.message_id}"
    return {"letter": letter, "where": _parts(letter.topic), "to": short_name(letter.destination), "choice": choice}


def _address(here: str, parameters: Mapping[str, str], **changed: str) -> str:
    """The page with these parameters; counting and listing begin anew unless they say where to go on."""
    kept = {name: value for name, value in parameters.items() if name not in ("sums", "after", "from_letter")}
    return f"{here}?{urlencode({**kept, **changed})}"


def _chips(here: str, parameters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name, label in FILTERS.items():
        if name in parameters:
            rest = {key: value for key, value in parameters.items() if key != name}
            value = parameters[name]
            at_ms = int(value) if name in ("from_ms", "until_ms") and value.isascii() and value.isdecimal() else None
            yield {"label": label, "value": value, "at_ms": at_ms, "without": _address(here, rest)}


# --- what is done with them


def _started(request: ConsoleRequest, tenant: str, form: LettersForm) -> bool:
    given = form.cleaned_data
    parameters = {name: request.POST[name] for name in FILTERS if request.POST.get(name)}
    parameters |= {"target": given["target"], "redriven_max": str(given["redriven_max"] or 0)}
    chosen: dict[str, list[list[int]]] = {}
    for text in request.POST.getlist("chosen")[:LETTERS_SHOWN]:
        topic, _, message_id = text.partition(" ")
        ledger, _, entry = message_id.partition(":")
        if ledger.isdecimal() and entry.isdecimal() and len(message_id) < 40:
            chosen.setdefault(topic, []).append([int(ledger), int(entry)])
    started: list[RedriveJob] = []
    refused: list[NotStarted] = []
    try:
        query = letters_query(parameters)
        asked = replace(query.asked, rate=given["rate"] or 0)
        queries = [query._replace(asked=asked)]
        if chosen:
            queries = [
                LettersQuery(topics=(topic,), asked=replace(asked, given={**asked.given, "positions": positions}))
                for topic, positions in chosen.items()
            ]
        for each in queries:
            jobs, not_started = letters.start(request.actor, tenant, each)
            started += jobs
            refused += not_started
    except MagnetarError as error:
        form.add_error(None, explain(error))
        return False
    if started:
        show_message(request, f"{len(started)} redrive{'s were' if len(started) > 1 else ' was'} started.")
    for refusal in refused[:5]:
        show_error(request, f"{refusal.topic}: {sentence(refusal.why)}")
    if not started and not refused:
        form.add_error(None, "Nothing matches: no redrive was started.")
        return False
    return True


def _decide(request: ConsoleRequest, tenant: str) -> None:
    """Of one redrive, or of all that can be told so."""
    decision, job_id = request.POST["decision"], request.POST.get("job", "")
    if decision not in DECISIONS:
        return
    running, paused = actions.State.RUNNING, actions.State.PAUSED
    allowed = {"pause": [running], "resume": [paused], "cancel": [running, paused]}[decision]
    with tenant_scope(tenant):
        rows = RedriveJob.objects.filter(id=job_id) if job_id else RedriveJob.objects.filter(state__in=allowed)
        found = [(job.topic, job.id) for job in rows[: actions.ACTIVE_MAX]]
    done = 0
    for topic, number in found:
        try:
            name = parse_topic(topic)
            require(request.actor, Action.OPERATE, topic_resource(name))
            actions.decide(request.actor, name, number, decision)
            done += 1
        except MagnetarError as error:
            show_error(request, f"{topic}: {explain(error)}")
    if done:
        show_message(request, f"{done} redrive{'s were' if done > 1 else ' was'} {DECISIONS[decision]}.")
