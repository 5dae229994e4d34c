"""Background tasks of a process: all loops in one place, none of which ends by accident.

A loop survives whatever its work raises. It counts the failure, logs it with a traceback (the first at once, then one per minute
with the number of suppressed ones), waits longer after each failure, and continues. `loops` has the state of each loop, for
metrics and health checks.

    every        runs something repeatedly
    until_done   runs something until it succeeds once
    spawn        runs something once; a failure is logged and counted but not retried
    register     for work with its own thread or timer, which reports by `succeeded` and `failed`
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog

from messaging.clock import boottime_ms, wall_ms

log = structlog.get_logger("background")

T = TypeVar("T")
Act = Callable[[], Awaitable[object] | object]

LOG_EVERY_MS = 60_000  # per loop, so that a failure every second does not fill the disk
RETRY_S = 1.0  # after a failure; doubled with each further one
RETRY_S_MAX = 30.0
FORGIVEN_MS = 600_000  # for work that does not recur and so cannot report success
ERROR_CHARACTERS_MAX = 300
ONE_OFF, CALLBACKS = "one_off", "event_loop"


def shared(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """`task`, for which several wait through `asyncio.shield`, each of whom may leave: its failure is theirs, and where all have
    left it is not reported as one that nobody saw."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


class BackgroundLoop:
    """The state of one loop. `failed` and `succeeded` may be called in the thread that does the work."""

    __slots__ = ("_failed_at_ms", "_log_at_ms", "_recurs", "_unlogged", "failures", "last_error", "last_success_ms", "name")

    def __init__(self, name: str, *, recurs: bool = True) -> None:
        self.name = name
        self.failures = 0
        self.last_error = ""
        self.last_success_ms = 0  # since 1970; 0: never
        self._recurs = recurs
        self._failed_at_ms: int | None = None
        self._unlogged = 0
        self._log_at_ms = 0

    @property
    def failing(self) -> bool:
        """The loop has failed and has not succeeded since."""
        return self._failed_at_ms is not None and (self._recurs or boottime_ms() - self._failed_at_ms < FORGIVEN_MS)

    def succeeded(self) -> None:
        if self._failed_at_ms is not None:
            self._failed_at_ms = None
            log.info("background.recovered", loop=self.name, failures=self.failures)
        self.last_success_ms = wall_ms()

    def failed(self, error: BaseException, **about: Any) -> None:
        """`about` adds fields to the log line."""
        self.failures += 1
        self.last_error = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
        now_ms = self._failed_at_ms = boottime_ms()
        if now_ms < self._log_at_ms:
            self._unlogged += 1
            return
        log.error("background.failed", loop=self.name, failures=self.failures, unlogged=self._unlogged, **about, exc_info=error)
        self._unlogged = 0
        self._log_at_ms = now_ms + LOG_EVERY_MS

    @contextmanager
    def guard(self, **about: Any) -> Iterator[None]:
        """Reports an exception of its body instead of raising it."""
        try:
            yield
        except Exception as error:
            self.failed(error, **about)

    def each(self, items: Iterable[T], act: Callable[[T], object]) -> None:
        """Calls `act` for every item. An exception is reported and does not stop the others."""
        for item in list(items):
            with self.guard():
                act(item)


class BackgroundLoops:
    """All loops of a process. `sleep` waits between two runs."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self.loops: dict[str, BackgroundLoop] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self._sleep = sleep
        self.register(ONE_OFF, recurs=False)

    def register(self, name: str, *, recurs: bool = True) -> BackgroundLoop:
        """The loop of this name, created if needed. A loop that does not recur never reports `succeeded`; its failures expire after
        `FORGIVEN_MS`."""
        return self.loops.setdefault(name, BackgroundLoop(name, recurs=recurs))

    @property
    def failing(self) -> list[BackgroundLoop]:
        return [loop for loop in self.loops.values() if loop.failing]

    def every(
        self,
        seconds: float | Callable[[], float],
        name: str,
        act: Act,
        *,
        first_s: float | None = None,
        retry_s_max: float = RETRY_S_MAX,
    ) -> asyncio.Task[None]:
        """Waits, runs `act`, and repeats until cancelled. `seconds` may be a function that is called each time; `first_s` is the
        first wait, `retry_s_max` the longest after failures, if it is not shorter than `seconds`."""
        return self._start(self._every(self.register(name), seconds, act, first_s, retry_s_max), name)

    def until_done(self, name: str, act: Act, *, retry_s: float = RETRY_S) -> asyncio.Task[None]:
        """Runs `act` repeatedly until it does not raise. The caller owns and cancels the task; `cancel` does not affect it."""
        return asyncio.get_running_loop().create_task(self._until_done(self.register(name), act, retry_s), name=name)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A failure counts for the loop of this name if there is one, else for all one-off work."""
        task = self._start(self._once(work, name), name)
        task.add_done_callback(lambda _: work.close())  # it may have been cancelled before it began
        return task

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Counts exceptions of event loop callbacks and of tasks that nobody awaits."""
        callbacks = self.register(CALLBACKS, recurs=False)

        def raised(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, Exception):
                callbacks.failed(error, message=context["message"])
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(raised)

    def cancel(self, *, but: Collection[str] = ()) -> None:
        """Ends all, without those of the names in `but`."""
        for task in list(self.tasks):
            if task.get_name() not in but:
                task.cancel()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _every(
        self, loop: BackgroundLoop, seconds: float | Callable[[], float], act: Act, first_s: float | None, retry_s_max: float
    ) -> None:
        retry_s = 0.0
        wait_s = first_s
        while True:
            if wait_s is None:
                wait_s = _ask(loop, seconds) if callable(seconds) else seconds
            await self._sleep(max(wait_s, retry_s))
            wait_s = None
            retry_s = 0.0 if await _run(loop, act) else min(max(2 * retry_s, RETRY_S), retry_s_max)

    async def _until_done(self, loop: BackgroundLoop, act: Act, retry_s: float) -> None:
        while not await _run(loop, act):
            await self._sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_S_MAX)

    async def _once(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except Exception as error:
            self.loops.get(name, self.loops[ONE_OFF]).failed(error, task=name)


def _ask(loop: BackgroundLoop, seconds: Callable[[], float]) -> float:
    try:
        return seconds()
    except Exception as error:
        loop.failed(error)
        return RETRY_S_MAX


async def _run(loop: BackgroundLoop, act: Act) -> bool:
    """Whether `act` succeeded. If it reports a failure itself and returns, that counts as a failure too."""
    before = loop.failures
    try:
        result = act()
        if inspect.isawaitable(result):
            await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        loop.failed(error)  # something that `act` awaited was cancelled, not this loop
        return False
    except Exception as error:
        loop.failed(error)
        return False
    if loop.failures == before:
        loop.succeeded()
    return True
