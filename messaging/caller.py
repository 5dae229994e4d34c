"""On whose behalf this thread or task works, and whether they still wait for the answer. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from messaging.errors import NotReady


class Caller:
    """`tenant`: whose turns and shares it takes; of somebody of no tenant their role or address, "" for the platform itself.
    `unanswered`: something that was asked for them was not answered in time. `waited_s`: how long they waited for other answers
    since then. `patience_s`: they only read, and would rather be told that there was no answer than wait longer; None: they wait as
    long as a change may take."""

    __slots__ = ("_ends", "_lock", "left", "patience_s", "tenant", "unanswered", "waited_s")

    def __init__(self, tenant: str = "") -> None:
        self.tenant = tenant
        self.left = False
        self.unanswered = False
        self.waited_s = 0.0
        self.patience_s: float | None = None
        self._ends: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def leave(self) -> None:
        """Ends what is done for this caller alone. Does not block for long."""
        with self._lock:  # whatever ends by itself meanwhile waits: what it used may be another caller's next
            self.left = True
            for end in self._ends:
                end()

    @contextmanager
    def ending(self, end: Callable[[], object]) -> Iterator[None]:
        """`end` is called, on any thread, if the caller leaves within this context, and never after it. It does not block. Raises
        `NotReady` if they have left."""
        with self._lock:
            if self.left:
                raise NotReady("the caller left before the answer")
            self._ends.append(end)
        try:
            yield
        finally:
            with self._lock:
                self._ends.remove(end)


_caller: ContextVar[Caller | None] = ContextVar("caller", default=None)


def current_caller() -> Caller:
    """Where nobody is set it is the platform, which never leaves."""
    return _caller.get() or Caller()


@contextmanager
def working_for(caller: Caller) -> Iterator[None]:
    before = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(before)
