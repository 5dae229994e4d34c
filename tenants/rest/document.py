"""The OpenAPI document and a page to read it."""

from __future__ import annotations

import gzip
import re
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import TemplateDoesNotExist
from django.urls import URLPattern, URLResolver, get_resolver

from tenants.http.views import route
from tenants.rest.lazy import LazyView

_lock = threading.Lock()
_document: dict[str, Any] = {}
_CONVERTED = re.compile(r"<\w+:(\w+)>")


def document() -> dict[str, Any]:
    """The document, made once."""
    with _lock:
        if not _document:
            from drf_spectacular.generators import SchemaGenerator

            _document.update(SchemaGenerator(urlconf=settings.API_URLCONF).get_schema(public=True))  # type: ignore[no-untyped-call]
        return _document


class Operation(NamedTuple):
    method: str
    path: str
    summary: str


@cache
def operations() -> list[Operation]:
    """In the order of their paths, without the document: that takes longer to make than all views take to be imported."""
    return sorted(
        (
            Operation(method, "/" + _CONVERTED.sub(r"{\1}", route), summary)
            for route, view in _views(get_resolver(settings.API_URLCONF).url_patterns)
            for method, summary in view.summaries.items()
        ),
        key=lambda operation: operation.path,
    )


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(document())


@cache
def _compressed() -> bytes:
    return gzip.compress(_encoded(), mtime=0)


def request_bodies() -> list[type[msgspec.Struct]]:
    """What requests of our API carry, in the order of the routes."""
    bodies = [body for _, view in _views(get_resolver(settings.API_URLCONF).url_patterns) for body in view.bodies]
    return list(dict.fromkeys(body for body in bodies if isinstance(body, type) and issubclass(body, msgspec.Struct)))


def _views(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[tuple[str, LazyView]]:
    """Each with its route."""
    for pattern in patterns:
        route = f"{prefix}{pattern.pattern}"
        if isinstance(pattern, URLResolver):
            yield from _views(pattern.url_patterns, route)
        elif isinstance(pattern.callback, LazyView):
            yield route, pattern.callback


def openapi(request: HttpRequest) -> HttpResponse:
    """As gzip for whoever takes that: it is a fifteenth of the size."""
    compressed = "gzip" in _accepted(request)
    response = HttpResponse(
        _compressed() if compressed else _encoded(), content_type="application/vnd.oai.openapi+json;version=3.1"
    )
    response.headers["Vary"] = "Accept-Encoding"
    if compressed:
        response.headers["Content-Encoding"] = "gzip"
    return response


def _accepted(request: HttpRequest) -> set[str]:
    """Encodings of an answer that are accepted by name; one of a weight of 0 is refused."""
    accepted = set()
    for each in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, _, weight = each.replace(" ", "").partition(";q=")
        if weight.strip("0.") or not weight:
            accepted.add(name)
    return accepted


def docs(request: HttpRequest) -> HttpResponse:
    """Operations in a plain page: the console's, if it has one."""
    try:
        return render(request, "admin_ui/api_docs.html", {"operations": operations()})
    except TemplateDoesNotExist:
        return render(request, "tenants/api_docs.html", {"operations": operations()})


openapi_view = route(GET=openapi)
docs_view = route(GET=docs)
