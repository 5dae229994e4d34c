"""Middleware that records requests in the audit log: those that were carried out and those that were refused.

`controlplane.permissions.AUDITED` says which requests are recorded, so that no view can forget it. Actions that change rows write
their own record, with the state before and after, in the transaction of the change; for other requests this middleware records
what was requested. If a record cannot be written, the caller is told: message contents are then not shown, and a change is
reported as made but not recorded. Refused requests are recorded one by one up to a limit, and counted beyond it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse

from controlplane.denials import Denials, Refused, Uncounted
from controlplane.permissions import AUDITED, PAYLOAD_READS
from messaging import logs
from messaging.client_address import place_of
from messaging.errors import MagnetarError
from messaging.permissions.audited import (
    CHANGE_PASSWORD,
    CHANGE_PASSWORD_FAILED,
    DENIED,
    DENIED_MORE,
    SIGN_IN,
    SIGN_IN_FAILED,
    SIGN_OUT,
)
from messaging.permissions.model import Principal, user_role
from tenants.access import Actor, actor_of_user
from tenants.actions.change import record
from tenants.http.authentication import client_address_of
from tenants.http.errors import answer
from tenants.http.request_state import state_of
from tenants.names import namespace_of, subscription_of, topic_of

_log = logs.get_logger("audit")
GetResponse = Callable[[HttpRequest], HttpResponse]

OF_ACCOUNT = ("account_", "mfa_", "openid_connect_")  # how the names of allauth's pages begin
UNKNOWN = "unknown"  # the actor of a request that was refused before authentication
TEXT_MAX = 500  # characters of any text that a caller sends
# The request was not understood, or named nothing that exists: nothing was done.
NOTHING_DONE = frozenset({400, 404, 405, 406, 413, 415})
_PAGES = ("console:", *OF_ACCOUNT)
_NAMES = ("tenant", "namespace", "domain", "topic", "subscription")
_FAILED = {SIGN_IN: SIGN_IN_FAILED, CHANGE_PASSWORD: CHANGE_PASSWORD_FAILED}

denials = Denials()
failures = 0  # records that could not be written, since the start


class AuditTrail:
    """Outside of everything that refuses."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        for more in denials.due(time.time()):
            _written(_count, more)
        response = self._get_response(request)
        match = request.resolver_match
        if match is None:
            return response
        method = "GET" if request.method == "HEAD" else request.method or ""
        asked = (method, match.view_name)
        denied, status = state_of(request).denied, state_of(request).failed or response.status_code
        if denied:
            _refuse(request, asked, DENIED, denied, status)
            return response
        action = AUDITED.get(asked)
        if action is None or _recorded(request) or state_of(request).dry_run or state_of(request).nothing_read:
            return response
        if action in _FAILED and response.status_code != 302:
            _refuse(request, asked, _FAILED[action], "", response.status_code)
            return response
        if _carried_out(request, asked, response.status_code) and not _written(_record, request, action, status):
            return _not_recorded(request, asked)
        return response

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: dict[str, Any]) -> None:
        """Remembers the user before they are signed out."""
        match = request.resolver_match
        user: Any = getattr(request, "user", None)
        if match is not None and AUDITED.get((request.method or "", match.view_name)) == SIGN_OUT and user.is_authenticated:
            state_of(request).actor = actor_of_user(user, request.request_id, client_address_of(request))  # type: ignore[attr-defined]


def actor_of_request(request: HttpRequest) -> Actor | None:
    return state_of(request).actor


def _recorded(request: HttpRequest) -> bool:
    actor = actor_of_request(request)
    return actor is not None and actor.trail.records > 0


def _carried_out(request: HttpRequest, asked: tuple[str, str], status: int) -> bool:
    """Also what failed half-way. A page of the console that says an error did nothing, unless nobody knows how far it came, or it
    left word of what it did before; nor did one that is shown again with what is wrong in its form."""
    if asked[1].startswith(_PAGES) and asked not in PAYLOAD_READS:
        if failed := state_of(request).failed:
            actor = actor_of_request(request)
            return failed >= 500 or (actor is not None and bool(actor.trail.before or actor.trail.after))
        return status not in (*NOTHING_DONE, 200)
    return status not in NOTHING_DONE


