"""allauth's views as pages of the console: behind the permission table, kept by no cache, imported when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse

from admin_ui.access import page
from messaging.late_imports import imported
from tenants.sign_in.providers import providers_of


@lru_cache(maxsize=64)
def _view(module: str, name: str) -> Callable[..., HttpResponse]:
    view: Callable[..., HttpResponse] = imported(f"{module}:{name}")
    return view


def page_of(module: str, name: str, *, of_provider: bool = False) -> Callable[..., HttpResponse]:
    """`of_provider`: a page that does not exist where there is no sign-in provider; allauth's part for them is not loaded there."""

    def shown(request: HttpRequest, **arguments: Any) -> HttpResponse:
        if of_provider and not providers_of(settings.MAGNETAR):
            raise Http404
        response = _view(module, name)(request, **arguments)
        response["Cache-Control"] = "no-store"
        return response

    shown.__name__ = name
    return page(shown)
