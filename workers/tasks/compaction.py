"""Compacts the topics for which that was requested, and those that have reached the threshold of their policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from threading import Event
from typing import Any, NamedTuple

from messaging import logs
from messaging.adminrpc.compaction import CompactionsDue
from messaging.adminrpc.methods import COMPACTION_DUE
from messaging.errors import MagnetarError
from messaging.protocol.names import parse_topic
from workers.compaction import compact_topic, parts_folder
from workers.environment import Environment, Stopping
from workers.part_files import fresh_folder
from workers.turns import Turns

log = logs.get_logger("magnetar.worker")
PAGE_TOPICS = 500
FAILURES_TOLD_MAX = 20
TENANT_TOPICS = 100  # of one tenant in a list of what is due
RENEW_S = 1.0  # between two looks at the lease, while topics are compacted
LISTED_FOR = timedelta(minutes=1)  # then the broker is asked again: another tenant may have begun to wait


def compact_topics(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Compacts topics until none is due: of `compactions_at_once` tenants at a time, and of each one topic after another. The next
    one is of the tenant for which least time was spent in this run. A topic that fails does not hold up the others.

    Safe to run twice and to kill at any moment: a topic is compacted when the broker has stored so, and untouched before. Raises
    `MagnetarError` when the broker is away."""
    fresh_folder(parts_folder(environment.settings))  # of a worker that was killed; its sessions have other names than ours
    run = _Run(environment, task_id)
    most = environment.settings.compactions_at_once
    with ThreadPoolExecutor(most, thread_name_prefix="compaction") as threads:
        try:
            _serve(run, most, threads, renew)
        except BaseException:
            run.ended.set()  # those under way give up at their next step
            raise
    return run.summary()


class _Served(NamedTuple):
    tenant: str
    topic: str
    begun: datetime


class _Run:
    """What was tried, and what became of it."""

    def __init__(self, environment: Environment, task_id: str) -> None:
        self.environment = environment
        self.tried: set[str] = set()
        self.ended = Event()
        self._task_id = task_id
        self._compacted = self._removed = 0
        self._failed: dict[str, str] = {}

    def compact(self, topic: str) -> int:
        """In a thread of its own."""
        return compact_topic(self.environment, topic, self._task_id, self._go_on)

    def _go_on(self) -> None:
        if self.ended.is_set() or self.environment.stopping.is_set():
            raise Stopping("the run has ended")

    def finished(self, topic: str, outcome: Future[int]) -> None:
        """Raises `Stopping`."""
        try:
            self._removed += outcome.result()
            self._compacted += 1
        except Stopping:
            raise
        except Exception as error:  # whatever is in a topic, its neighbours are not to wait for it
            if len(self._failed) < FAILURES_TOLD_MAX:
                self._failed[topic] = _why(error, topic)

    def summary(self) -> dict[str, Any]:
        failures = len(self.tried) - self._compacted
        return {"compacted": self._compacted, "removed_messages": self._removed, "failures": failures, "failed": self._failed}


def _serve(run: _Run, most: int, threads: ThreadPoolExecutor, renew: Callable[[], None]) -> None:
    environment, turns = run.environment, Turns()
    waiting, listed, stale = dict[str, deque[str]](), environment.now(), True
    served: dict[Future[int], _Served] = {}
    while True:
        if stale:
            waiting, listed = _waiting(environment, run.tried, renew), environment.now()
        busy = {serving.tenant for serving in served.values()}
        while len(served) < most and (free := [tenant for tenant in waiting if tenant not in busy]):
            tenant = turns.next(free, busy)
            topic = waiting[tenant].popleft()
            if not waiting[tenant]:
                del waiting[tenant]
            run.tried.add(topic)
            busy.add(tenant)
            served[threads.submit(run.compact, topic)] = _Served(tenant, topic, environment.now())
        if not served:
            return
        done, _ = wait(served, RENEW_S, FIRST_COMPLETED)
        renew()
        for outcome in done:
            serving = served.pop(outcome)
            run.finished(serving.topic, outcome)
            turns.took(serving.tenant, (environment.now() - serving.begun).total_seconds())
        stale = bool(done and not waiting) or environment.now() - listed >= LISTED_FOR


def _why(error: Exception, topic: str) -> str:
    if isinstance(error, MagnetarError):
        return error.message
    log.error("compaction-failed", topic=topic, exc_info=error)
    return f"{type(error).__name__}: {error}"[:1000]


def _waiting(environment: Environment, tried: set[str], renew: Callable[[], None]) -> dict[str, deque[str]]:
    """The topics of each tenant that are due and were not tried: at most `TENANT_TOPICS`, first those that were requested."""
    waiting: dict[str, deque[str]] = {}
    for topic in _due(environment, renew):
        if topic not in tried:
            mine = waiting.setdefault(parse_topic(topic).tenant, deque())
            if len(mine) < TENANT_TOPICS:
                mine.append(topic)
    return waiting


def _due(environment: Environment, renew: Callable[[], None]) -> Iterator[str]:
    after = ""
    while True:
        renew()
        page = environment.rpc.call(COMPACTION_DUE, CompactionsDue(after=after, limit=PAGE_TOPICS))
        yield from page.topics
        if not page.next_after:
            return
        after = page.next_after