def _record(request: HttpRequest, action: str, status: int) -> None:
    actor = actor_of_request(request)
    if action == SIGN_IN:
        return  # signing in leaves its own record (`admin_ui.sign_in.trail`): a second factor is still to come
    if actor is None:
        return  # nobody was signed in who could sign out
    kwargs: dict[str, Any] = request.resolver_match.kwargs if request.resolver_match else {}
    if request.resolver_match and request.resolver_match.view_name.startswith(OF_ACCOUNT):
        kwargs = {}  # links of mail hold secrets
    after = {name: _plain(str(value)) for name, value in kwargs.items() if name not in _NAMES}
    if query := request.META.get("QUERY_STRING", ""):
        after["query"] = _plain(query)
    if body := _body(request):
        after["body"] = body
    if status >= 400:
        after["status"] = str(status)
    trail = actor.trail
    record(actor, action, kwargs.get("tenant", ""), _resource(kwargs), trail.before, {**after, **(trail.after or {})} or None)


def _refuse(request: HttpRequest, asked: tuple[str, str], action: str, why: str, status: int) -> None:
    actor = actor_of_request(request)
    address = client_address_of(request)
    role = actor.principal.role if actor is not None else UNKNOWN
    if action == SIGN_IN_FAILED and "username" in request.POST:
        role = user_role(_plain(request.POST.get("username", ""))[:150])
    if not denials.one(Refused(place_of(address), role)):
        return
    shown = Actor(Principal(role), getattr(request, "request_id", ""), address=address)
    named = str(request.resolver_match.kwargs.get("tenant", "")) if request.resolver_match else ""
    tenant = named or state_of(request).denied_tenant
    after = {"asked": f"{asked[0]} {asked[1]}", "status": status, "why": _plain(why)}
    path = asked[1] if asked[1].startswith(OF_ACCOUNT) else request.path  # links of mail hold secrets
    _written(record, shown, action, _plain(tenant), _plain(path), None, after)


def _count(more: Uncounted) -> None:
    since = datetime.fromtimestamp(more.since_s, UTC).isoformat()
    role = more.who.role or UNKNOWN
    who = Actor(Principal(role), address=more.who.address)
    record(who, DENIED_MORE, "", "platform", None, {"count": more.refusals, "minute": since})


def _written(write: Callable[..., None], *arguments: Any) -> bool:
    """False where the database refused; that is said loudly, and counted."""
    global failures
    try:
        write(*arguments)
    except DatabaseError as error:
        failures += 1
        _log.critical("the audit log could not be written", error=str(error), failures=failures)
        return False
    return True


def _not_recorded(request: HttpRequest, asked: tuple[str, str]) -> HttpResponse:
    if asked in PAYLOAD_READS:
        text = "the audit log is unavailable, and messages are not shown without an audit record: try again later"
    else:
        text = "the request was carried out, but the audit log could not be written: do not repeat it, and tell the operator"
    return answer(request, 503, "not_recorded", text)


def _resource(kwargs: dict[str, Any]) -> str:
    """The resource that a route acts on, as text."""
    parts = kwargs.get("tenant", "")
    try:
        if "topic" in kwargs:
            parts = str(topic_of(kwargs))
        elif "namespace" in kwargs:
            parts = str(namespace_of(kwargs["tenant"], kwargs["namespace"]))
        if "subscription" in kwargs:
            parts += "/" + subscription_of(kwargs["subscription"])
    except MagnetarError:
        parts = "/".join(str(kwargs[name]) for name in _NAMES if name in kwargs)
    return _plain(parts, 1100) or "platform"


def _body(request: HttpRequest) -> str:
    """What Pulsar's tools sent: numbers and positions. Bodies of our own API are read as a stream, and its actions record
    them."""
    if not request.path.startswith("/admin/"):
        return ""
    return _plain(request.body[: TEXT_MAX * 4].decode("utf-8", "replace"))


def _plain(text: str, limit: int = TEXT_MAX) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:limit])
