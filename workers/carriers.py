"""Carries tasks that many tenants ask for on a few threads: in turns by tenant, a step at a time.

A step ends when the task has to wait, and says for how long: meanwhile its thread is for others. What a message of the queue asked
for is handed over at once, because its row in the database is the truth (`workers.sending`); what is not finished when the process
ends is asked for again.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from messaging import logs
from messaging.errors import NotReady
from messaging.fairness.threads import FairThreads
from workers.memory import process_memory
from workers.schedule import NOTICES, REDRIVES

log = logs.get_logger("magnetar.worker")
THREADS_MAX = 8  # of each kind of task
WAITING_MAX = 2_000  # tasks of each kind; others are asked for again later
NOTICES_OF_DESTINATION_MAX = 2  # at a time
AGAIN_S = 1.0  # a task that finds no room for its next step tries again
Steps = Iterator[float]  # each is how long to wait for the next, in seconds


class Turn(NamedTuple):
    """Whose turn a task takes, and whom it waits for beside our own processes."""

    tenant: str
    destination: str = ""


class _Carried(NamedTuple):
    queue: str
    turn: Turn
    steps: Steps


class Carriers:
    """Thread-safe. `stop` has every task go on at once, which finds that the worker is ending."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._threads: Mapping[str, FairThreads] = {
            REDRIVES: FairThreads(threads_max, "redrive", waiting_max=WAITING_MAX),
            NOTICES: FairThreads(threads_max, "notice", waiting_max=WAITING_MAX, per_destination_max=NOTICES_OF_DESTINATION_MAX),
        }
        self._order = itertools.count()
        self._later: list[tuple[float, int, _Carried]] = []  # a heap, by when
        self._changed = threading.Condition()
        self._stopping = False
        self._under_way = 0
        self._timer = threading.Thread(target=self._wake, name="carrier-timer", daemon=True)
        self._timer.start()

    def carry(self, queue: str, turn: Turn, steps: Steps) -> None:
        """Does not block. Raises `NotReady` where too much of this tenant waits; then nothing of `steps` was begun."""
        with self._changed:
            self._under_way += 1
        try:
            self._submit(_Carried(queue, turn, steps))
        except NotReady:
            self._ended()
            raise

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, timeout_s: float) -> bool:
        """Whether every task has ended."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._under_way, timeout_s)

    def _submit(self, carried: _Carried) -> None:
        threads = self._threads[carried.queue]
        threads.submit(carried.turn.tenant, lambda: self._step(carried), carried.turn.destination or None)

    def _step(self, carried: _Carried) -> None:
        try:
            wait_s = next(carried.steps)
        except StopIteration:
            self._ended()
        except Exception:  # it is recorded in its row, too
            log.exception("task-raised", queue=carried.queue)
            self._ended()
        else:
            self._go_on_later(carried, wait_s)

    def _go_on_later(self, carried: _Carried, wait_s: float) -> None:
        with self._changed:
            heapq.heappush(self._later, (time.monotonic() + wait_s, next(self._order), carried))
            self._changed.notify_all()

    def _ended(self) -> None:
        with self._changed:
            self._under_way -= 1
            idle = not self._under_way
            self._changed.notify_all()
        if idle:
            process_memory.used()

    def _wake(self) -> None:
        while True:
            with self._changed:
                while not self._later or not (self._stopping or self._later[0][0] <= time.monotonic()):
                    self._changed.wait(self._later[0][0] - time.monotonic() if self._later else None)
                _, _, carried = heapq.heappop(self._later)
            try:
                self._submit(carried)
            except NotReady:
                self._go_on_later(carried, AGAIN_S)
