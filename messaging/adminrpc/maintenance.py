"""Admin RPC: maintenance of topics by policy. Idempotent: `task_id` names the run."""

from __future__ import annotations

from messaging.adminrpc import fields
from messaging.adminrpc.base import Answer, Request


class MaintenanceTopics(Request, kw_only=True):
    """A page of every topic the broker stores, loaded or not, over all namespaces."""

    after: fields.Topic = ""  # "": the next round over all topics; else `next_after` of the page before
    limit: fields.PageLimit = 500  # of names in order; before the first of a round come some that the last one passed over


class MaintenancePage(Answer, kw_only=True):
    topics: list[str]
    next_after: str  # "" when there is no more


class MaintenanceRun(Request, kw_only=True):
    """Applies the effective policies to the named topics: expiry of messages past their TTL or quota, trimming past retention,
    deletion of subscriptions and topics that nobody uses. Unloads idle topics. Ends within some ten seconds: topics that take long
    are passed over."""

    task_id: fields.Name
    topics: fields.Topics


class MaintenanceResult(Answer, kw_only=True):
    expired_entries: int
    trimmed_ledgers: int
    freed_bytes: int
    expired_subscriptions: int = 0
    deleted_topics: int = 0
    unloaded_topics: int = 0
    passed_over: int = 0  # topics that take long: their work goes on, and they come first in the next round
    failed: dict[str, str]  # topic -> why
