"""The OpenAPI document and a page to read it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

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


def document() -> dict[str, Any]:
    """The document, made once."""
    with _lock:
        if not _document:
            from drf_spectacular.generators import SchemaGenerator

            _document.update(SchemaGenerator(urlconf=settings.API_URLCONF).get_schema(public=True))  # type: ignore[no-untyped-call]
        return _document


def request_bodies() -> list[type[msgspec.Struct]]:
    """What requests of our API carry, in the order of the routes."""
    bodies = [body for view in _views(get_resolver(settings.API_URLCONF).url_patterns) for body in view.bodies]
    return list(dict.fromkeys(body for body in bodies if isinstance(body, type) and issubclass(body, msgspec.Struct)))


def _views(patterns: list[URLPattern | URLResolver]) -> Iterator[LazyView]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _views(pattern.url_patterns)
        elif isinstance(pattern.callback, LazyView):
            yield pattern.callback


def openapi(request: HttpRequest) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(document()), content_type="application/vnd.oai.openapi+json;version=3.1")


def docs(request: HttpRequest) -> HttpResponse:
    """Operations in a plain page: the console's, if it has one."""
    rows = [
        {"method": method.upper(), "path": path, "summary": operation.get("summary", "")}
        for path, operations in sorted(document()["paths"].items())
        for method, operation in operations.items()
    ]
    try:
        return render(request, "admin_ui/api_docs.html", {"operations": rows})
    except TemplateDoesNotExist:
        return render(request, "tenants/api_docs.html", {"operations": rows})


openapi_view = route(GET=openapi)
docs_view = route(GET=docs)
