"""An event loop in a thread of its own, for what needs a loop beside tests that have none, or another one."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
ANSWER_S = 30.0


class _Errand:
    """What work on the loop wants done in the thread that waits for it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act
        self.outcome: Future[Any] = Future()

    def carry_out(self) -> None:
        try:
            self.outcome.set_result(self._act())
        except BaseException as error:
            self.outcome.set_exception(error)


_waiting: ContextVar[SimpleQueue[_Errand | None]] = ContextVar("_waiting")


class LoopThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="test-loop", daemon=True).start()
        atexit.register(self._end)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the loop, and meanwhile, in this thread, what it asks for by `in_waiting_thread`. Blocks."""
        errands: SimpleQueue[_Errand | None] = SimpleQueue()
        context = copy_context()
        context.run(_waiting.set, errands)
        outcome: Future[T] = context.run(asyncio.run_coroutine_threadsafe, work, self._loop)
        outcome.add_done_callback(lambda _: errands.put(None))
        try:
            while (errand := errands.get(timeout=ANSWER_S)) is not None:
                errand.carry_out()
        except Empty:
            outcome.cancel()
            raise AssertionError(f"{work} did not end within {ANSWER_S:.0f} s") from None
        return outcome.result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


def in_waiting_thread(act: Callable[[], T]) -> T:
    """The result of `act` in the thread that waits in `LoopThread.run` for the work that this is part of. Blocks: call it in a
    thread, not on the loop. A transaction of a test's database is open in the test's thread only."""
    errands = _waiting.get(None)
    if errands is None:
        raise OSError("nobody waits for this work: there is no thread to do it in")
    errand = _Errand(act)
    errands.put(errand)
    result: T = errand.outcome.result(ANSWER_S)
    return result


@cache
def shared_loop() -> LoopThread:
    """One for the whole session: a loop costs more than the brokers that run on it."""
    return LoopThread()
