"""A thread with an event loop, in which the SDK runs for callers without one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from messaging.client.errors import InvalidOperation
from messaging.client.forks import FORKED

T = TypeVar("T")

TASKS_END_S = 1.0


class LoopThread:
    """One for each client. May be used from several threads, but not from callbacks, which run in its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="magnetar client", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Blocks until the coroutine has ended; interrupted (by a signal), it cancels it."""
        try:
            self._check()
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, work: Callable[[], T]) -> T:
        """Something that does not wait, in the thread of the loop."""

        async def called() -> T:
            return work()

        return self.run(called())

    def start(self, work: Callable[[], Awaitable[T]]) -> concurrent.futures.Future[T]:
        """Does not wait for what `work` gives. What `work` itself raises is the future's."""
        self._check()

        async def started() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(started(), self._loop)

    @property
    def closed(self) -> bool:
        return self._loop.is_closed()

    def close(self) -> None:
        """Idempotent."""
        if self._process != os.getpid() or self.closed:
            return
        asyncio.run_coroutine_threadsafe(_tasks_end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _check(self) -> None:
        if self._process != os.getpid():
            raise InvalidOperation(FORKED)
        if self._loop.is_closed():
            raise InvalidOperation("the client is closed")
        if threading.current_thread() is self._thread:
            raise InvalidOperation("a callback must not wait for its own client: hand the work to another thread")


async def _tasks_end() -> None:
    """What connections that broke have yet to do, for a second; then all tasks are cancelled."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, left = await asyncio.wait(tasks, timeout=TASKS_END_S)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
