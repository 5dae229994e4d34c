"""Applies TTL, retention and the deletion of what nobody uses to all topics, loaded or not, and empties the recycle bin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messaging.adminrpc.maintenance import MaintenanceRun, MaintenanceTopics
from messaging.adminrpc.methods import MAINTENANCE_RUN, MAINTENANCE_TOPICS, RECYCLE_BIN_EXPIRE
from messaging.adminrpc.recycle_bin import RecycleBinExpire
from messaging.errors import MagnetarError
from tenants.access import platform_actor
from tenants.actions.recycled_ends import purge_due
from tenants.actions.topics import forget_policies_of_gone_topics
from workers.environment import Environment

PAGE_TOPICS = 500
ROLE = "service:worker"
BATCH_TOPICS = 50  # one call, after which the task may be stopped
CALLS_FAILED_MAX = 2  # one after the other: the broker is away
FAILURES_TOLD_MAX = 20


def expire_messages(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Asks the broker topic by topic to apply its effective policies. A topic that fails, or takes long, holds up no other.
    A run that ends early is continued by the next one: the broker gives out the topics, and knows how far a round has come.

    Safe to run twice: the broker decides by its own clock what is due. Raises `MagnetarError` when the broker is away.
    """
    topics = expired = trimmed = freed = failures = 0
    deleted = subscriptions = unloaded = passed_over = calls_failed = 0
    failed: dict[str, str] = {}
    after = ""
    while True:
        page = environment.rpc.call(MAINTENANCE_TOPICS, MaintenanceTopics(after=after, limit=PAGE_TOPICS))
        for start in range(0, len(page.topics), BATCH_TOPICS):
            renew()
            batch = page.topics[start : start + BATCH_TOPICS]
            topics += len(batch)
            try:
                result = environment.rpc.call(MAINTENANCE_RUN, MaintenanceRun(task_id=task_id, topics=batch))
            except MagnetarError as error:
                calls_failed += 1
                if calls_failed == CALLS_FAILED_MAX:
                    raise
                failures += len(batch)
                failed[batch[0]] = f"{error} (and {len(batch) - 1} topics after it)"
                continue
            calls_failed = 0
            passed_over += result.passed_over
            expired += result.expired_entries
            trimmed += result.trimmed_ledgers
            freed += result.freed_bytes
            deleted += result.deleted_topics
            subscriptions += result.expired_subscriptions
            unloaded += result.unloaded_topics
            failures += len(result.failed)
            for topic, why in list(result.failed.items())[: FAILURES_TOLD_MAX - len(failed)]:
                failed[topic] = why
        if not page.next_after:
            break
        if page.next_after == after:
            raise MagnetarError(f"the broker's page after {after!r} ends where it began: this is a bug; please report it")
        after = page.next_after
    return {
        "topics": topics,
        "purged_topics": _purge_expired(environment, renew, failed),
        "purged_recycled": _purge_recycled(environment, renew, failed),
        "forgotten_policies": forget_policies_of_gone_topics(environment.rpc, renew),
        "expired_entries": expired,
        "trimmed_ledgers": trimmed,
        "freed_bytes": freed,
        "deleted_topics": deleted,
        "expired_subscriptions": subscriptions,
        "unloaded_topics": unloaded,
        "passed_over": passed_over,
        "failures": failures,
        "failed": failed,
    }


def _purge_expired(environment: Environment, renew: Callable[[], None], failed: dict[str, str]) -> int:
    """Deletes what has been in the recycle bin for as long as it was to be. What fails is tried again by the next run."""
    purged = 0
    while True:
        renew()
        done = environment.rpc.call(RECYCLE_BIN_EXPIRE, RecycleBinExpire())
        purged += done.purged
        for topic, why in list(done.failed.items())[: max(0, FAILURES_TOLD_MAX - len(failed))]:
            failed[topic] = why
        if not done.purged:
            return purged


def _purge_recycled(environment: Environment, renew: Callable[[], None], failed: dict[str, str]) -> int:
    """Namespaces, likewise."""
    purged, left = purge_due(platform_actor(ROLE), environment.now(), renew)
    failed.update(list(left.items())[: max(0, FAILURES_TOLD_MAX - len(failed))])
    return purged
