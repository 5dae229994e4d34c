"""Turns of threads that wait for them, fair between tenants. Whoever waits too long, or behind too many, is not served."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future

from messaging.caller import current_caller
from messaging.fairness.slots import FairSlots


class ThreadTurns:
    """`FairSlots` for threads, each of which waits `wait_s` at most. Thread-safe."""

    def __init__(self, slots_max: int, per_tenant_max: int, waiting_max: int, wait_s: float) -> None:
        self._slots: FairSlots[Future[None]] = FairSlots(slots_max, per_tenant_max, waiting_max)
        self._wait_s = wait_s
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        return self._slots.waiting.total()

    def begin(self, tenant: str) -> bool:
        """Blocks until it is this tenant's turn, which `end` gives back. False: too many wait, or it did not come in time. Raises
        `NotReady` where the caller leaves."""
        turn: Future[None] = Future()
        with self._lock:
            if not self._slots.ask(tenant, turn):
                return False
            self._go_on()
        try:
            with current_caller().ending(turn.cancel):
                turn.result(self._wait_s)
            return True
        except (CancelledError, TimeoutError):
            self._withdraw(tenant, turn)
            return False
        except BaseException:
            self._withdraw(tenant, turn)
            raise

    def end(self, tenant: str) -> None:
        with self._lock:
            self._slots.end(tenant)
            self._go_on()

    def _withdraw(self, tenant: str, turn: Future[None]) -> None:
        with self._lock:
            if not self._slots.withdraw(tenant, turn):  # its turn had just come
                self._slots.end(tenant)
            self._go_on()

    def _go_on(self) -> None:
        while (following := self._slots.begin()) is not None:
            _, turn = following
            if turn.set_running_or_notify_cancel():
                turn.set_result(None)
