"""The line between a test's subject and a broker: it notes what crosses it, and breaks as a test says. It decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from messaging.adminrpc.base import A, Answer, Method, R
from messaging.adminrpc.calls import TypedCalls
from messaging.errors import NotReady
from tests.support.storage.faults import Fault

Instead = Callable[[Any], Answer | None]


class BrokerLine(TypedCalls):
    """`calls`: every (method, request) that reached the broker, in order."""

    def __init__(self, broker: TypedCalls) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._broker = broker
        self._cut: tuple[str, Fault] | None = None
        self._instead: dict[str, tuple[Instead, Fault]] = {}

    def cut(self, why: str = "the broker is not responding (Connection refused): check that it is running, and try again") -> Fault:
        """From now on no call reaches the broker: each raises `NotReady` with `why`, and fires the fault."""
        fault = Fault(f"the line is cut: {why}")
        self._cut = why, fault
        return fault

    def mend(self) -> None:
        """Calls reach the broker again, and are answered by it."""
        self._cut = None
        self._instead.clear()

    def divert(self, method: Method[R, A], instead: Instead) -> None:
        """Calls of `method` are answered by `instead`, which may raise; where it answers None, by the broker after all."""
        self._instead[method.name] = instead, Fault(f"{method.name} is diverted")

    def called(self, method: Method[R, A]) -> list[R]:
        return [request for name, request in self.calls if name == method.name]

    def perform(self, method: Method[R, A], request: R) -> A:
        if self._cut is not None:
            why, fault = self._cut
            fault.fire()
            raise NotReady(why)
        self.calls.append((method.name, request))
        if method.name in self._instead:
            instead, fault = self._instead[method.name]
            fault.fire()
            answer = instead(request)
            if answer is not None:
                return msgspec.json.decode(msgspec.json.encode(answer), type=method.answer)
        return self._broker.perform(method, request)
