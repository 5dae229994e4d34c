"""The interface of metadata storage: topics, partitions, subscriptions, ledger lists, cursor snapshots, and who owns what.

MetaStore is authoritative for topics, partitions, schemas and subscriptions (the control plane's database for tenants, namespaces,
policies, grants, keys and people). Every mutating call resolves only when it is durable; several share one commit.

Calls of one process that are about the same tenant commit in call order: so do all about one topic, its partitions, subscriptions
and schema, and the values named after it. So do those that save cursors, of whichever topics, and those that are the broker's own
(fences, ledger ids, its values, all that reads across tenants). Between these, order is kept only by waiting: whoever needs one
done before the other awaits it. However many calls a tenant makes, those of others wait for the commit under way and their own.

- A change that overtakes the taking over of its range still has the newest fence; one that is overtaken is refused.
- Saving a cursor that overtakes its subscription's deletion, or is overtaken, leaves nothing: its id never comes again.
- A topic that is being unloaded keeps its cursors in memory until they are saved, and is read again after that.

Every mutating call carries the fence of the range that it is about, and changes something only while that fence is the newest of
its scope: else it raises `Fenced`. What is read first and then changed carries the version that was read as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import msgspec

from messaging.storage.ledger_store import EARLIEST, Fence, Position
from messaging.storage.recycled_topic import PREFIX, RecycledTopic, ValueKeys


class MetaConflict(Exception):
    """The record changed since it was read (its version differs), exists already, or is gone."""


NO_PROPERTIES: dict[str, str] = {}  # one for all: there may be 100,000 topics, and nearly none has any
NO_TIMES: dict[str, int] = {}


class LedgerRecord(msgspec.Struct, frozen=True, gc=False):
    """One ledger of a topic. `last_entry` is None while it is open (or was when the broker died: seal tells)."""

    ledger_id: int
    last_entry: int | None = None
    length_bytes: int = 0
    created_ms: int = 0
    sealed_ms: int = 0


class CompactedLedger(msgspec.Struct, frozen=True, gc=False):
    """What the last compaction of a topic left: the entries up to `horizon` that are still of use, in a sparse ledger of their own.

    `base_ledger_id` is what ids in that ledger count from (see `messaging/storage/managed/compacted_ids.py`). `last` is the last
    entry that was kept, `EARLIEST` if none was, and `last_batch_index` its last message, -1 if it is not a batch."""

    ledger_id: int
    horizon: Position
    base_ledger_id: int
    entries: int
    length_bytes: int
    last: Position = EARLIEST
    last_batch_index: int = -1
    created_ms: int = 0


class DelayedRun(msgspec.Struct, frozen=True, gc=False):
    """A part of the index of a topic's delayed messages: blocks of entries in the order of their times, in a ledger of its own, and
    a directory (see `messaging/broker/core/delayed/run_format.py`). Entry i of the ledger is block i. Blocks before `first_block`
    were released."""

    ledger_id: int
    entries: int
    directory_id: int  # the ledger of the directory: the same, unless it was written again
    directory_entry: int  # its first entry there; it goes on to the last one
    first_block: int = 0
    length_bytes: int = 0

    @property
    def ledger_ids(self) -> list[int]:
        return [self.ledger_id] if self.directory_id == self.ledger_id else [self.ledger_id, self.directory_id]


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic that holds messages: a plain one, or one partition. `name` is the full name, ``persistent://…``."""

    name: str
    version: int = 0  # 0: not stored yet; each write raises it by one
    created_ms: int = 0
    ledgers: tuple[LedgerRecord, ...] = ()
    terminated_at: Position | None = None
    properties: dict[str, str] = field(default_factory=lambda: NO_PROPERTIES)
    topic_epoch: int = -1  # of the last exclusive producer; -1: there was none
    # Since when a topic that is not loaded ("") and its subscriptions were not used, where a policy asks for it, in milliseconds.
    idle_since: dict[str, int] = field(default_factory=lambda: NO_TIMES)
    compacted: CompactedLedger | None = None
    delayed_runs: tuple[DelayedRun, ...] = ()  # the index of delayed messages

    @property
    def ledger_ids(self) -> list[int]:
        """Of everything that is stored of it."""
        ids = [ledger.ledger_id for ledger in self.ledgers]
        ids += [ledger_id for run in self.delayed_runs for ledger_id in run.ledger_ids]
        return ids if self.compacted is None else [*ids, self.compacted.ledger_id]

    def with_ledgers(self, ledgers: tuple[LedgerRecord, ...]) -> TopicRecord:
        return replace(self, ledgers=ledgers)


