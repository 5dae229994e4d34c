"""Middleware for /api/v1: entity tags, `If-None-Match`, `If-Match` and `Idempotency-Key`.

A tag is the hash of an answer. A change with `If-Match` is made only if a GET of the same address would still answer with that tag:
this is asked before the view runs, and again under the lock of a change of the control plane's rows. What the broker keeps is
compared under a lock of this process, which orders the changes that come with `If-Match`; others do not wait for it.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from controlplane.middleware import OURS, resource_of
from controlplane.permissions import PAYLOAD_READS, REST
from messaging.errors import InvalidValue, MagnetarError, NotReady, PreconditionFailed
from tenants import idempotency
from tenants.access import require
from tenants.http.authentication import actor_of
from tenants.http.errors import answer_error
from tenants.http.queries import READING
from tenants.http.request_state import state_of
from tenants.models import IdempotencyKey

CONDITIONAL = ("PUT", "PATCH", "DELETE")
LOCKS = 64
LOCK_S = 20.0
TAG_DIGITS = 32
_locks = [threading.Lock() for _ in range(LOCKS)]


@dataclass
class _Running:
    """What a request has until it is answered: the row of its idempotency key, the lock of its address."""

    row: IdempotencyKey | None = None
    lock: threading.Lock | None = None


class ApiRequests:
    """Innermost, around the view: permissions were checked before."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        running = _Running()
        request.magnetar_running = running  # type: ignore[attr-defined]
        try:
            response = self._get_response(request)
        finally:
            if running.lock is not None:
                running.lock.release()
        if running.row is not None:
            actor = state_of(request).actor
            idempotency.finish(running.row, response, carried_out=actor is not None and actor.trail.records > 0)
        match = request.resolver_match
        if match is None or match.namespace not in OURS or request.method not in READING:
            return response
        return _tagged(request, response)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]) -> HttpResponse | None:
        match = request.resolver_match
        if match is None or match.namespace not in OURS or request.method in READING:
            return None
        running: _Running = request.magnetar_running  # type: ignore[attr-defined]
        try:
            key = request.headers.get("Idempotency-Key")
            if key is not None:
                begun = idempotency.begin(request, actor_of(request).principal, key)
                if isinstance(begun, HttpResponse):
                    state_of(request).dry_run = True  # nothing is done, so nothing is recorded as done
                    return begun
                running.row = begun
            wanted = request.headers.get("If-Match")
            if wanted is not None:
                _require_match(request, running, view, kwargs, wanted)
        except MagnetarError as error:
            return answer_error(request, error)
        return None


def _require_match(request: HttpRequest, running: _Running, view: Any, kwargs: dict[str, Any], wanted: str) -> None:
    """Raises `PreconditionFailed` unless the tag is that of the present state, `InvalidValue` where nothing has one."""
    read = ("GET", request.resolver_match.view_name if request.resolver_match else "")
    action = REST.get(read)
    if request.method not in CONDITIONAL or action is None or read in PAYLOAD_READS:
        raise InvalidValue("If-Match is not possible here: it takes a PUT, PATCH or DELETE of what a GET of its address shows")
    actor = actor_of(request)
    require(actor, action, resource_of(kwargs))
    running.lock = _locked(request.path)
    tags = [tag.strip() for tag in wanted.split(",")]

    def check() -> None:
        present = _present_tag(request, view, kwargs)
        if not present or (present not in tags and tags != ["*"]):
            raise PreconditionFailed("this was changed since it was read: read it again, and repeat the change with the new ETag")

    check()
    actor.conditions.append(check)


def _locked(path: str) -> threading.Lock:
    """Raises `NotReady`."""
    lock = _locks[hash(path) % LOCKS]
    if not lock.acquire(timeout=LOCK_S):
        raise NotReady("another change of this is under way: try again in a moment")
    return lock


def _present_tag(request: HttpRequest, view: Any, kwargs: dict[str, Any]) -> str:
    """The tag of what a GET answers now; "" where there is nothing."""
    asked = copy.copy(request)
    asked.method, asked.GET = "GET", QueryDict()
    asked.META = {**request.META, "REQUEST_METHOD": "GET", "QUERY_STRING": "", "CONTENT_LENGTH": "0"}
    response = view(asked, **kwargs)
    if hasattr(response, "render") and not response.is_rendered:
        response.render()
    return _tag(response) if response.status_code == 200 else ""


def _tag(response: HttpResponse) -> str:
    return f'"{hashlib.sha256(response.content).hexdigest()[:TAG_DIGITS]}"'


def _tagged(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    if response.status_code != 200 or response.streaming or "no-store" in response.headers.get("Cache-Control", ""):
        return response
    tag = _tag(response)
    known = [each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")]
    if tag in known or known == ["*"]:
        response = HttpResponse(status=304)
        del response.headers["Content-Type"]
    response.headers["ETag"] = tag
    response.headers.setdefault("Cache-Control", "private, no-cache")
    return response
