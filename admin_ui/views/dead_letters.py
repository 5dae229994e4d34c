"""All dead letters of a tenant: in groups, one by one, and redriven together."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import msgspec
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import short_name
from admin_ui.pages import Navigation, add_error, crumbs, explain, navigation, sentence, show, show_error, show_message
from admin_ui.redrive_forms import LettersFilterForm, MoveForm
from admin_ui.redrive_view import DECISIONS, FILTERS, MOMENTS, decide, jobs_listed
from admin_ui.row_list import Column, cursor_links, list_items
from admin_ui.translation.figures import exact
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from messaging.errors import InvalidValue, MagnetarError, NotAuthorized, NotReady
from messaging.json_types import converted
from messaging.protocol.names import parse_topic
from tenants.actions.change import record
from tenants.http.request_state import state_of
from tenants.scoping import tenant_scope
from workers.redrive import actions, letters
from workers.redrive.models import RedriveJob
from workers.redrive.shapes import Letter, LetterGroup, LettersQuery, NotStarted, letters_query

LETTERS_SHOWN = 25
FIRST_SECONDS_MAX = 0.25  # that a page waits for each of groups and messages; the groups are counted on beside it
SUMS_KEPT = 4  # of a session: of as many pages that count at the same time
SUMS = "dead_letters"
GROUPS = "groups-"  # before the parameters of the list of groups
BY = {
    "reason": gettext_lazy("Reason"),
    "origin_subscription": gettext_lazy("Subscription"),
    "origin_topic": gettext_lazy("Came from"),
    "producer": gettext_lazy("Sent here by producer"),
    "day": gettext_lazy("Day"),
    "hour": gettext_lazy("Hour"),
    "topic": gettext_lazy("Dead-letter topic"),
    "key": gettext_lazy("Key"),
}
NOT_SAID = {
    "reason": gettext_lazy("no reason given"),
    "origin_topic": gettext_lazy("not said"),
    "origin_subscription": gettext_lazy("not said"),
    "producer": gettext_lazy("not said"),
    "key": gettext_lazy("no key"),
    "property": gettext_lazy("without it"),
}
_UNIT_MS = {"day": 86_400_000, "hour": 3_600_000}
_FILTERED = tuple(name for name in FILTERS if name not in ("redriven_max", "positions"))
_PASSING = ("sums", "counted", "after", "past")  # of the address: how far the groups are counted, and which page of messages it is


class _Sums(msgspec.Struct):
    """What earlier requests of the same page counted."""

    groups: list[LetterGroup] = []
    beyond: int = 0
    looked_at: int = 0
    next: str = ""


@page
def dead_letters(request: ConsoleRequest, tenant: str) -> HttpResponse:
    here = reverse("console:dead_letters", args=[tenant])
    form = MoveForm(request.POST if "redrive" in request.POST else None)
    if request.method == "POST":
        if "decision" in request.POST:
            _decide(request, tenant)
            return HttpResponseRedirect(request.get_full_path())
        if form.is_valid() and _started(request, tenant, form):
            return HttpResponseRedirect(here)
    parameters = {name: value for name, value in request.GET.dict().items() if value}
    problem, found, away = "", dict[str, Any](), False
    try:
        found = _found(request, tenant, parameters)
    except NotAuthorized as error:
        raise PermissionDenied(error.message) from None
    except MagnetarError as error:
        problem = explain(error) if isinstance(error, InvalidValue) else sentence(broker.why(error))
        away = isinstance(error, NotReady)
        state_of(request).nothing_read = True
    nav = navigation(request, "dead_letters", tenant)
    part = "parts/dead_letter_groups.html" if request.headers.get("HX-Request") else "pages/dead_letters.html"
    return show(
        request,
        part,
        nav,
        crumbs=crumbs(tenant),
        here=here,
        form=form,
        filters=LettersFilterForm(initial=parameters, auto_id="filter_%s"),
        problem=problem,
        away=away,
        chips=list(_chips(here, parameters)),
        tabs=[(_address(here, parameters, by=by), label, by == parameters.get("by", "reason")) for by, label in BY.items()],
        of_property=parameters.get("property", "") if parameters.get("by") == "property" else "",
        outcome=parameters.get("by") == "outcome",
        outcome_address=_address(here, parameters, by="outcome"),
        kept={name: value for name, value in parameters.items() if name in _FILTERED},
        **found,
        **(_jobs(request, tenant) if part.startswith("pages") else {}),
    )


@page
def dead_letter_jobs(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """The part of the page that is refreshed every three seconds."""
    nav = Navigation("dead_letters", False, tenant=tenant)
    return show(request, "parts/redrive_jobs.html", nav, **_jobs(request, tenant))


def _jobs(request: ConsoleRequest, tenant: str) -> dict[str, Any]:
    with tenant_scope(tenant):
        listed = jobs_listed(request.GET, RedriveJob.objects.all(), request.actor, of_tenant=True)
        active = set(RedriveJob.objects.filter(state__in=DECISIONS["cancel"][0]).order_by().values_list("state", flat=True))
    return {**listed, "running": "running" in active, "paused": "paused" in active}


def _parts(topic: str) -> tuple[str, str, str]:
    """As the addresses of pages have it."""
    name = parse_topic(topic)
    return name.tenant, name.namespace_local, short_name(topic)


# --- what is there


def _found(request: ConsoleRequest, tenant: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    query = letters_query(parameters)
    first = not request.headers.get("HX-Request")
    if "counted" in parameters and "sums" in parameters:
        sums = _kept(request, parameters["sums"], parameters["counted"])
    else:
        sums = _Sums()
    seconds_max = FIRST_SECONDS_MAX if first else letters.SECONDS_MAX
    counted = letters.groups(request.actor, tenant, query, sums.next, seconds_max)
    state_of(request).nothing_read = bool(sums.next) and not counted.groups
    if request.method == "POST":  # a form that is shown again, with the letters beside it
        record(request.actor, "message.browse", tenant, tenant, after={"query": request.GET.urlencode()[:500]})
    groups = {group.value: group for group in sums.groups}
    beyond = sums.beyond + counted.beyond
    for group in counted.groups:
        if group.value in groups:
            letters.add(groups[group.value], group)
        elif len(groups) < letters.GROUPS_MAX:
            groups[group.value] = group
        else:
            beyond += group.messages
    rows = list(groups.values())
    looked_at = sums.looked_at + counted.looked_at
    messages = sum(group.messages for group in rows) + beyond
    here = reverse("console:dead_letters", args=[tenant])
    more = ""
    if counted.next is not None:
        number = parameters.get("sums") or secrets.token_hex(8)
        _keep(request, number, _Sums(rows, beyond, looked_at, counted.next))
        more = _address(here, parameters, sums=number, counted=counted.next)
    title = BY.get(query.by, gettext("What would become of them") if query.by == "outcome" else query.shown_property)
    listed = list_items(_lasting(request.GET), rows, _group_columns(query, title), text=lambda group: group.value, name=GROUPS)
    return {
        "groups": [_group(here, parameters, query, group, messages) for group in listed.rows],
        "groups_listed": listed,
        "groups_all": len(rows),
        "beyond": beyond,
        "total": messages,
        "staying": sum(group.staying for group in rows),
        "looked_at": looked_at,
        "topics": counted.topics,
        "topics_done": counted.topics_done,
        "left_out": [{"topic": each.topic, "why": each.why} for each in counted.left_out],
        "more_topics": counted.more_topics,
        "more": more,
        **(_messages(request, tenant, query) if first else {}),
    }


def _messages(request: ConsoleRequest, tenant: str, query: LettersQuery) -> dict[str, Any]:
    """A page of them. `read`: how many entries were looked at for it."""
    after = request.GET.get("after", "")
    seconds_max = letters.SECONDS_MAX if after else FIRST_SECONDS_MAX
    found = letters.letters(request.actor, tenant, query, after, LETTERS_SHOWN, seconds_max)
    return {
        "rows": [_letter(letter) for letter in found.items],
        "read": found.looked_at,
        "unread": next(({"topic": each.topic, "why": each.why} for each in found.left_out), None),
        "links": cursor_links(request.GET, found.next or ""),
    }


def _group_columns(query: LettersQuery, title: str) -> tuple[Column, ...]:
    staying = Column("staying", gettext("Would stay"), value=lambda group: group.staying, down=True, look="number")
    return (
        Column("messages", value=lambda group: (group.messages, group.value), down=True),
        Column("value", title, value=lambda group: group.value),
        Column("count", gettext("Messages"), value=lambda group: group.messages, down=True, look="number"),
        *(() if query.by == "outcome" else (staying,)),
        Column("oldest", gettext("Oldest"), value=lambda group: group.oldest_ms),
        Column("newest", gettext("Newest"), value=lambda group: group.newest_ms, down=True),
    )


def _lasting(query: QueryDict) -> QueryDict:
    """Without what is of one request of the page."""
    kept = query.copy()
    for name in _PASSING:
        kept.pop(name, None)
    return kept


def _kept(request: ConsoleRequest, number: str, after: str) -> _Sums:
    """What this page has counted so far; anew where that is not known any more."""
    kept = request.session.get(SUMS, {}).get(number)
    sums = converted(kept, _Sums) if kept else _Sums()
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
    """The page with these parameters; counting and listing begin anew unless `changed` says where to go on."""
    kept = {name: value for name, value in parameters.items() if name not in _PASSING}
    return f"{here}?{urlencode({**kept, **changed})}"


def _chips(here: str, parameters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for name in _FILTERED:
        if name in parameters:
            rest = {key: value for key, value in parameters.items() if key != name}
            value = parameters[name]
            known = name in MOMENTS and value.isascii() and value.isdecimal() and len(value) < 19
            at_ms = int(value) if known else None
            yield {"label": FILTERS[name], "value": value, "at_ms": at_ms, "without": _address(here, rest)}


# --- what is done with them


def _started(request: ConsoleRequest, tenant: str, form: MoveForm) -> bool:
    given = form.cleaned_data
    parameters = {name: request.POST[name] for name in _FILTERED if request.POST.get(name)}
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
        add_error(request, form, error)
        return False
    if started:
        text = ngettext("{count} redrive was started.", "{count} redrives were started.", len(started))
        show_message(request, text.format(count=exact(len(started))))
    for refusal in refused[:5]:
        show_error(request, gettext("{name}: {why}").format(name=refusal.topic, why=sentence(said(refusal.why))))
    if not started and not refused:
        form.add_error(None, gettext("Nothing matches: no redrive was started."))
        return False
    return True


def _decide(request: ConsoleRequest, tenant: str) -> None:
    """Of one redrive, or of all that can be told so."""
    decision, job_id = request.POST["decision"], request.POST.get("job", "")
    if decision not in DECISIONS:
        return
    with tenant_scope(tenant):
        rows = RedriveJob.objects.filter(id=job_id) if job_id else RedriveJob.objects.filter(state__in=DECISIONS[decision][0])
        found = [(job.topic, job.id) for job in rows[: actions.ACTIVE_MAX]]
    decide(request, found, decision)
