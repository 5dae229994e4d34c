"""Bodies, queries and answers as Pulsar's tools send and expect them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from messaging.bodies import decode
from messaging.errors import InvalidValue, NotAllowed, NotFound
from messaging.limits import structs
from messaging.limits.depth import check_depth
from messaging.limits.model import check
from messaging.permissions.model import Resource
from tenants.access import Actor
from tenants.http.authentication import actor_of
from tenants.pulsar.bodies import Bare

T = TypeVar("T")
View = Callable[..., HttpResponse]
Handler = Callable[..., Any]


def body(request: HttpRequest, kind: type[T] | Bare[T], default: Any = None) -> T:
    """The JSON body as `kind`. An empty body, and `null`, are `default`: tools send both. Fields we do not know are skipped, and
    numbers and truth values may be in quotes, as for Pulsar's parser. Raises the error of a limit."""
    raw = request.body.strip()
    if raw in (b"", b"null"):
        return default  # type: ignore[no-any-return]
    value = decode(raw, kind.kind if isinstance(kind, Bare) else kind)
    if isinstance(kind, Bare) and not isinstance(value, msgspec.Struct):
        check(kind.name, value, kind.limit)
        check_depth(value)
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, msgspec.Struct):
            structs.check(part)
    return value


def flag(request: HttpRequest, name: str) -> bool:
    return request.GET.get(name, "").lower() == "true"


def number(text: str, name: str, least: int = 0) -> int:
    """A number of the path or the query. As of Pulsar, what is not one is not found."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
        raise NotFound(f"{name} {text[:40]!r} is not a whole number")
    if int(text) < least:
        raise InvalidValue(f"{name} {text[:40]!r} is not a whole number of at least {least}")
    return int(text)


def json(value: object, status: int = 200) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(value), status=status, content_type="application/json")


def text(value: str) -> HttpResponse:
    """A bare word, with the content type that Pulsar gives it."""
    return HttpResponse(value, content_type="application/json")


def done() -> HttpResponse:
    return HttpResponse(status=204)


def value_or_nothing(value: object) -> HttpResponse:
    """200 without a body for what is not set, as Pulsar answers it."""
    if value is not None:
        return json(value)
    response = HttpResponse(status=200)
    del response.headers["Content-Type"]
    return response


def route(resources: Callable[[HttpRequest], list[Resource]] | None = None, /, **handlers: Handler) -> View:
    """A view of one handler a method: ``route(GET=read, PUT=create)``. A handler gets the request and the arguments of the route.

    A handler that returns None is answered with 204, one that returns something else than a response with its JSON. Permissions
    were checked before (`controlplane.middleware.PermissionTable`), and there a session's CSRF token; bearer tokens need none.
    `resources`: what a request acts on, where its path does not say that; its permission is checked for each of them.
    """

    @csrf_exempt
    def view(request: HttpRequest, **arguments: str) -> HttpResponse:
        handler = handlers.get("GET" if request.method == "HEAD" else request.method or "")
        if handler is None:
            raise NotAllowed(f"{request.method} is not allowed here: use {', '.join(handlers)}")
        answer = handler(request, **arguments)
        if isinstance(answer, HttpResponse):
            return answer
        return done() if answer is None else json(answer)

    view.methods = tuple(handlers)  # type: ignore[attr-defined]
    view.resources = resources  # type: ignore[attr-defined]
    return view


def actor(request: HttpRequest) -> Actor:
    return actor_of(request)
