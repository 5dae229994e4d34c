"""Compacts the topics for which that was requested, and those that have reached the threshold of their policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from messaging import logs
from messaging.adminrpc.schema import CompactionsDue
from messaging.errors import MagnetarError
from messaging.protocol.names import parse_topic
from workers.compaction import compact_topic
from workers.environment import Environment, Stopping
from workers.turns import Turns

log = logs.get_logger("magnetar.worker")
PAGE_TOPICS = 500
FAILURES_TOLD_MAX = 20
TENANT_TOPICS = 100  # of one tenant in a list of what is due
LISTED_FOR = timedelta(minutes=1)  # then the broker is asked again: another tenant may have begun to wait


def compact_topics(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """One topic after another, until none is due; the next one is of the tenant for which least time was spent in this run. A topic
    that fails does not hold up the others.

    Safe to run twice and to kill at any moment: a topic is compacted when the broker has stored so, and untouched before. Raises
    `MagnetarError` when the broker is away."""
    compacted = removed = 0
    failed: dict[str, str] = {}
    tried: set[str] = set()
    turns = Turns()
    while waiting := _waiting(environment, tried, renew):
        listed = environment.now()
        while waiting:
            tenant = turns.next(waiting)
            topic = waiting[tenant].popleft()
            if not waiting[tenant]:
                del waiting[tenant]
            tried.add(topic)
            begun = environment.now()
            try:
                removed += compact_topic(environment, topic, task_id, renew)
                compacted += 1
            except Stopping:
                raise
            except Exception as error:  # whatever is in a topic, its neighbours are not to wait for it
                if len(failed) < FAILURES_TOLD_MAX:
                    failed[topic] = _why(error, topic)
            ended = environment.now()
            turns.took(tenant, (ended - begun).total_seconds())
            if ended - listed >= LISTED_FOR:
                break
    return {"compacted": compacted, "removed_messages": removed, "failures": len(tried) - compacted, "failed": failed}


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
        page = environment.rpc.call("compaction.due", CompactionsDue(after=after, limit=PAGE_TOPICS))
        yield from page.topics
        if not page.next_after:
            return
        after = page.next_after
