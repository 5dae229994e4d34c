"""The admin RPC says each method once, and the broker has one handler for it."""

from __future__ import annotations

from messaging.adminrpc import methods
from messaging.adminrpc.base import Method
from messaging.adminrpc.methods import METHODS
from messaging.broker.runtime.admin.binding import bound
from tests.support.brokers.memory_broker import MemoryBroker


def test_a_method_is_called_what_its_constant_is_called() -> None:
    constants = {name: method.name for name, method in vars(methods).items() if isinstance(method, Method)}
    assert constants == {name.upper().replace(".", "_"): name for name in METHODS}


def test_each_method_has_one_handler() -> None:
    broker = MemoryBroker()
    try:
        answered = [method.name for part in vars(broker.handlers).values() for method, _ in bound(part)]
        assert sorted(answered) == sorted(METHODS) == sorted(broker.handlers.methods)
    finally:
        broker.stop()
