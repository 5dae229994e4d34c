"""Work that a process does by itself, beside what it is asked for: every loop in one place, none of which ends by accident.

A loop survives whatever its work raises. It counts the failure, logs it with a traceback (the first at once, then one a minute with
the number of those between), waits longer from failure to failure, and goes on. `loops` says how each of them fares, for metrics
and for whoever asks whether the process is well.

    every        does something again and again
    until_done   does something until it succeeds once
    spawn        does something once; a failure is logged, counted and not tried again
    register     for work that has a thread or a timer of its own and reports by `succeeded` and `failed`
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog

from messaging.clock import boottime_ms, wall_ms

log = structlog.get_logger("background")

T = TypeVar("T")
Act = Callable[[], Awaitable[object] | object]

LOG_EVERY_MS = 60_000  # of one loop: a failure that repeats every second fills no disk
RETRY_S = 1.0  # after a failure, doubled from one to the next
RETRY_S_MAX = 30.0
FORGIVEN_MS = 600_000  # after a failure of what does not come again, and cannot show that it succeeds now
ERROR_CHARACTERS_MAX = 300
ONE_OFF, CALLBACKS = "one_off", "event_loop"


class BackgroundLoop:
    """How one loop fares. `failed` and `succeeded` may be called in the thread that does the work."""

    __slots__ = ("_failed_at_ms", "_log_at_ms", "_recurs", "_unlogged", "failures", "last_error", "last_success_ms", "name")

    def __init__(self, name: str, *, recurs: bool = True) -> None:
        self.name = name
        self.failures = 0
        self.last_error = ""
        self.last_success_ms = 0  # since 1970; 0: never yet
        self._recurs = recurs
        self._failed_at_ms: int | None = None
        self._unlogged = 0
        self._log_at_ms = 0

    @property
    def failing(self) -> bool:
        """It failed and has not succeeded since."""
        return self._failed_at_ms is not None and (self._recurs or boottime_ms() - self._failed_at_ms < FORGIVEN_MS)

    def succeeded(self) -> None:
        if self._failed_at_ms is not None:
            self._failed_at_ms = None
            log.info("background.mended", loop=self.name, failures=self.failures)
        self.last_success_ms = wall_ms()

    def failed(self, error: BaseException, **about: Any) -> None:
        """`about` names what it happened to, for the log."""
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
        """What is done within is reported where it raises, and nobody else is kept from theirs."""
        try:
            yield
        except Exception as error:
            self.failed(error, **about)

    def each(self, items: Iterable[T], act: Callable[[T], object]) -> None:
        """Does `act` for every item. One that raises is reported and keeps nobody from the others."""
        for item in list(items):
            with self.guard():
                act(item)


class BackgroundLoops:
    """All of one process. `sleep` waits between two runs."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self.loops: dict[str, BackgroundLoop] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self._sleep = sleep
        self.register(ONE_OFF, recurs=False)

    def register(self, name: str, *, recurs: bool = True) -> BackgroundLoop:
        """The loop of this name, made where there is none. One that does not recur never says `succeeded`: its failures are
        forgiven after `FORGIVEN_MS`."""
        return self.loops.setdefault(name, BackgroundLoop(name, recurs=recurs))

    @property
    def failing(self) -> list[BackgroundLoop]:
        return [loop for loop in self.loops.values() if loop.failing]

    def every(
        self, seconds: float | Callable[[], float], name: str, act: Act, *, first_s: float | None = None
    ) -> asyncio.Task[None]:
        """Waits, runs `act`, and so on until cancelled. `seconds` may be asked for anew each time; the first wait is `first_s`."""
        return self._start(self._every(self.register(name), seconds, act, first_s), name)

    def until_done(self, name: str, act: Act, *, retry_s: float = RETRY_S) -> asyncio.Task[None]:
        """Runs `act`, and again after each failure, until it does not raise. The caller keeps and ends the task; `cancel` leaves it
        alone."""
        return asyncio.get_running_loop().create_task(self._until_done(self.register(name), act, retry_s), name=name)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Its failure counts for the loop of this name, if there is one, else with all other work that is done once."""
        return self._start(self._once(work, name), name)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Counts what callbacks of the event loop raise, and tasks that nobody waits for."""
        callbacks = self.register(CALLBACKS, recurs=False)

        def raised(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, Exception):
                callbacks.failed(error, message=context["message"])
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(raised)

    def cancel(self) -> None:
        for task in list(self.tasks):
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _every(self, loop: BackgroundLoop, seconds: float | Callable[[], float], act: Act, first_s: float | None) -> None:
        retry_s = 0.0
        wait_s = first_s
        while True:
            if wait_s is None:
                wait_s = _ask(loop, seconds) if callable(seconds) else seconds
            await self._sleep(max(wait_s, retry_s))
            wait_s = None
            retry_s = 0.0 if await _run(loop, act) else min(max(2 * retry_s, RETRY_S), RETRY_S_MAX)

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
    """Whether `act` did not raise. It may report a failure by itself and go on: then it did not succeed either."""
    before = loop.failures
    try:
        result = act()
        if inspect.isawaitable(result):
            await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        loop.failed(error)  # something that `act` waited for was cancelled, not this loop
        return False
    except Exception as error:
        loop.failed(error)
        return False
    if loop.failures == before:
        loop.succeeded()
    return True
