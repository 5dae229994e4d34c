"""Blocking work that an event loop waits for: whoever is cancelled meanwhile ends, when the work has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tenants.http.threads import in_database_thread, in_request_thread
from tests.support.waiting import eventually

BOTH = [in_database_thread, in_request_thread]
Off = Callable[[Callable[[], Any]], Callable[[], Awaitable[Any]]]


@pytest.mark.parametrize("off", BOTH)
async def test_a_cancellation_while_the_thread_works_is_not_lost(off: Off) -> None:
    """A live page whose reader left in that moment was served for good."""
    begun, go_on = threading.Event(), threading.Event()
    ended: list[int] = []

    def work() -> int:
        begun.set()
        assert go_on.wait(60)
        ended.append(1)
        return 1

    async def serve() -> None:
        while True:
            await off(work)()

    serving = asyncio.create_task(serve())
    await eventually(begun.is_set)
    serving.cancel()
    go_on.set()
    await asyncio.wait({serving}, timeout=60)
    assert serving.cancelled()
    assert ended == [1]


@pytest.mark.parametrize("off", BOTH)
async def test_results_and_errors_reach_the_caller(off: Off) -> None:
    assert await off(lambda: 7)() == 7
    with pytest.raises(ZeroDivisionError):
        await off(lambda: 1 // 0)()
