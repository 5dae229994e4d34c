"""Error responses of the web process: problem+json on our API, ``{"reason"}`` on Pulsar's, a page elsewhere; each with a request
id."""

from __future__ import annotations

import sys
from http import HTTPStatus
from typing import Any

import msgspec
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string

from messaging import errors
from messaging.permissions.model import ANONYMOUS
from tenants.access import NotVisible
from tenants.http.refusals import FOR_A_FORM, FORM_TOO_OLD, MAY_NOT, NOT_UNDERSTOOD, TOO_LARGE
from tenants.http.request_state import state_of
from tenants.pulsar.published import NOTHING_INSTEAD, published, service, why_not

API, PULSAR, INTERNAL = "/api/", ("/admin/", "/lookup/", "/proxy-stats/"), "/internal/"
ADMIN = "/admin/v2/"
_PROBLEM_TYPE = "https://magnetar.invalid/problems/"  # identifies, leads nowhere (RFC 9457 section 3.1.1)
DATABASE_AWAY = "the database of the control plane does not respond: try again in a moment; the log of the web process says why"
_API_STATUS = {"invalid_name": 400}  # where Pulsar's status would puzzle everybody else


def answer_error(request: HttpRequest, error: errors.MagnetarError) -> HttpResponse:
    """The answer to a typed error. Somebody unknown is told to say who they are before anything else."""
    status, code, message = error.http_status, error.code, error.message
    if isinstance(error, errors.NotAuthorized | errors.AuthenticationFailed):
        deny(request, message)
    actor = state_of(request).actor
    if isinstance(error, errors.NotAuthorized) and actor is not None and actor.principal.role == ANONYMOUS:
        status, code = 401, "authentication_failed"
        message = f"sign in, or send `Authorization: Bearer <token>`: {message}"
    elif isinstance(error, NotVisible):
        code = "not_authorized"
        if request.path.startswith(API):
            status, code, message = 404, "not_found", "this does not exist, or you do not have access to it"
    elif request.path.startswith(API):
        status = _API_STATUS.get(code, status)
    response = answer(request, status, code, message)
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def deny(request: HttpRequest, why: str) -> None:
    """This request is refused for want of a right, or of a name: `controlplane.audit` records it when its answer is made."""
    state_of(request).denied = why or "refused"


def fail(request: HttpRequest, error: errors.MagnetarError, *, begun: bool) -> None:
    """A page says this error in words, and its own status tells nothing of it: `controlplane.audit` learns it here. `begun`: False
    for what only looked what a change would do."""
    state = state_of(request)
    state.failed = max(state.failed, error.http_status if begun else errors.InvalidValue.http_status)
    if isinstance(error, errors.NotAuthorized):
        deny(request, error.message)


def answer(request: HttpRequest, status: int, code: str, message: str, *, asks_database: bool = True) -> HttpResponse:
    """One error, in the shape that callers of this path expect. `asks_database`: whether a page may look up who is signed in."""
    request_id = getattr(request, "request_id", "")
    if request.path.startswith(API):
        return HttpResponse(problem(status, code, message, request_id), status=status, content_type="application/problem+json")
    if request.path.startswith(PULSAR):
        body: dict[str, Any] = {"reason": message, "code": code, "request_id": request_id}
        return HttpResponse(msgspec.json.encode(body), status=status, content_type="application/json")
    if request.path.startswith(INTERNAL):
        return HttpResponse(msgspec.json.encode({"code": code, "message": message}), status=status, content_type="application/json")
    return _page(request if asks_database else None, status, message, request_id)


def problem(status: int, code: str, message: str, request_id: str) -> bytes:
    return msgspec.json.encode(
        {
            "type": _PROBLEM_TYPE + code,
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": message,
            "code": code,
            "request_id": request_id,
        }
    )


def _page(request: HttpRequest | None, status: int, message: str, request_id: str) -> HttpResponse:
    context = {"status": status, "title": HTTPStatus(status).phrase, "message": message, "request_id": request_id}
    try:
        return HttpResponse(render_to_string("admin_ui/error.html", context, request), status=status)
    except TemplateDoesNotExist:
        text = f"{status} {context['title']}\n\n{message}\n\nRequest {request_id}\n"
        return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")


# --- Django's own errors (named in controlplane.urls) -----------------------------------------------------------------------


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return answer(request, 413, "too_large", TOO_LARGE)
    return answer(request, 400, "invalid_request", NOT_UNDERSTOOD)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    deny(request, str(exception))
    return answer(request, 403, "not_authorized", str(exception) or MAY_NOT)


def not_a_method(request: HttpRequest, offered: list[str]) -> HttpResponse:
    """Of a page: its address was opened where only a form is taken, as by somebody who loads it again."""
    response = answer(request, 405, "method_not_allowed", FOR_A_FORM)
    response.headers["Allow"] = ", ".join(offered)
    return response


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if request.path.startswith(PULSAR):
        asked = f"{request.method} {request.path[:300]}"
        row = published(request.path_info.removeprefix(ADMIN)) if request.path_info.startswith(ADMIN) else None
        beside = service(request.path_info.removeprefix("/admin/"))
        if beside is not None:
            return answer(request, beside.status, "not_offered", f"{asked} is not offered here: {beside.why}")
        if row is None:
            return answer(request, 404, "not_offered", f"{asked} is not offered here: docs/admin-api.md lists what is")
        if request.method not in row.methods:
            return answer(request, 405, "method_not_allowed", f"{asked} is not offered here: Pulsar has {', '.join(row.methods)}")
        return answer(request, 501, "not_offered", f"{asked} is not offered here: {why_not(row.path)}")
    return answer(request, 404, "not_found", "there is nothing at this address")


def instead(request: HttpRequest) -> str:
    """Why a method that Pulsar has is not offered, and what to do instead: the beginning of a sentence. "" if nothing is known."""
    row = published(request.path_info.removeprefix(ADMIN)) if request.path_info.startswith(ADMIN) else None
    why = why_not(row.path) if row is not None and request.method in row.methods else NOTHING_INSTEAD
    return "" if why == NOTHING_INSTEAD else f"{why}; or "


def server_error(request: HttpRequest) -> HttpResponse:
    """Called by Django while it handles what was raised. A database that is away, or was interrupted, is no fault of ours."""
    if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return answer(request, 503, errors.NotReady.code, DATABASE_AWAY, asks_database=False)
    return answer(request, 500, "internal", "this is a fault of ours, and it was logged: report it with the request id")


def csrf_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    deny(request, f"without a valid CSRF token: {reason}")
    return answer(request, 403, "csrf", FORM_TOO_OLD)
