"""Compacts the topics for which that was requested, and those that have reached the threshold of their policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from messaging import logs
from messaging.adminrpc.schema import CompactionsDue
from messaging.errors import MagnetarError
from workers.compaction import compact_topic
from workers.environment import Environment, Stopping

log = logs.get_logger("magnetar.worker")
PAGE_TOPICS = 500
FAILURES_TOLD_MAX = 20


def compact_topics(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """One topic after another, until none is due. A topic that fails does not hold up the others.

    Safe to run twice and to kill at any moment: a topic is compacted when the broker has stored so, and untouched before. Raises
    `MagnetarError` when the broker is away."""
    compacted = removed = 0
    failed: dict[str, str] = {}
    tried: set[str] = set()
    found = True
    while found:  # others may have become due in the meantime
        found = False
        for topic in _due(environment, renew):
            if topic in tried:
                continue
            found = True
            tried.add(topic)
            try:
                removed += compact_topic(environment, topic, task_id, renew)
                compacted += 1
            except MagnetarError as error:
                why = error.message
            except Stopping:
                raise
            except Exception as error:  # whatever is in a topic, its neighbours are not to wait for it
                log.exception("compaction-failed", topic=topic)
                why = f"{type(error).__name__}: {error}"[:1000]
            else:
                continue
            if len(failed) < FAILURES_TOLD_MAX:
                failed[topic] = why
    return {"compacted": compacted, "removed_messages": removed, "failures": len(tried) - compacted, "failed": failed}


def _due(environment: Environment, renew: Callable[[], None]) -> Iterator[str]:
    after = ""
    while True:
        renew()
        page = environment.rpc.call("compaction.due", CompactionsDue(after=after, limit=PAGE_TOPICS))
        yield from page.topics
        if not page.next_after:
            return
        after = page.next_after
