"""Work for the event loop of a web process that blocks: the database, or what a view makes piece by piece.

`sync_to_async` loses a cancellation that comes while its thread is at work: its caller gets the result and goes on: a live page is
served for good whose reader has left. What is called through here ends first, then the cancellation is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async

from messaging.fairness.in_thread import to_its_end

P = ParamSpec("P")
T = TypeVar("T")


def in_database_thread(work: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """`work` in a thread that gives its connections to the database back."""
    return _to_its_end(database_sync_to_async(work))


def in_request_thread(work: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    """`work` in the thread of the request, with its connection."""
    return _to_its_end(sync_to_async(work))


def _to_its_end(call: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    async def asked(*arguments: P.args, **named: P.kwargs) -> T:
        return await to_its_end(asyncio.ensure_future(call(*arguments, **named)))

    return asked