@dataclass(frozen=True, slots=True)
class PartitionedRecord:
    """A partitioned topic: only a number and properties; its partitions are topics of their own."""

    name: str
    partitions: int
    created_ms: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    version: int = 0  # 0: not stored yet; each write raises it by one
    growing_to: int = 0  # while partitions are being added: how many there will be; nobody sees them before
    deleting: bool = False  # its partitions are going one by one, and none is made any more
    recycling: RecycledTopic | None = None  # while it is `deleting`: they go to the recycle bin
    restoring: RecycledTopic | None = None  # its partitions are coming back from there one by one; nobody sees it before

    @property
    def unfinished(self) -> bool:
        """A change of its partitions was begun."""
        return bool(self.growing_to or self.deleting or self.restoring)

    @property
    def partitions_reserved(self) -> int:
        """Those that nobody sees yet included."""
        return max(self.partitions, self.growing_to)


_PARTITION = re.compile(r"(.+/[^/]+)-partition-(0|[1-9][0-9]{0,5})")


def version_conflict(name: str, expected: int) -> str:
    """Why the record of a topic is not written: it is not at version `expected`; 0: it was to be made."""
    return f"{name} is not at version {expected} any more" if expected else f"topic {name} exists already"


def creation_conflict(topic: str, partitioned: Callable[[str], PartitionedRecord | None]) -> str:
    """Why no topic of this name can be made beside the partitioned ones that are stored; "" where it can."""
    if partitioned(topic) is not None:
        return f"{topic} is a partitioned topic"
    match = _PARTITION.fullmatch(topic)
    if match is None:
        return ""
    parent = partitioned(match[1])
    if parent is None:  # a plain topic that is called like a partition
        return ""
    if parent.deleting:
        return f"partitioned topic {match[1]} is being deleted"
    if int(match[2]) >= max(parent.partitions, parent.growing_to):
        return f"{match[1]} has {parent.partitions} partitions, numbered from 0"
    return ""


def partitioning_conflict(name: str, topics: Iterable[str]) -> str:
    """Why no partitioned topic of this name can be made beside the plain `topics` whose names begin like it; "" where it can."""
    for topic in topics:
        if topic == name:
            return f"topic {name} exists, without partitions"
        if partitioned_name(topic) == name:
            return f"{topic} exists, a plain topic that is called like a partition"
    return ""


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """A durable subscription. `subscription_id` is unique in the store and never used again: cursor deltas carry it.

    `state` is the cursor's snapshot (format of `broker/core/cursors/cursor.py`); newer deltas may follow in the cursor ledger.
    """

    subscription_id: int
    topic: str
    name: str
    created_ms: int = 0
    mark_delete: Position = EARLIEST
    state: bytes = b""
    properties: dict[str, str] = field(default_factory=dict)


class PageTopic(NamedTuple):
    name: str
    partitions: int  # 0: it is not partitioned


class TopicCounts(NamedTuple):
    """Of a namespace, system topics included."""

    in_pages: int  # a partitioned topic counts as one
    stored: int  # persistent ones, partitions one by one


class SearchResult(NamedTuple):
    topics: list[str]
    subscriptions: list[tuple[str, str]]  # of which topic, and its name


def namespace_of(topic: str) -> str:
    """``tenant/namespace`` of a full topic name such as ``persistent://tenant/namespace/local``."""
    rest = topic.partition("://")[2]
    tenant, _, after = rest.partition("/")
    return f"{tenant}/{after.partition('/')[0]}"


def by_relevance(words: str) -> Callable[[str], tuple[bool, str]]:
    """The order of topics that a search found: those whose own name is `words`, then the others, by name. Or a namespace whose name
    has the words would hide the topic that somebody looks for behind all others of it."""
    return lambda topic: (not topic.lower().endswith(f"/{words}"), topic)


def tenant_of(name: str) -> str:
    """The tenant of a full topic name, or of a value's key that ends with one; "" for any other key."""
    return namespace_of(name).partition("/")[0] if "://" in name else ""


def partitioned_name(topic: str) -> str:
    """The partitioned topic that a partition is of; any other topic itself."""
    match = _PARTITION.fullmatch(topic)
    return match[1] if match else topic


