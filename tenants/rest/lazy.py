"""Views that are imported at their first request, because REST framework costs 0.4 s and 20 MiB, which may never be needed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse

from messaging.late_imports import imported


class LazyView:
    """Stands for ``module:Class`` in a URL configuration. `cls` is the view class, where drf-spectacular looks for it."""

    csrf_exempt = True  # the session is checked by tenants.http.authentication, a token needs no check

    def __init__(self, target: str) -> None:
        self._target = target
        self.initkwargs: dict[str, Any] = {}

    @cached_property
    def cls(self) -> Any:
        return imported(self._target)

    @cached_property
    def _view(self) -> Any:
        return self.cls.as_view()

    @property
    def methods(self) -> tuple[str, ...]:
        """HTTP methods that the view has a handler for."""
        return tuple(name.upper() for name in ("get", "post", "put", "patch", "delete") if hasattr(self.cls, name))

    @property
    def query_parameters(self) -> dict[str, frozenset[str]]:
        """By method, the names of the parameters that a query may have."""
        return {method: getattr(self.cls, method.lower()).query_parameters for method in self.methods}

    @property
    def summaries(self) -> dict[str, str]:
        """By method, what it does."""
        return {method: getattr(self.cls, method.lower()).summary for method in self.methods}

    @property
    def bodies(self) -> list[Any]:
        """What its handlers are given: a struct, a schema by media type, or None."""
        return [getattr(self.cls, method.lower()).body for method in self.methods]

    def __call__(self, request: HttpRequest, **arguments: Any) -> HttpResponse:
        response: HttpResponse = self._view(request, **arguments)
        return response
