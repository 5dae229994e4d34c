"""Middleware for every request.

All of it is synchronous, like the views: Django then runs the whole chain on one thread, with one change of thread a request.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse, ReauthenticationRequired
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from structlog.contextvars import bound_contextvars

from controlplane.permissions import REST
from messaging import logs
from messaging.errors import InvalidName, MagnetarError, NotAuthorized
from messaging.permissions.model import Action, Resource, tenant_of_key_role
from messaging.policies.model import Level
from messaging.policies.registry import POLICIES
from messaging.policies.resolution import resolve_policy
from tenants.access import Actor, require
from tenants.call_rates import call_rates
from tenants.http import segments
from tenants.http.authentication import actor_of, service_of
from tenants.http.errors import PULSAR, answer, answer_error, instead
from tenants.http.queries import check_declared, check_no_dry_run
from tenants.http.request_state import state_of
from tenants.names import namespace_of, subscription_of, topic_of

_log = logs.get_logger("web")
# 404, 403, 400, and what allauth answers: not failures.
EXPECTED = (Http404, PermissionDenied, BadRequest, SuspiciousOperation, ImmediateHttpResponse, ReauthenticationRequired)
GetResponse = Callable[[HttpRequest], HttpResponse]
ResourcesOf = Callable[[HttpRequest], list[Resource]]
OURS = ("api", "billing")  # their views declare the parameters of a query
TABLED = (
    "api",
    "billing",
    "admin_v1",
    "admin_v2",
    "lookup",
    "internal",
    "health",
)  # URL namespaces with rows in REST

CALLS_CEILING = "tenant_admin_rate_calls"
CALLS_DEFAULT = {CALLS_CEILING: POLICIES[CALLS_CEILING].default}

requests_by_status: Counter[int] = Counter()


class RequestId:
    """Outermost: assigns a request id for the log, the audit log and the response, and counts responses. Ids of callers are
    ignored."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.request_id = secrets.token_hex(8)  # type: ignore[attr-defined]
        with bound_contextvars(request_id=request.request_id):  # type: ignore[attr-defined]
            response = self._get_response(request)
        if response.status_code == 204:
            # No body, so no content type: Pulsar's Java client waits forever on a 204 with a content type.
            response.headers.pop("Content-Type", None)
            response.headers.pop("Content-Length", None)
        response.headers["X-Request-ID"] = request.request_id  # type: ignore[attr-defined]
        requests_by_status[response.status_code] += 1
        return response


class SegmentsAsSent:
    """Gives the resolver a path in which an encoded slash is not a slash (`tenants.http.segments`)."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(segments.PREFIXES):
            raw = getattr(request, "scope", {}).get("raw_path")
            request.path_info = segments.as_sent(raw) if raw else segments.from_decoded(request.path_info)
            if request.path_info.startswith(PULSAR):  # there a slash at the end makes no difference
                request.path_info = request.path_info.rstrip("/")
            # REST framework ignores a body without a length. (`guard` has limited the size of what is read here.)
            if "CONTENT_LENGTH" not in request.META and "HTTP_TRANSFER_ENCODING" in request.META:
                request.META["CONTENT_LENGTH"] = str(len(request.body))
        return self._get_response(request)


class PermissionTable:
    """Innermost: the permission of a route is its row of the table. A route without a row is refused, whoever asks; and so is a
    query with a parameter that our API does not know.

    The resource is read from the arguments of the route: `tenant`, `namespace`, `domain` and `topic`, `subscription`. A route whose
    path names none says itself which ones a request acts on (`tenants.http.views.route`), at least one; each is checked.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: dict[str, Any]) -> HttpResponse | None:
        match = request.resolver_match
        if match is None or match.namespace not in TABLED:
            return None
        method = "GET" if request.method == "HEAD" else request.method or ""
        action = REST.get((method, match.view_name))
        if action is None:
            offered = sorted(row_method for row_method, name in REST if name == match.view_name)
            return _not_a_method(request, offered)
        try:
            self._check(request, action, kwargs, getattr(view, "resources", None))
            if match.namespace in OURS:
                check_declared(request.GET, getattr(view, "query_parameters", {}).get(method, frozenset()))
            else:
                check_no_dry_run(request)
        except MagnetarError as error:
            return answer_error(request, error)
        return None

    def _check(self, request: HttpRequest, action: Action, kwargs: dict[str, Any], resources: ResourcesOf | None) -> None:
        if action is Action.PUBLIC:
            return
        if action is Action.SERVICE:
            state_of(request).actor = Actor(service_of(request, f"GET {request.path}"))
            return
        actor = actor_of(request)
        _check_calls(actor)
        if action is Action.AUTHENTICATED and actor.principal.anonymous:
            raise NotAuthorized("sign in first, or send a token")
        if resources is None:
            require(actor, action, resource_of(kwargs))
            return
        for resource in resources(request):
            state_of(request).denied_tenant = resource.tenant  # whose audit log has it, if this is where it ends
            require(actor, action, resource)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, MagnetarError) and request.path.startswith(("/api/", "/admin/", "/lookup/", "/internal/")):
            return answer_error(request, exception)
        if isinstance(exception, EXPECTED):
            _log.info("request refused", path=request.path, method=request.method, why=type(exception).__name__)
        elif not isinstance(exception, MagnetarError):
            _log.error("request failed", path=request.path, method=request.method, exc_info=exception)
        return None


def _check_calls(actor: Actor) -> None:
    """Counts a call of a key where its tenant has a ceiling of them. Raises `QuotaExceeded`."""
    tenant = tenant_of_key_role(actor.principal.role)
    if not tenant or actor.may(Action.SUPERUSER):
        return
    levels = {Level.TENANT: actor.grants.tenant_policies(tenant)}
    calls_per_s = resolve_policy(CALLS_CEILING, levels, CALLS_DEFAULT).value
    if calls_per_s:
        call_rates.take(tenant, calls_per_s, time.time_ns() // 1_000_000)


def _not_a_method(request: HttpRequest, offered: list[str]) -> HttpResponse:
    if not offered:  # a route without a row; a test prevents this
        return answer(request, 403, "not_authorized", "this route has no row in the permission table, so it is closed")
    text = f"{request.method} is not offered here: {instead(request)}use {', '.join(offered)}"
    response = answer(request, 405, "method_not_allowed", text)
    response.headers["Allow"] = ", ".join(offered)
    return response


def resource_of(kwargs: dict[str, Any]) -> Resource:
    """The resource that a route acts on. Raises `InvalidName`."""
    if any("\x00" in value for value in kwargs.values()):
        raise InvalidName("a name in the path contains a NUL character: remove it")
    tenant = kwargs.get("tenant", "")
    if "namespace" not in kwargs:
        return Resource(tenant)
    namespace = str(namespace_of(tenant, kwargs["namespace"]))
    topic = str(topic_of(kwargs)) if "topic" in kwargs else ""
    subscription = subscription_of(kwargs["subscription"]) if "subscription" in kwargs else ""
    return Resource(tenant, namespace, topic, subscription)
