"""The messages of a topic: browsing and searching them, and one of them with all that is known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.messages.form import FIELDS, SearchForm, first_fields, further_fields, uses_further
from admin_ui.messages.rows import columns_found, is_whole, shown, whole_text
from admin_ui.messages.search import SHOWN, Search, search_of
from admin_ui.pages import crumbs, navigation, sentence, show
from admin_ui.time_zones import in_utc, typed
from admin_ui.translation.texts import gettext
from admin_ui.views.topics import topic_name
from messaging.adminrpc.diagnosis import MessageTrace
from messaging.adminrpc.methods import MESSAGES_TRACE
from messaging.errors import InvalidValue, MagnetarError, NotAuthorized, NotReady, TopicNotFound
from messaging.limits.sizes import INT64_MAX
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import TopicName
from tenants.actions.topics import topic_resource
from tenants.browsing.pages import MessagesPage, browse, message_at, messages_read, require_reading
from tenants.browsing.query import Place, message_query
from tenants.http.request_state import state_of
from tenants.masking import masks_of
from tenants.names import message_of

POLLS_MAX = 300  # of a tail: after ten minutes somebody has to say that they still look
WHOLE_BYTES_MAX = 1 << 20  # of a payload that is opened


@page
def messages(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    name, here = topic_name(tenant, namespace, topic), reverse("console:messages", args=[tenant, namespace, topic])
    if receipt := request.GET.get("receipt", "").strip():
        state_of(request).nothing_read = True
        return HttpResponseRedirect(_looked_up(name, receipt, (tenant, namespace, topic)))
    times = ("published_from", "published_until", *(("at",) if request.GET.get("begin") == "time" else ()))
    if in_utc_address := in_utc(request, times):
        state_of(request).nothing_read = True
        return in_utc_address
    found, problem = _read(request, lambda: _found(request, name, search_of(name, request.GET)))
    shown = {field: typed(text) if field in times else text for field, text in request.GET.dict().items()}
    form = SearchForm({"begin": "newest", **shown})
    part = "parts/messages_found.html" if request.headers.get("HX-Request") else "pages/messages.html"
    return show(
        request,
        part,
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic]))),
        local=topic,
        persistent=name.persistent,
        here=here,
        first_fields=first_fields(form),
        further_fields=further_fields(form),
        uses_further=uses_further(request.GET),
        searched=any(request.GET.get(field) for field in FIELDS if field not in ("begin", "at", "format", "columns")),
        problem=problem,
        looked_before=_looked_before(request),
        retries="stop" not in request.GET,
        **found,
    )


def _read(request: ConsoleRequest, read: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """What `read` found, and why it could not read as a sentence; with `away`, the broker may answer later."""
    try:
        return read(), ""
    except TopicNotFound:
        raise Http404 from None
    except NotAuthorized as error:
        raise PermissionDenied(error.message) from None
    except MagnetarError as error:
        state_of(request).nothing_read = True
        return {"away": isinstance(error, NotReady)}, sentence(
            error.message if isinstance(error, InvalidValue) else broker.why(error)
        )


def _found(request: ConsoleRequest, name: TopicName, search: Search) -> dict[str, Any]:
    require_reading(request.actor, name, search.query)
    masks = masks_of(request.actor, name)
    result: MessagesPage = broker.ask(lambda rpc: browse(rpc, name, search.query, masks))
    request.actor.trail.after = messages_read(row.message_id for row in result.items)
    state_of(request).nothing_read = search.query.going_on and not result.items
    columns = search.columns or columns_found(result.items)
    looked_at = result.looked_at + _looked_before(request)
    more = "" if result.next is None else search.address(after=result.next, looked=str(looked_at))
    return {
        "rows": [shown(row, columns) for row in result.items],
        "columns": [title for title, _ in columns],
        "page": result,
        "all": search.address(),
        "may_publish": request.actor.may(Action.PRODUCE, topic_resource(name)),
        "partitions": result.partitions or None,
        "looked_at": looked_at,
        "total": looked_at + result.left,
        "more": more,
        "goes_on": bool(more) and not result.items and "stop" not in request.GET,  # by itself: nothing was found yet
        "full": len(result.items) >= SHOWN,
    }


@page
def messages_tail(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """What is published from now on; the page asks again every two seconds for what came since."""
    name, parts = topic_name(tenant, namespace, topic), [tenant, namespace, topic]
    followed, problem = _read(request, lambda: _followed(request, name))
    if followed.get("away"):  # it is asked again from the same place
        polls, given = _number(request, "polls") + 1, {key: value for key, value in request.GET.items() if key != "polls"}
        followed["again"] = "?" + urlencode(given)
        followed["further"] = "?" + urlencode({**given, "polls": str(polls)})
        followed["ended"] = polls >= POLLS_MAX
    part = "parts/messages_tail.html" if request.headers.get("HX-Request") else "pages/messages_tail.html"
    return show(
        request,
        part,
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (topic, reverse("console:topic", args=parts))),
        local=topic,
        persistent=name.persistent,
        partitions=None,
        here=reverse("console:messages", args=parts),
        tail=reverse("console:messages_tail", args=parts),
        problem=problem,
        **followed,
    )


def _followed(request: ConsoleRequest, name: TopicName) -> dict[str, Any]:
    search = search_of(name, {**request.GET.dict(), "begin": "oldest"})
    polls = _number(request, "polls") + 1
    query = search.query
    if query.place is None or not query.going_on:
        query = query._replace(place=Place(name.partition, INT64_MAX, INT64_MAX))
    require_reading(request.actor, name, query)
    masks = masks_of(request.actor, name)
    result = broker.ask(lambda rpc: browse(rpc, name, query, masks))
    request.actor.trail.after = messages_read(row.message_id for row in result.items)
    if result.partitions:
        raise InvalidValue(
            gettext("it is partitioned: follow one of its partitions, {local}-partition-0 and so on").format(local=name.local)
        )
    state_of(request).nothing_read = query.going_on and not result.items
    return {
        "rows": [shown(row, []) for row in reversed(result.items)],
        "behind": result.left,
        "further": search.address(after=result.end, polls=str(polls)),
        "ended": polls >= POLLS_MAX,
        "filters": {name: value for name, value in search.parameters.items() if name != "begin"},
        "again": search.address(),
    }


def _looked_up(name: TopicName, receipt: str, parts: tuple[str, str, str]) -> str:
    """The page of a message, or of those with a key."""
    try:
        message_of(name, receipt)
    except InvalidValue:
        return reverse("console:messages", args=parts) + "?" + urlencode({"begin": "oldest", "key": receipt})
    return reverse("console:message", args=[*parts, receipt])


def _looked_before(request: ConsoleRequest) -> int:
    return _number(request, "looked")


def _number(request: ConsoleRequest, name: str) -> int:
    text = request.GET.get(name, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0


def _one(request: ConsoleRequest, name: TopicName, message_id: str) -> dict[str, Any]:
    query = message_query(name, {"position": message_id, "format": request.GET.get("format", "")})
    message_of(name, message_id)
    masks = masks_of(request.actor, name)
    row = broker.ask(lambda rpc: message_at(rpc, name, query, masks, WHOLE_BYTES_MAX))
    request.actor.trail.after = messages_read([row.message_id])
    return {"row": row}


def _became(name: TopicName, message_id: str) -> dict[str, Any]:
    at = message_of(name, message_id)
    asked = MessageTrace(topic=str(at.topic), ledger_id=at.ledger_id, entry_id=at.entry_id)
    return {"traced": broker.ask(lambda rpc: rpc.call(MESSAGES_TRACE, asked))}


@page
def message(request: ConsoleRequest, tenant: str, namespace: str, topic: str, message_id: str) -> HttpResponse:
    """One message: what it holds, and what became of it."""
    name, told = topic_name(tenant, namespace, topic), dict[str, Any]()
    found, problem = _read(request, lambda: _one(request, name, message_id))
    row = found.get("row")
    if row is not None:
        told, problem = _read(request, lambda: _became(name, message_id))
        state_of(request).nothing_read = False
    traced = told.get("traced")
    here = reverse("console:messages", args=[tenant, namespace, topic])
    whole = whole_text(row) if row is not None else ""
    return show(
        request,
        "pages/message.html",
        navigation(request, "topic", tenant, namespace),
        crumbs=crumbs(
            tenant, namespace, (topic, reverse("console:topic", args=[tenant, namespace, topic])), (gettext("Messages"), here)
        ),
        local=topic,
        here=here,
        message_id=message_id,
        row=row,
        whole=whole,
        beginning_only=row is not None and not is_whole(row, whole),
        traced=traced,
        persistent=str(name),
        away=found.get("away") or told.get("away"),
        may_see_audit=request.actor.may(Action.AUDIT_READ, Resource(tenant)),
        problem=problem,
        may_publish=request.actor.may(Action.PRODUCE, topic_resource(name)),
        may_redrive=row is not None
        and not row.masked
        and "REAL_TOPIC" in row.properties  # it is a dead letter
        and request.actor.may(Action.OPERATE, topic_resource(name))
        and request.actor.may(Action.PRODUCE, Resource(tenant, str(name.namespace))),
    )