class MetaStore(Protocol):
    async def start(self) -> None: ...
    async def stop(self) -> None: ...

    async def acquire(self, scope: str, *, after: int = 0) -> Fence:
        """Takes a range over: its new fence, whose epoch is higher than any before and than `after`. All older ones of this scope
        are worth nothing from here on."""

    async def next_ledger_id(self, fence: Fence, *, after: int = 0) -> int:
        """A ledger id never given out before, across ranges, restarts and crashes, and higher than `after`. Ids rise."""

    async def first_free_ledger_id(self) -> int:
        """All ids from here on were never given out."""

    async def get_topic(self, name: str) -> TopicRecord | None: ...

    async def cas_topic(self, fence: Fence, record: TopicRecord) -> TopicRecord:
        """Stores `record` if the stored version equals `record.version` (0: must not exist). Returns it with the new version.
        Raises `MetaConflict`, also for a new one that cannot be made beside the partitioned topics: see `creation_conflict`."""

    async def delete_topic(self, fence: Fence, name: str, *, values: Sequence[str] = ()) -> None:
        """Forgets a topic, its subscriptions, its schema and the values under these keys, in one commit: nothing of it is left.
        Idempotent."""

    async def list_topics(self, namespace: str, *, after: str = "", limit: int = 1000) -> list[str]:
        """Full names of the topics (partitions listed one by one) of ``tenant/namespace``, sorted, beginning after `after`."""

    async def page_of_topics(self, namespace: str, *, after: str = "", limit: int = 1000, words: str = "") -> list[PageTopic]:
        """The persistent topics of ``tenant/namespace`` and all partitioned ones, sorted by name, beginning after `after`. A
        partitioned topic counts as one; its partitions are not in it. Costs follow `limit`, not how many topics there are. `words`
        (lower case): of those whose local name contains them, which may walk all names of the namespace."""

    async def count_in_pages(self, namespace: str) -> TopicCounts:
        """How many topics `page_of_topics` has, all pages together. Walks an index: some 20 ms for 100,000 topics."""

    async def count_topics(self, tenant: str) -> dict[str, int]:
        """How many topics each namespace of a tenant has that has any, partitions one by one."""

    async def count_subscriptions(self, tenant: str) -> dict[str, int]:
        """The same for durable subscriptions."""

    async def count_partitions(self, tenant: str) -> dict[str, int]:
        """The same for partitions of partitioned topics, those included that are being made or deleted."""

    async def count_schemas(self, tenant: str) -> dict[str, int]:
        """The same for versions of schemas, deletions included."""

    async def topic_records(self, tenant: str, *, after: str = "", limit: int = 200) -> list[TopicRecord]:
        """Those of a tenant's persistent topics, by name, beginning after `after`; at last those in the recycle bin, by place."""

    async def list_all_topics(self, *, after: str = "", limit: int = 1000) -> list[str]:
        """The same over all namespaces: for maintenance, which covers topics whether loaded or not."""

    async def search(self, tenant: str, words: str, limit: int) -> SearchResult:
        """Names of a tenant ("": of all tenants) that contain `words`, in lower case: up to `limit` topics, with partitioned ones
        in place of their partitions, and up to `limit` subscriptions. Of a topic ``tenant/namespace/name`` is searched;
        what is called `words` itself comes first (`by_relevance`)."""

    async def referenced_ledgers(self, *, after: str = "", limit: int = 1000) -> tuple[list[int], str | None]:
        """The ids of the ledgers in the records of up to `limit` topics, by name, beginning after `after`, as they are at one
        moment; and the `after` of the next page, None after the last one. Those in the recycle bin come last, so one that is
        recycled meanwhile is on a page, whereas one that is restored may be on none."""

    async def get_partitioned(self, name: str) -> PartitionedRecord | None: ...
    async def cas_partitioned(self, fence: Fence, record: PartitionedRecord) -> PartitionedRecord:
        """As `cas_topic`: stores `record` if the stored version equals its own (0: neither a partitioned nor a plain topic may have
        the name, nor a plain one that of a partition). Returns it with the new version. Raises `MetaConflict`."""

    async def delete_partitioned(self, fence: Fence, name: str) -> None: ...
    async def unfinished_partitioned(self) -> list[PartitionedRecord]:
        """Those of all namespaces that are growing, being deleted or being restored."""

    async def list_partitioned(self, namespace: str) -> list[PartitionedRecord]: ...

    async def subscriptions(self, topic: str) -> list[SubscriptionRecord]: ...

    async def subscriptions_by_id(self, ids: Iterable[int]) -> list[SubscriptionRecord]:
        """Those of `ids` that there are."""

    async def create_subscription(
        self, fence: Fence, topic: str, name: str, *, created_ms: int, mark_delete: Position, properties: dict[str, str]
    ) -> SubscriptionRecord:
        """Raises `MetaConflict` if it exists."""

    async def set_subscription_properties(self, fence: Fence, topic: str, name: str, properties: dict[str, str]) -> None:
        """Replaces them. An unknown subscription is passed over."""

    async def delete_subscription(self, fence: Fence, topic: str, name: str) -> None: ...

    async def save_cursors(self, fence: Fence, states: list[tuple[int, Position, bytes]]) -> None:
        """Stores (subscription id, mark-delete, state) of many cursors in one commit; unknown ids are passed over."""

    async def existing_subscriptions(self, ids: Iterable[int]) -> set[int]:
        """Those of `ids` that a subscription has; the others' were deleted."""

    async def schema_versions(self, topic: str) -> list[bytes]:
        """The versions of a topic's schema as they were stored, version 0 first. The topic need not exist."""

    async def schema_version(self, topic: str, version: int) -> bytes | None:
        """One of them; None if there is no such version."""

    async def schema_version_sizes(self, topic: str) -> list[int]:
        """The sizes of all versions in bytes, version 0 first, without reading them."""

    async def topics_with_schemas(self, namespace: str) -> list[str]:
        """Full names, sorted."""

    async def add_schema_version(self, fence: Fence, topic: str, version: int, record: bytes) -> None:
        """Stores the next version. Raises `MetaConflict` if `version` is not the number of those stored."""

    async def delete_schema_versions(self, fence: Fence, topic: str) -> None:
        """Idempotent. Deleting a topic or a partitioned topic does the same."""

    async def get_value(self, key: str) -> bytes | None:
        """Small named values of the broker itself (the cursor ledgers in use, for one)."""

    async def put_value(self, fence: Fence, key: str, value: bytes) -> None: ...
    async def delete_value(self, fence: Fence, key: str) -> None:
        """Idempotent."""

    async def recycle(self, fence: Fence, name: str, record: RecycledTopic, *, values: ValueKeys, listed: bool) -> None:
        """Moves what is stored of a topic, or of a partitioned one itself, to its place in the recycle bin: its record,
        subscriptions with their ids, schema and `values`. `listed`: the bin lists `record` from now on, with the number and the
        size of all that lies at its places. One commit. What is gone already is passed over."""

    async def restore(self, fence: Fence, name: str, record: RecycledTopic, *, values: ValueKeys, listed: bool) -> None:
        """The way back. `listed`: the bin lists it no longer; a partitioned topic it lists until `end_restore`, and that is
        `restoring` from now on. One commit. Raises `MetaConflict` if something has the name, or, where `listed`, if the bin does
        not list it any more."""

    async def restores(self) -> int:
        """How many topics came back so far, by any broker: who reads all topics page by page sees with it whether one may have
        passed behind its back."""

    async def end_restore(self, fence: Fence, name: str, record: RecycledTopic) -> PartitionedRecord:
        """All partitions are back: the partitioned topic is `restoring` no longer, and the bin lists it no longer. One commit.
        Raises `MetaConflict` if it is not coming back."""

    async def get_recycled(self, recycle_id: str) -> RecycledTopic | None:
        """Also one that is being purged."""

    async def list_recycled(self, namespace: str, *, after: str = "", limit: int = 1000) -> list[RecycledTopic]:
        """Those deleted in ``tenant/namespace`` that can be restored, by id, beginning after `after`."""

    async def expired_recycled(self, now_ms: int, limit: int) -> list[RecycledTopic]:
        """Those of all namespaces whose time is over, or that are being purged."""

    async def count_recycled(self, tenant: str) -> int:
        """How many of a tenant's topics lie in the bin, partitions one by one."""

    async def count_within(self, places: str) -> tuple[int, int]:
        """How many subscriptions, and versions of schemas, lie in the bin at `RecycledTopic.places`."""

    async def recycled_places(self, *, within: str = PREFIX, after: str = "", limit: int = 1000) -> list[str]:
        """Where topics lie in the bin, sorted: places that begin with `within`, which ends with a slash."""

    async def begin_purge(self, fence: Fence, recycle_id: str) -> None:
        """It cannot be restored any more. Idempotent. Raises `MetaConflict` if the bin does not have it."""

    async def forget_recycled(self, fence: Fence, record: RecycledTopic) -> None:
        """The bin lists it no longer. What lay at its places is deleted before. Idempotent."""
