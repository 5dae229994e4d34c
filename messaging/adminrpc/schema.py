"""The admin RPC: the typed interface on the broker that web and workers call. One POST a call: ``/rpc/v1/<method>``.

Request and answer are JSON objects of the structs below. The caller shows its service identity (`messaging/identity.py`) as a
bearer token. An error answers with the HTTP status of the error and ``{"code", "message"}``; `messaging.errors.from_code` makes
it an exception again. Unknown fields are ignored, so that two releases can talk. All calls are idempotent unless said otherwise.
`METHODS` is the list that the broker's dispatcher, the client and the permission test share.
"""

from __future__ import annotations

from typing import Any

import msgspec

from messaging.adminrpc.audit import AuditTake as AuditTake
from messaging.adminrpc.audit import AuditTaken as AuditTaken
from messaging.adminrpc.base import Answer as Answer
from messaging.adminrpc.base import Empty as Empty
from messaging.adminrpc.base import Request as Request
from messaging.adminrpc.feed import FeedApply as FeedApply
from messaging.adminrpc.feed import FeedChange as FeedChange
from messaging.adminrpc.feed import FeedVersion as FeedVersion

# --- topics ------------------------------------------------------------------------------------------------------------------


class TopicRef(Request, kw_only=True):
    topic: str  # full name


class TopicCreate(Request, kw_only=True):
    """`partitions` None: a plain topic. Raises conflict if the name exists in either form. Not idempotent."""

    topic: str
    partitions: int | None = None
    properties: dict[str, str] = {}


class TopicDelete(Request, kw_only=True):
    """Without `force`: precondition_failed while producers or subscriptions are attached. `partitioned`: all partitions too."""

    topic: str
    force: bool = False
    partitioned: bool = False


class TopicsList(Request, kw_only=True):
    namespace: str


class NamesSearch(Request, kw_only=True):
    """Names that contain `words` (lower case), of these tenants; `everywhere`: of all tenants."""

    words: str
    tenants: list[str] = []
    everywhere: bool = False
    limit: int = 20


class SubscriptionFound(Answer, kw_only=True):
    topic: str
    name: str


class SearchResult(Answer, kw_only=True):
    """At most `limit` of each; partitions are named by their partitioned topic."""

    topics: list[str]
    subscriptions: list[SubscriptionFound]


class TopicNames(Answer, kw_only=True):
    """`topics`: plain topics and partitions one by one. `partitioned`: partitioned topic -> number of partitions."""

    topics: list[str]
    partitioned: dict[str, int]


class PartitionsGet(Request, kw_only=True):
    topic: str
    check_auto_creation: bool = False  # 0 instead of topic_not_found where the topic would be made on first use


class Partitions(Answer, kw_only=True):
    partitions: int
    properties: dict[str, str] = {}


class PartitionsUpdate(Request, kw_only=True):
    topic: str
    partitions: int


class TopicLookup(Request, kw_only=True):
    topic: str


class LookupAnswer(Answer, kw_only=True):
    broker_url: str
    broker_url_tls: str
    http_url: str
    http_url_tls: str


class Stats(Answer, kw_only=True):
    """`stats` has the keys of Pulsar's TopicStats / internal stats (research: camelCase names)."""

    stats: dict[str, Any]


class MessageIdAnswer(Answer, kw_only=True):
    ledger_id: int
    entry_id: int
    partition: int = -1


class TopicLive(msgspec.Struct, kw_only=True):
    """One row of the live topic table. Rates are of the last few seconds. None: not known, as the topic is not loaded."""

    topic: str
    loaded: bool
    rate_in: float  # messages/s
    rate_out: float
    throughput_in: float  # bytes/s
    throughput_out: float
    messages_in: int | None  # since the broker's boot
    messages_out: int | None
    storage_bytes: int | None
    backlog_entries: int | None  # the largest backlog among its subscriptions
    producers: int
    subscriptions: int | None
    consumers: int


class NamespaceLive(Answer, kw_only=True):
    """`sequence` rises with each snapshot of a broker's boot; `at_ms` is the broker's clock."""

    sequence: int
    at_ms: int
    boot_epoch: int
    topics: list[TopicLive]


# --- subscriptions -----------------------------------------------------------------------------------------------------------


class SubscriptionRef(Request, kw_only=True):
    topic: str
    subscription: str


class SubscriptionCreate(Request, kw_only=True):
    """`ledger_id`/`entry_id`: -1/-1 earliest, 2^63-1 each latest, else that position. Not idempotent."""

    topic: str
    subscription: str
    ledger_id: int = 2**63 - 1
    entry_id: int = 2**63 - 1
    properties: dict[str, str] = {}


class SubscriptionDelete(Request, kw_only=True):
    topic: str
    subscription: str
    force: bool = False


class SubscriptionSkip(Request, kw_only=True):
    """`entries` None: the whole backlog."""

    topic: str
    subscription: str
    entries: int | None = None


