"""Binds the methods of the admin RPC to their handlers: the mark on a handler is the only place that says what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from messaging.adminrpc.base import A, Answer, Method, R

Handler = Callable[[Any], Awaitable[Answer]]
T = TypeVar("T")
Answering = Callable[[T, R], Coroutine[Any, Any, A]]

_MARK = "_answers_method"


def answers(method: Method[R, A]) -> Callable[[Answering[T, R, A]], Answering[T, R, A]]:
    """Marks an asynchronous method of a class as the handler of `method`."""

    def mark(handler: Answering[T, R, A]) -> Answering[T, R, A]:
        setattr(handler, _MARK, method)
        return handler

    return mark


def bound(part: object) -> Iterator[tuple[Method[Any, Any], Handler]]:
    """The methods that `part` answers."""
    for name, function in vars(type(part)).items():
        method = getattr(function, _MARK, None)
        if method is not None:
            yield method, getattr(part, name)
