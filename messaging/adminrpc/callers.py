"""Which process may make which call: the list of each service identity, and nothing else is answered to it.

A new method stands on the list of every process that calls it; a test finds methods that are on none. `web` serves people, so it
has whatever the console and the APIs offer, and none of what only tasks do.
"""

from __future__ import annotations

from collections.abc import Mapping

from messaging.adminrpc.methods import METHODS
from messaging.errors import NotAuthorized
from messaging.permissions.model import SERVICE_ROLE_PREFIX, Principal

FEED_PAGE = "GET /internal/v1/feed"  # of the web process; every other call is a method of the broker
FEED = frozenset({"feed.apply", "feed.pull"})  # whoever changes what the feed is about tells the broker
TASKS = frozenset(
    {
        "audit.take",
        "compaction.abort",
        "compaction.begin",
        "compaction.commit",
        "compaction.due",
        "compaction.read",
        "compaction.write",
        "history.take",
        "keys.take_uses",
        "maintenance.run",
        "maintenance.topics",
        "policies.append_events",
        "recycle_bin.expire",
        "redrive.move",
        "redrive.prepare",
        "usage.flush",
        "usage.list_files",
        "usage.read_file",
    }
)

OF_WORKERS_AND_WEB = frozenset(
    {
        "brokers.list",
        "ceilings.used",
        "changes.outcome",
        "messages.publish",
        "namespaces.purge",
        "redrive.scan",
        "status",
        "topics.figures",
        "topics.page",
        "topics.times",
    }
)

# Whoever may read the data directory may copy it.
OF_BACKUPS = frozenset({"backup.hold", "backup.keep", "backup.ledgers"})

OF_OPERATORS = frozenset({"brokers.forget", "brokers.recover"})

OF_BROKERS = frozenset(
    {
        "moves.append",
        "moves.begin",
        "moves.open",
        "moves.stored",
        "news.tell",
        "partitions.check_unused",
        "partitions.delete",
        "recycle_bin.leave",
        "use.open_bytes",
        "use.tell",
    }
)

# What one broker of several asks the others: about topics that are theirs, and what all of them answer together.
OF_TOPICS = frozenset(name for name, method in METHODS.items() if "topic" in method.request.__struct_fields__)
OF_ONE_BROKER = frozenset({"brokers.drain", "brokers.list", "bundles.loads", "bundles.move"})
OF_EVERY_BROKER = frozenset(
    {
        "audit.take",
        "ceilings.used",
        "changes.list",
        "changes.outcome",
        "clients.list",
        "compaction.due",
        "feed.apply",
        "feed.pull",
        "health",
        "history.take",
        "keys.take_uses",
        "maintenance.run",
        "namespaces.live",
        "namespaces.purge",
        "problems.list",
        "status",
        "topics.list",
        "topics.page",
        "topics.ranked",
        "usage.flush",
        "usage.list_files",
        "usage.read_file",
    }
)

CALLS: Mapping[str, frozenset[str]] = {
    "web": frozenset(METHODS) - TASKS - OF_BROKERS - OF_BACKUPS - OF_OPERATORS,
    "worker": TASKS | FEED | OF_WORKERS_AND_WEB,
    # Of `magnetar users` and the like, on the machine itself.
    "cli": FEED | OF_BACKUPS | OF_OPERATORS | {"status", "brokers.drain", "brokers.list", "changes.outcome"},
    "broker": frozenset({FEED_PAGE}) | OF_TOPICS | OF_EVERY_BROKER | OF_BROKERS | OF_ONE_BROKER,
}


def callers_of(call: str) -> list[str]:
    return [name for name, calls in CALLS.items() if call in calls]


def require_call(principal: Principal, call: str) -> None:
    """Raises `NotAuthorized` unless the call is on the list of this process."""
    name = principal.role.removeprefix(SERVICE_ROLE_PREFIX)
    if call not in CALLS.get(name, ()):
        may = " and ".join(callers_of(call))
        raise NotAuthorized(f"{principal.role} may not call {call}: only {may} may")
