"""allauth's views as pages of the console: behind the permission table, kept by no cache, imported when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from django.http import HttpRequest, HttpResponse

from admin_ui.access import page


@lru_cache(maxsize=64)
def _view(module: str, name: str) -> Callable[..., HttpResponse]:
    view: Callable[..., HttpResponse] = getattr(import_module(module), name)
    return view


def page_of(module: str, name: str) -> Callable[..., HttpResponse]:
    def shown(request: HttpRequest, **arguments: Any) -> HttpResponse:
        response = _view(module, name)(request, **arguments)
        response["Cache-Control"] = "no-store"
        return response

    shown.__name__ = name
    return page(shown)
