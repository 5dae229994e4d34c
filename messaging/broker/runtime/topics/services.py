"""Services that all topics of a broker share, in groups: stores, policies, limits, memory, loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from messaging.background import BackgroundLoop, BackgroundLoops
from messaging.broker.core.clients.open_sessions import OpenSession
from messaging.broker.core.control.effective_policies import EffectivePolicies
from messaging.broker.core.cursors.cursor_memory import CursorMemory
from messaging.broker.core.delayed.newest import SEAL_ENTRIES
from messaging.broker.core.dispatch.key_shared_mode import KeySharedSettings
from messaging.broker.core.limits.limit_counts import ConnectedCounts, StoredCounts
from messaging.broker.core.limits.topic_quota import TopicQuota
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.ownership.owners import Owners, PartitionsElsewhere
from messaging.broker.runtime.rate_limits import BrokerRateLimits
from messaging.broker.runtime.topics.backlog.scheduler import BacklogScheduler
from messaging.broker.runtime.topics.delayed.counts import DelayedCounts
from messaging.broker.runtime.topics.delayed.timers import DelayTimers
from messaging.broker.runtime.topics.dispatch.delivery_records import DeliveryRecords
from messaging.broker.runtime.topics.dispatch.entry_cache import EntryCaches
from messaging.broker.runtime.topics.limits.stored_bytes import StoredBytes
from messaging.broker.runtime.topics.limits.tenant_ceilings import TenantCeilings
from messaging.broker.runtime.topics.loaded_topic import LoadedTopic
from messaging.broker.runtime.turn_loop import TurnLoop
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.errors import MagnetarError, NotReady, StorageFailed
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Fenced, LedgerClosed, StoreError
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.ledger import Storage

OWN_TENANT = "magnetar"  # of the broker's own topics, to which neither settings nor rate limits apply


def health_topic(among: str) -> TopicName:
    """To which a broker publishes to see that it can; `among`: what tells it from others, as `Settings.among_brokers`."""
    return TopicName("persistent", OWN_TENANT, "system", f"health-{among}" if among else "health")


class DispatchTurn(Protocol):
    """Work of a topic that waits for its turn: a subscription to dispatch, delayed messages that are due, policies that changed."""

    def run(self) -> str | None:
        """Does one slice. Returns the tenant to queue under for the rest, or None."""


@dataclass(slots=True)
class Stores:
    """Where topics are stored."""

    storage: Storage
    cursors: CursorLog


@dataclass(slots=True)
class Limits:
    """What settings say of every topic, and what topics share and count together."""

    key_shared: KeySharedSettings
    subscriptions_max: int  # of one topic
    partitions_max: int  # the same
    recycled_topics_max: int  # in the recycle bin of a tenant, partitions one by one
    acknowledges_parts: bool  # the setting `acknowledgment_at_batch_index_level`
    enabled_domains: Mapping[str, bool]  # the settings `enable_persistent_topics` and `enable_non_persistent_topics`
    delayed_delivery_strict: bool  # no message is delivered before its delivery time
    quota: TopicQuota
    rate_limits: BrokerRateLimits
    ceilings: TenantCeilings
    stored_bytes: StoredBytes
    producers: ConnectedCounts = field(default_factory=ConnectedCounts)
    consumers: ConnectedCounts = field(default_factory=ConnectedCounts)
    subscription_counts: StoredCounts = field(default_factory=StoredCounts)


@dataclass(slots=True)
class Memory:
    """The memory that topics share."""

    entry_caches: EntryCaches
    cursor_memory: CursorMemory
    records: MemoryAccount  # deduplication state of all producers
    delayed_seal_entries: int = SEAL_ENTRIES
    delayed_counts: DelayedCounts = field(default_factory=DelayedCounts)
    delivery_records: DeliveryRecords = field(init=False)

    def __post_init__(self) -> None:
        self.delivery_records = DeliveryRecords(self.records)


@dataclass(slots=True)
class Loops:
    """What runs later, or in turns with the rest of the broker."""

    background: BackgroundLoops
    dispatching: BackgroundLoop  # called when sending to one subscription or client raises
    backlog_scheduler: BacklogScheduler
    slices: Callable[[str], TurnSlices]  # for long work on behalf of a tenant
    delay_timers: DelayTimers = field(default_factory=DelayTimers)
    snapshot_timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)  # of deduplication, by topic
    dispatch_turns: TurnLoop[DispatchTurn] = field(init=False)

    def __post_init__(self) -> None:
        self.dispatch_turns = TurnLoop(_run, health=self.dispatching)


def _run(turn: DispatchTurn) -> str | None:
    return turn.run()


class TopicEvents:
    """What happens to topics, and who is told of it: what is made after the topics, and serves them, adds itself."""

    def __init__(self) -> None:
        self.on_failed: list[Callable[[LoadedTopic, MagnetarError], None]] = []
        self.on_dead_letters_due: list[Callable[[Any, Subscription], None]] = []

    def failed(self, topic: LoadedTopic, why: MagnetarError) -> None:
        """It cannot continue as it is: it must be recovered, or unloaded."""
        for tell in self.on_failed:
            tell(topic, why)

    def dead_letters_due(self, topic: LoadedTopic, subscription: Subscription) -> None:
        """Entries of this subscription may have to be moved."""
        for tell in self.on_dead_letters_due:
            tell(topic, subscription)


@dataclass(slots=True)
class TopicServices:
    stores: Stores
    policies: EffectivePolicies
    limits: Limits
    memory: Memory
    loops: Loops
    clock_ms: Callable[[], int]
    tenant_uid: Callable[[str], str]
    admit: Callable[[OpenSession], None]  # raises if the permission was withdrawn meanwhile: `PermissionChecks.admit`
    owners: Owners  # which topics this broker serves
    partitions_elsewhere: PartitionsElsewhere  # those that others serve
    active: Callable[[LoadedTopic], None]  # called when a topic without `rates` becomes active: gives it some and samples them
    events: TopicEvents = field(default_factory=TopicEvents)


def refusal_of(error: StoreError, what: str) -> MagnetarError:
    """The error for the caller when the store raised `error`: `NotReady` if a retry may help, also where another broker owns what
    this one did: clients look it up again then."""
    refused = NotReady if error.retryable or isinstance(error, LedgerClosed | Fenced) else StorageFailed
    return refused(f"{what}: {error}")
