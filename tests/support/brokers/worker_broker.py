"""A real broker for tests of workers, with messages of the ages that a test says, and a clock moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from messaging.adminrpc.methods import MAINTENANCE_RUN
from messaging.broker.runtime.audit import BrokerAudit
from tests.support.brokers.broker_line import BrokerLine
from tests.support.brokers.memory_broker import MemoryBroker

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
TTL_S = 60
NAMESPACES = {"acme/orders": {"message_ttl_s": TTL_S}, "acme/kept": {}}


class Clock:
    """UTC, moved by hand."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class WorkerBroker(BrokerLine):
    """Messages in acme/orders live for `TTL_S`, those in acme/kept for ever. `on_run` says what happens before each
    maintenance run."""

    def __init__(self, real: MemoryBroker) -> None:
        super().__init__(real)
        self.real = real
        policies = {("namespace", name): {"policies": namespace_policies} for name, namespace_policies in NAMESPACES.items()}
        real.tell(1, {("tenant", "acme"): {"uid": "u1"}, **policies})

    @property
    def audit(self) -> BrokerAudit:
        return self.real.service.audit

    def on_run(self, act: Callable[[], None]) -> None:
        self.divert(MAINTENANCE_RUN, lambda _: act())

    def add(self, topic: str, ages_s: list[float]) -> None:
        """A topic with a subscription that has acknowledged none of its messages; those past the TTL have ledgers of their own."""
        self.real.ahead_s = -max(ages_s)
        self.real.add(topic, "s")
        for age_s in sorted(ages_s, reverse=True):
            self.real.ahead_s = -age_s
            self.real.publish(topic, b"m")
            if age_s > TTL_S:
                self.real.roll(topic)
        self.real.ahead_s = 0

    def messages(self) -> int:
        """Those that nobody has acknowledged."""
        return sum(map(self.real.backlog, self.real.topics))


@contextmanager
def worker_broker(now: Callable[[], datetime]) -> Iterator[WorkerBroker]:
    real = MemoryBroker(now_ms=lambda: int(now().timestamp() * 1000), identity="worker")
    try:
        yield WorkerBroker(real)
    finally:
        real.stop()
