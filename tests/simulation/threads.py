"""Threads whose interleaving the seed decides: each is a greenlet that the event loop resumes, so that only one ever runs.

A simulated thread runs until it waits (for a lock, a queue, a job's result, a disk) and goes on after a random while of virtual
time. The classes here stand for those of `threading`, `queue` and `concurrent.futures` in the modules of the broker, see
`environment.py`. They belong to the life that runs when they are made (`Threads.current`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

from greenlet import GreenletExit, getcurrent, greenlet

PAUSE_S_MAX = 0.0005  # of a thread between two steps


class Deadlock(AssertionError):
    """The event loop waits for something that nobody will do."""


class Threads:
    """All threads of one life of a broker. `hub` is the greenlet of the event loop."""

    current: ClassVar[Threads]

    def __init__(self, loop: asyncio.AbstractEventLoop, random: Random) -> None:
        self.hub = getcurrent()
        self._loop = loop
        self._random = random
        self._alive: dict[greenlet, None] = {}
        self._timers: dict[greenlet, asyncio.TimerHandle] = {}  # of those that will go on by themselves
        self._waits_for: dict[greenlet, Callable[[], greenlet | None]] = {}  # of the others: who could let it go on
        self._ended = False

    def spawn(self, work: Callable[[], None]) -> greenlet:
        def run() -> None:
            try:
                work()
            finally:
                self._alive.pop(getcurrent(), None)

        thread = greenlet(run, parent=self.hub)
        self._alive[thread] = None
        self.wake(thread)
        return thread

    def wake(self, thread: greenlet, after_s: float | None = None) -> None:
        if thread in self._timers or self._ended:
            return
        self._waits_for.pop(thread, None)
        delay_s = self._random.random() * PAUSE_S_MAX if after_s is None else after_s
        self._timers[thread] = self._loop.call_later(delay_s, self._resume, thread)

    def pause(self, seconds: float | None = None) -> None:
        """Lets others run. The event loop itself goes on at once."""
        if getcurrent() is not self.hub:
            self.wake(getcurrent(), seconds)
            self._leave()

    def wait(self, done: Callable[[], bool], waiters: deque[greenlet], who: Callable[[], greenlet | None]) -> None:
        """Until `done`: whoever makes it so wakes `waiters`. `who` is the thread that is at it, if it is known."""
        while not done():
            if getcurrent() is self.hub:
                self._hurry(who())
            else:
                waiters.append(getcurrent())
                self._waits_for[getcurrent()] = who
                self._leave()

    def _leave(self) -> None:
        if self._ended:
            raise GreenletExit
        self.hub.switch()
        if self._ended:
            raise GreenletExit

    def _hurry(self, thread: greenlet | None) -> None:
        """The loop blocks: `thread` goes on now."""
        while thread is not None and thread not in self._timers:
            ask = self._waits_for.get(thread)
            thread = ask() if ask is not None else None
        if thread is None:
            raise Deadlock("the event loop waits for what no thread is doing")
        self._timers[thread].cancel()
        self._resume(thread)

    def _resume(self, thread: greenlet) -> None:
        del self._timers[thread]
        if not thread.dead:
            thread.switch()

    def kill(self) -> None:
        """None of them goes on."""
        self._ended = True
        for thread in list(self._alive):
            thread.throw(GreenletExit)
        self._alive.clear()


def wake_all(threads: Threads, waiters: deque[greenlet]) -> None:
    while waiters:
        threads.wake(waiters.popleft())


class Lock:
    """`threading.Lock`."""

    def __init__(self) -> None:
        self._threads = Threads.current
        self._owner: greenlet | None = None
        self._waiters: deque[greenlet] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._owner is not None:
            if not blocking:
                return False
            self._threads.wait(lambda: self._owner is None, self._waiters, lambda: self._owner)
        self._owner = getcurrent()
        return True

    def release(self) -> None:
        self._owner = None
        wake_all(self._threads, self._waiters)

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Thread:
    """`threading.Thread`."""

    def __init__(
        self, target: Callable[..., object], name: str = "", args: tuple[Any, ...] = (), daemon: bool | None = None
    ) -> None:
        self._threads = Threads.current
        self._work = lambda: target(*args)
        self._running: greenlet | None = None
        self._ended = False
        self._waiters: deque[greenlet] = deque()
        self.name = name
        self.ident: int | None = None

    def start(self) -> None:
        self.ident = id(self)
        self._running = self._threads.spawn(self._run)

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._ended = True
            wake_all(self._threads, self._waiters)

    def join(self, timeout: float | None = None) -> None:
        self._threads.wait(lambda: self._ended, self._waiters, lambda: self._running)

    def is_alive(self) -> bool:
        return self._running is not None and not self._ended


class SimpleQueue:
    """`queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._threads = Threads.current
        self._items: deque[Any] = deque()
        self._waiters: deque[greenlet] = deque()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        if self._waiters:
            self._threads.wake(self._waiters.popleft())

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._items:
            if not block or timeout is not None:
                raise queue.Empty
            self._threads.wait(lambda: bool(self._items), self._waiters, lambda: None)
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def empty(self) -> bool:
        return not self._items

    def qsize(self) -> int:
        return len(self._items)


class Future(concurrent.futures.Future[Any]):
    """`concurrent.futures.Future`: a simulated thread may wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = Threads.current
        self._sleepers: deque[greenlet] = deque()
        self.worker: greenlet | None = None
        self.add_done_callback(lambda _: wake_all(self._threads, self._sleepers))

    def result(self, timeout: float | None = None) -> Any:
        self._threads.wait(self.done, self._sleepers, lambda: self.worker)
        return super().result(0)


class ThreadPool(concurrent.futures.Executor):
    """`concurrent.futures.ThreadPoolExecutor`."""

    def __init__(self, max_workers: int | None = None, thread_name_prefix: str = "") -> None:
        self._threads = Threads.current
        self._workers_max = max_workers or 8
        self._jobs: deque[tuple[Future, Callable[[], Any]]] = deque()
        self._workers: dict[greenlet, None] = {}
        self._waiters: deque[greenlet] = deque()
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self._jobs.append((future, lambda: fn(*args, **named)))
        if len(self._workers) < self._workers_max:
            self._workers[self._threads.spawn(self._work)] = None
        return future

    def _work(self) -> None:
        try:
            while self._jobs:
                future, job = self._jobs.popleft()
                future.worker = getcurrent()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    result = job()
                except GreenletExit:
                    raise
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                del future, job
                self._threads.pause()
        finally:
            self._workers.pop(getcurrent(), None)
            wake_all(self._threads, self._waiters)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        if cancel_futures:
            while self._jobs:
                self._jobs.popleft()[0].cancel()
        if wait:
            self._threads.wait(lambda: not self._workers, self._waiters, lambda: next(iter(self._workers), None))