class SubscriptionReset(Request, kw_only=True):
    """Exactly one of `timestamp_ms` and (`ledger_id`, `entry_id`)."""

    topic: str
    subscription: str
    timestamp_ms: int | None = None
    ledger_id: int | None = None
    entry_id: int | None = None


class SubscriptionExpire(Request, kw_only=True):
    """Marks entries older than `older_than_s` as consumed. `subscription` "": all of the topic."""

    topic: str
    subscription: str = ""
    older_than_s: int


class SubscriptionMoved(Answer, kw_only=True):
    """Topic, or partition -> the mark-delete position before and after, each as ``ledger:entry``; "" before it
    was created and after it was deleted. Of the first `MOVED_SHOWN` partitions."""

    moved: dict[str, tuple[str, str]] = {}


class SubscriptionNames(Answer, kw_only=True):
    subscriptions: list[str]


class PeekAnswer(Answer, kw_only=True):
    """One stored message: `payload` is base64 of what follows the metadata; `headers` are Pulsar's ``X-Pulsar-*`` headers."""

    ledger_id: int
    entry_id: int
    payload: str
    headers: dict[str, str]


class SubscriptionPeek(Request, kw_only=True):
    topic: str
    subscription: str
    position: int  # 1 = the first unacknowledged entry


# --- upkeep (idempotent: `task_id` names the run) ----------------------------------------------------------------------------


class MaintenanceTopics(Request, kw_only=True):
    """A page of every topic the broker stores, loaded or not, over all namespaces."""

    after: str = ""
    limit: int = 500


class MaintenancePage(Answer, kw_only=True):
    topics: list[str]
    next_after: str  # "" when there is no more


class MaintenanceRun(Request, kw_only=True):
    """Applies the effective policies to the named topics: expiry of messages past their TTL, trimming past retention."""

    task_id: str
    topics: list[str]


class MaintenanceResult(Answer, kw_only=True):
    expired_entries: int
    trimmed_ledgers: int
    freed_bytes: int
    failed: dict[str, str]  # topic -> why


class UsageFlush(Request, kw_only=True):
    """Closes the running interval and writes it out, so that a job sees usage up to now."""

    task_id: str


class UsageFlushed(Answer, kw_only=True):
    files: list[str]  # paths of Parquet files below DATA_DIR/usage/raw
    rows: int


# --- the broker itself -------------------------------------------------------------------------------------------------------


class BrokerStatus(Answer, kw_only=True):
    broker_id: str
    boot_epoch: int
    version: str
    uptime_ms: int
    ready: bool
    why_not_ready: str
    feed_version: int
    connections: int
    topics_loaded: int
    producers: int
    consumers: int
    hot_loops: str  # "compiled" or "python"
    durability: str
    resident_bytes: int


MOVED_SHOWN = 100

METHODS: dict[str, tuple[type[Request], type[Answer]]] = {
    "status": (Request, BrokerStatus),
    "health": (Request, Empty),  # a real produce and consume round trip, as Pulsar's health check
    "feed.apply": (FeedApply, FeedVersion),
    "feed.version": (Request, FeedVersion),
    "feed.pull": (Request, FeedVersion),
    "topics.list": (TopicsList, TopicNames),
    "names.search": (NamesSearch, SearchResult),
    "topics.create": (TopicCreate, Empty),
    "topics.delete": (TopicDelete, Empty),
    "topics.partitions": (PartitionsGet, Partitions),
    "topics.update_partitions": (PartitionsUpdate, Empty),
    "topics.lookup": (TopicLookup, LookupAnswer),
    "topics.stats": (TopicRef, Stats),
    "topics.internal_stats": (TopicRef, Stats),
    "topics.partitioned_stats": (TopicRef, Stats),
    "topics.unload": (TopicRef, Empty),
    "topics.terminate": (TopicRef, MessageIdAnswer),
    "topics.truncate": (TopicRef, Empty),  # every message goes, every subscription stands at the end; ids go on rising
    "topics.last_message_id": (TopicRef, MessageIdAnswer),
    "namespaces.live": (TopicsList, NamespaceLive),
    "namespaces.purge": (TopicsList, Empty),  # of a namespace that does not exist: what somebody made there while it was deleted
    "subscriptions.list": (TopicRef, SubscriptionNames),
    "subscriptions.create": (SubscriptionCreate, SubscriptionMoved),
    "subscriptions.delete": (SubscriptionDelete, SubscriptionMoved),
    "subscriptions.skip": (SubscriptionSkip, SubscriptionMoved),
    "subscriptions.reset": (SubscriptionReset, SubscriptionMoved),
    "subscriptions.expire": (SubscriptionExpire, SubscriptionMoved),
    "subscriptions.peek": (SubscriptionPeek, PeekAnswer),
    "upkeep.topics": (MaintenanceTopics, MaintenancePage),
    "upkeep.run": (MaintenanceRun, MaintenanceResult),
    "usage.flush": (UsageFlush, UsageFlushed),
    "audit.take": (AuditTake, AuditTaken),
}
