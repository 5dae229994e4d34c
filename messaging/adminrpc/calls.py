"""Calls of the admin RPC, and who waits for a long change."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum, auto

from messaging.adminrpc.base import A, Method, R, Request
from messaging.adminrpc.changes import ChangeRef
from messaging.adminrpc.methods import CHANGES_OUTCOME, FEED_VERSION
from messaging.caller import current_caller
from messaging.errors import UnderWay

CHANGE_S = 280.0  # how long a caller waits for a long change: pulsar-admin waits for an answer for 300 s
LOOK_S, LOOK_S_MAX = 0.1, 2.0  # until it is asked again how the change stands
WAITING_MAX, WAITING_PER_TENANT_MAX = 8, 2  # callers that wait so in a process: each uses a thread that others may need
SMALL = replace(FEED_VERSION, long_read=True)  # takes a broker no time


_lock = threading.Lock()
_waiting: Counter[str] = Counter()  # callers, by tenant


class Standing(Enum):
    """How the brokers stand that calls wait for."""

    ANSWERS = auto()
    SILENT = auto()  # one of them answers nothing, and there is no other one that answers
    ASKED_ANOTHER = auto()  # one of them answers nothing, and another one was asked in its place


class TypedCalls(ABC):
    def call(self, method: Method[R, A], request: R) -> A:
        """Performs `method` and returns its answer. Blocks. Raises the errors of `messaging.errors`; `UnderWay` for a long change
        that goes on after `CHANGE_S`, or when the caller leaves."""
        try:
            return self.perform(method, request)
        except UnderWay as goes_on:
            return self._outcome(goes_on, CHANGES_OUTCOME.answering(method.answer))

    def _outcome(self, goes_on: UnderWay, outcome: Method[ChangeRef, A]) -> A:
        """Asks again and again, each time for a moment, so that nobody who waits takes a turn from those who ask. Where too many
        wait already it is `UnderWay` at once."""
        left = threading.Event()
        until, wait_s = time.monotonic() + CHANGE_S, LOOK_S
        with _room_to_wait(goes_on), current_caller().ending(left.set):
            while time.monotonic() < until and not left.wait(wait_s):
                wait_s = min(2 * wait_s, LOOK_S_MAX)
                try:
                    return self.perform(outcome, ChangeRef(id=goes_on.change))
                except UnderWay as still:
                    goes_on = still
        raise goes_on

    def look(self, waited_s: float, within_s: float) -> Standing:
        """Asks those that somebody has waited for longer than `waited_s` what takes them no time. Blocks for `within_s` for
        each that does not answer. Raises `NotReady` where there is none to ask."""
        self.perform(SMALL, Request())
        return Standing.ANSWERS

    @abstractmethod
    def perform(self, method: Method[R, A], request: R) -> A:
        """One call, whatever it answers."""


def waiting_callers(tenant: str) -> int:
    """Those who wait for a long change."""
    with _lock:
        return _waiting[tenant]


@contextmanager
def _room_to_wait(goes_on: UnderWay) -> Iterator[None]:
    tenant = current_caller().tenant
    with _lock:
        if _waiting.total() >= WAITING_MAX or _waiting[tenant] >= WAITING_PER_TENANT_MAX:
            raise goes_on
        _waiting[tenant] += 1
    try:
        yield
    finally:
        with _lock:
            _waiting[tenant] -= 1
            if not _waiting[tenant]:
                del _waiting[tenant]
