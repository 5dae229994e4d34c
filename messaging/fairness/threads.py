"""A few threads for blocking calls, whose turns are fair between tenants."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from messaging.errors import NotReady
from messaging.fairness.slots import FairSlots

T = TypeVar("T")


class _Asked(NamedTuple):
    answer: Future[Any]
    call: Callable[[], Any]
    destination: Hashable


class FairThreads:
    """As `ThreadPoolExecutor`, with `FairSlots` in front of it: `threads_max` calls run at a time. `per_destination_max` limits
    those to one destination, whoever asks. A future that is cancelled before its turn is never called. Thread-safe."""

    def __init__(
        self,
        threads_max: int,
        name: str,
        *,
        waiting_max: int | None = None,
        per_destination_max: int | None = None,
    ) -> None:
        self._slots: FairSlots[_Asked] = FairSlots(threads_max, waiting_max=waiting_max)
        self._per_destination_max = per_destination_max
        self._to: dict[Hashable, int] = {}  # calls that run, by destination
        self._executor = ThreadPoolExecutor(threads_max, thread_name_prefix=name)
        self._lock = threading.Lock()
        self.ended = False

    def submit(self, tenant: str, call: Callable[[], T], destination: Hashable = None) -> Future[T]:
        """Does not block; `call` runs in the context of the caller. Raises `NotReady` where too much of this tenant waits."""
        answer: Future[T] = Future()
        asked = _Asked(answer, _in_context(call), destination)
        with self._lock:
            if not self._slots.ask(tenant, asked):
                raise NotReady(f"{self._slots.waiting.total()} calls wait already: try again in a moment")
        answer.add_done_callback(lambda done: self._withdraw(tenant, asked) if done.cancelled() else None)
        self._go_on()
        return answer

    def shutdown(self) -> None:
        """What runs is ended, what waits is cancelled. Blocks."""
        with self._lock:
            self.ended = True
        self._go_on()
        self._executor.shutdown()

    @property
    def running(self) -> int:
        return self._slots.served.total()

    @property
    def waiting(self) -> int:
        return self._slots.waiting.total()

    def _withdraw(self, tenant: str, asked: _Asked) -> None:
        with self._lock:
            withdrawn = self._slots.withdraw(tenant, asked)
        if withdrawn:  # else a thread has it, which says so itself
            asked.answer.set_running_or_notify_cancel()
            self._go_on()

    def _go_on(self) -> None:
        cancelled: list[Future[Any]] = []
        with self._lock:
            while (following := self._slots.begin(self._reachable)) is not None:
                tenant, asked = following
                if self.ended:
                    self._slots.end(tenant)
                    cancelled.append(asked.answer)
                    continue
                self._to[asked.destination] = self._to.get(asked.destination, 0) + 1
                self._executor.submit(self._serve, tenant, asked)
        for answer in cancelled:
            answer.cancel()
            answer.set_running_or_notify_cancel()

    def _reachable(self, asked: _Asked) -> bool:
        if self._per_destination_max is None or asked.destination is None:
            return True
        return self._to.get(asked.destination, 0) < self._per_destination_max

    def _serve(self, tenant: str, asked: _Asked) -> None:
        if asked.answer.set_running_or_notify_cancel():
            try:
                result = asked.call()
            except BaseException as error:
                self._end(tenant, asked)
                asked.answer.set_exception(error)
                return
            self._end(tenant, asked)
            asked.answer.set_result(result)
        else:
            self._end(tenant, asked)

    def _end(self, tenant: str, asked: _Asked) -> None:
        with self._lock:
            self._slots.end(tenant)
            self._to[asked.destination] -= 1
            if not self._to[asked.destination]:
                del self._to[asked.destination]
        self._go_on()


def _in_context(call: Callable[[], T]) -> Callable[[], T]:
    context = contextvars.copy_context()
    return lambda: context.run(call)
