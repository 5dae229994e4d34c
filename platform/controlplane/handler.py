"""Django's handler of HTTP requests, with one thing fixed."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import ParamSpec, TypeVar, cast

from django.core.handlers.asgi import ASGIHandler
from django.http.response import HttpResponseBase

P = ParamSpec("P")
T = TypeVar("T")


class Handler(ASGIHandler):
    """A view runs in a thread, and a future does not take `StopIteration`: the request would never be answered."""

    def make_view_atomic(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """The last thing that is done to a view before it is called."""
        ready = super().make_view_atomic(view)
        return cast("Callable[..., HttpResponseBase]", ready) if iscoroutinefunction(ready) else without_stop(ready)


def without_stop(view: Callable[P, T]) -> Callable[P, T]:
    """`view`, out of which `StopIteration` comes as `RuntimeError`, as out of a generator."""

    @wraps(view)
    def ending(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return view(*arguments, **named)
        except StopIteration as error:
            raise RuntimeError("a view raised StopIteration") from error

    return ending
