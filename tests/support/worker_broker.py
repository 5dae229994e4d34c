"""A broker for tests of workers: small, but it keeps its word. Requests and answers cross it as JSON, as they would the wire."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from messaging.adminrpc import schema as s
from messaging.adminrpc.calls import TypedCalls
from messaging.broker.core.control_view import ControlView
from messaging.broker.core.memory_limiter import MemoryLimiter
from messaging.broker.runtime.audit import BrokerAudit
from messaging.errors import MagnetarError, NotReady

A = TypeVar("A", bound=s.Answer)
START = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Clock:
    """UTC, moved by hand."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class FakeBroker(TypedCalls):
    """Topics with the publish times of their messages (s) and a TTL. Pages are in order of names and bounded, as the RPC says."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.topics: dict[str, tuple[int, list[float]]] = {}
        self.away = False
        self.broken: set[str] = set()
        self.calls: list[tuple[str, s.Request]] = []
        self.on_run: Callable[[], None] = lambda: None
        self.rows_waiting = 0
        self.restart_audit()
        self._lock = threading.Lock()

    def restart_audit(self) -> None:
        """The broker's own table, in a new run of it. Knows the tenant acme."""
        view = ControlView(superuser_roles=(), policy_defaults={}, anonymous_public=False)
        view.tenants["acme"] = {"uid": "u1"}
        self.audit = BrokerAudit("broker-1", view, lambda: int(self.now().timestamp() * 1000), MemoryLimiter(256 << 20).records)

    def add(self, topic: str, ttl_s: int, ages_s: list[float]) -> None:
        self.topics[topic] = (ttl_s, [self.now().timestamp() - age for age in ages_s])

    def messages(self) -> int:
        return sum(len(times) for _, times in self.topics.values())

    def perform(self, method: str, request: s.Request, answer_type: type[A]) -> A:
        if self.away:
            raise NotReady("the broker does not answer: try again")
        expected, gives = s.METHODS[method]
        request = msgspec.json.decode(msgspec.json.encode(request), type=expected)
        with self._lock:
            self.calls.append((method, request))
            answer = getattr(self, "_" + method.replace(".", "_"))(request)
        assert isinstance(answer, gives)
        return msgspec.json.decode(msgspec.json.encode(answer), type=answer_type)

    def _upkeep_topics(self, request: s.MaintenanceTopics) -> s.MaintenancePage:
        names = sorted(name for name in self.topics if name > request.after)
        page = names[: request.limit]
        return s.MaintenancePage(topics=page, next_after=page[-1] if len(names) > len(page) else "")

    def _upkeep_run(self, request: s.MaintenanceRun) -> s.MaintenanceResult:
        self.on_run()
        expired, failed = 0, {}
        for topic in request.topics:
            if topic in self.broken:
                failed[topic] = "the disk refused"
                continue
            if topic not in self.topics:
                failed[topic] = "there is no such topic"
                continue
            ttl_s, times = self.topics[topic]
            kept = [at for at in times if not ttl_s or self.now().timestamp() - at <= ttl_s]
            expired += len(times) - len(kept)
            self.topics[topic] = (ttl_s, kept)
        return s.MaintenanceResult(expired_entries=expired, trimmed_ledgers=0, freed_bytes=100 * expired, failed=failed)

    def _usage_flush(self, request: s.UsageFlush) -> s.UsageFlushed:
        rows, self.rows_waiting = self.rows_waiting, 0
        return s.UsageFlushed(files=["a.parquet"] if rows else [], rows=rows)

    def _audit_take(self, request: s.AuditTake) -> s.AuditTaken:
        return self.audit.take(request)


class Unpaged(FakeBroker):
    """Breaks the promise that pages go forward."""

    def _upkeep_topics(self, request: s.MaintenanceTopics) -> s.MaintenancePage:
        return s.MaintenancePage(topics=[], next_after="a")


__all__ = ["Clock", "FakeBroker", "MagnetarError", "START", "Unpaged"]
