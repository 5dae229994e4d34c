"""The broker as one object: what its connections, its HTTP side and the admin RPC share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any, Protocol

import structlog

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.control.effective_policies import EffectivePolicies
from messaging.broker.core.cursors.cursor_memory import CursorMemory
from messaging.broker.core.delayed.seal_size import seal_entries
from messaging.broker.core.dispatch.key_shared_mode import KeySharedSettings
from messaging.broker.core.limits.limit_counts import StoredCounts
from messaging.broker.core.limits.outgoing_shares import OutgoingShares
from messaging.broker.core.limits.topic_quota import TopicQuota
from messaging.broker.core.memory.ingress_limiter import IngressLimiter
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.topics.discovery import TopicDiscovery
from messaging.broker.core.turns.frame_progress import WINDOW_S
from messaging.broker.runtime.access import Access
from messaging.broker.runtime.audit import BrokerAudit
from messaging.broker.runtime.compaction.compactions import Compactions
from messaging.broker.runtime.database_watch import DatabaseWatch
from messaging.broker.runtime.dead_letters.moves import LOOP as DEAD_LETTERS_LOOP
from messaging.broker.runtime.dead_letters.moves import RETRY_S, DeadLetterMoves
from messaging.broker.runtime.dead_letters.targets import MoveTargets
from messaging.broker.runtime.feed.policy_changes import PolicyChanges
from messaging.broker.runtime.feed.recycled_namespaces import RecycledNamespaces
from messaging.broker.runtime.idle_topics import IdleTopics
from messaging.broker.runtime.listeners import Addresses
from messaging.broker.runtime.local.unpacking import THREADS as UNPACKING_THREADS
from messaging.broker.runtime.metering.metering import Metering
from messaging.broker.runtime.metering.stored import stored_bytes_of
from messaging.broker.runtime.non_persistent_topics import LOOK_S, NonPersistentTopics
from messaging.broker.runtime.ownership.bundle_moves import BundleMoves
from messaging.broker.runtime.ownership.delegation import DelegationVerifier
from messaging.broker.runtime.ownership.dialling import BrokerDialler
from messaging.broker.runtime.ownership.fleet_member import RENEWS, FleetMember
from messaging.broker.runtime.ownership.news import FleetNews
from messaging.broker.runtime.ownership.other_brokers import OtherBrokers
from messaging.broker.runtime.ownership.owners import NoPartitionsElsewhere, Owners, PartitionsElsewhere, SoleOwner
from messaging.broker.runtime.ownership.partitions_elsewhere import PartitionsOfOthers
from messaging.broker.runtime.ownership.shared_limits import TELL_S, FleetLimits
from messaging.broker.runtime.ownership.silence import Silence
from messaging.broker.runtime.peers import Peer, Peers
from messaging.broker.runtime.permission_checks import PermissionChecks
from messaging.broker.runtime.problems.broker_problems import BrokerProblems
from messaging.broker.runtime.problems.stored import StoredProblems
from messaging.broker.runtime.problems.watch import LOOK_S as PROBLEMS_LOOK_S
from messaging.broker.runtime.problems.watch import ProblemWatch
from messaging.broker.runtime.process import free_young_cycles
from messaging.broker.runtime.rate_limits import BrokerRateLimits
from messaging.broker.runtime.topic_followers import TopicFollowers
from messaging.broker.runtime.topic_schemas import TopicSchemas
from messaging.broker.runtime.topic_watches import TopicWatches
from messaging.broker.runtime.topics.backlog.scheduler import BacklogScheduler
from messaging.broker.runtime.topics.dispatch.entry_cache import EntryCaches
from messaging.broker.runtime.topics.limits.stored_bytes import StoredBytes
from messaging.broker.runtime.topics.limits.tenant_ceilings import TenantCeilings
from messaging.broker.runtime.topics.listing import stored_names
from messaging.broker.runtime.topics.opening import enabled_domains
from messaging.broker.runtime.topics.persistent import PersistentTopic, persistent
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.services import Limits, Loops, Memory, Stores, TopicServices
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.clock import boottime_ms
from messaging.errors import AuthenticationFailed, NotAuthorized, NotFound, NotReady
from messaging.fairness.turns import FairTurns
from messaging.permissions.model import Action, Grants, Principal, Resource
from messaging.protocol.names import TopicName
from messaging.settings import Settings
from messaging.storage.caching_store import CachingStore
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.ledger import Storage

log = structlog.get_logger("broker")

DRAIN_S = 6.0  # that a broker which stops may take to give its bundles away
RATE_SAMPLE_S = MEMORY_SWEEP_S = SIGNING_KEYS_S = 1.0


class ConsumerTable(Protocol):
    """The consumers of one connection."""

    consumers: dict[int, tuple[Topic, Subscription, Consumer]]


class Broker:
    """Its parts are made in the order in which they need one another. What serves topics and is made after them listens to them."""

    def __init__(
        self,
        settings: Settings,
        storage: Storage,
        cursors: CursorLog,
        access: Access,
        boot_epoch: int,
        owners: Owners | None = None,
    ) -> None:
        """`owners`: None where there is one broker."""
        self.settings = settings
        self.owners = owners or SoleOwner()
        self.storage = storage
        self.cursors = cursors
        self.background = storage.background
        self.access = access
        self.boot_epoch = boot_epoch
        self.addresses = Addresses("", "", "", "")
        self.started_ms, self.started_at = self.now_ms(), boottime_ms()
        self.publish_errors, self.acknowledgements = Counter[str](), 0
        self.why_not_ready = "the broker is starting"
        self.databases = DatabaseWatch({})  # of those that it stores in
        self.before_stop: list[Callable[[], Awaitable[None]]] = []  # what stops before clients are sent away
        self.after_stop: list[Callable[[], Awaitable[None]]] = []
        self._names_given = 0
        self.other_brokers: OtherBrokers | None = None
        self.bundle_moves: BundleMoves | None = None  # None: bundles stay where they are
        self.outgoing = OutgoingShares(settings.connections_max)
        self.dialler = BrokerDialler(settings)
        self.delegations: DelegationVerifier | None = None  # of clients of other brokers
        self.fleet_limits: FleetLimits | None = None
        if isinstance(self.owners, FleetMember):
            others = partial(OtherBrokers, settings, Silence(), self.owners.name_of)
            self.other_brokers, self._told_brokers = others(), others()
            self.delegations = DelegationVerifier(settings)
            self.before_stop += [self.other_brokers.stop, self._told_brokers.stop]
        self._log_health = self.background.register("ledger_log")

        self.policies = EffectivePolicies(access.view)
        self.memory_limiter = MemoryLimiter(settings.memory_budget_bytes)
        self.ingress_limiter = IngressLimiter(self.memory_limiter.ingress)
        self.cursor_memory = CursorMemory(self.memory_limiter.cursors)
        self.unpacking = FairTurns(UNPACKING_THREADS)  # of consumers inside this process
        self.peers = Peers(settings, self.background.register("turns", recurs=False), access.view.policy_of_tenant)
        self.permission_checks = PermissionChecks(access.view, self.background)
        self.audit = BrokerAudit(settings.broker_id, access.view, self.now_ms, self.memory_limiter.records)
        self.metering = Metering(self.now_ms, self.background, partial(TurnSlices, self.peers.turn_loop))
        self.ceilings = TenantCeilings(self.policies, storage.meta)
        self.schemas = TopicSchemas(
            storage,
            self.policies.value,
            self.now_ms,
            settings.topics_per_namespace_max,
            self.ceilings.schemas,
            self.memory_limiter,
        )
        self._make_topics()
        if isinstance(storage.ledgers, CachingStore):
            self.memory_limiter.caches.append(storage.ledgers.cache_in(self.memory_limiter.tail))
        self._serve_topics()
        access.feed.on_change += [
            self._follow_issuers,
            partial(self.peers.follow, access.view),
            self.permission_checks.changed,
            self.policy_changes.follow,
            self.recycled_namespaces.follow,
        ]

    def _make_topics(self) -> None:
        dispatching = self.background.register("dispatch", recurs=False)
        self.backlog_scheduler = BacklogScheduler(self.memory_limiter.catch_up, dispatching)
        self.idle_topics = IdleTopics(self.storage, self.cursors)
        services = TopicServices(
            stores=Stores(self.storage, self.cursors),
            policies=self.policies,
            limits=self._limits(),
            memory=Memory(
                entry_caches=EntryCaches(self.memory_limiter),
                cursor_memory=self.cursor_memory,
                records=self.memory_limiter.records,
                delayed_seal_entries=seal_entries(self.memory_limiter.records.limit_bytes),
            ),
            loops=Loops(
                background=self.background,
                dispatching=dispatching,
                backlog_scheduler=self.backlog_scheduler,
                slices=partial(TurnSlices, self.peers.turn_loop),
            ),
            clock_ms=self.storage.clock_ms,
            tenant_uid=self.access.view.tenant_uid,
            admit=self.permission_checks.admit,
            owners=self.owners,
            partitions_elsewhere=self._partitions_elsewhere(),
            active=self.metering.active,
        )
        self.topics = Topics(services, self.idle_topics.idle_since_ms)

    def _partitions_elsewhere(self) -> PartitionsElsewhere:
        if not isinstance(self.owners, FleetMember) or self.other_brokers is None:
            return NoPartitionsElsewhere()
        return PartitionsOfOthers(self.owners, self.other_brokers)

    def _limits(self) -> Limits:
        settings = self.settings
        return Limits(
            key_shared=KeySharedSettings(
                settings.subscription_key_shared_use_consistent_hashing,
                settings.subscription_key_shared_consistent_hashing_replica_points,
            ),
            subscriptions_max=settings.subscriptions_per_topic_max,
            partitions_max=settings.partitions_per_topic_max,
            recycled_topics_max=settings.recycle_bin_topics_per_tenant_max,
            acknowledges_parts=settings.acknowledgment_at_batch_index_level,
            enabled_domains=enabled_domains(settings),
            delayed_delivery_strict=settings.delayed_delivery_strict,
            quota=TopicQuota.of(settings),
            ceilings=self.ceilings,
            stored_bytes=StoredBytes(self.policies, self.stored_bytes_of, self.background),
            rate_limits=BrokerRateLimits(settings, self.policies.value, self.background.register("rate_limits", recurs=False)),
        )

    async def stored_bytes_of(self, tenant: str) -> int:
        apart = self.fleet_limits is not None and not self.settings.shared_storage  # else open ledgers are seen from everywhere
        elsewhere = 0 if not apart or self.fleet_limits is None else await self.fleet_limits.open_bytes_elsewhere(tenant)
        return elsewhere + await stored_bytes_of(self.storage, self.topics.loaded, tenant)

    def _serve_topics(self) -> None:
        topics, settings = self.topics, self.settings
        self.policy_changes = PolicyChanges(topics, self.access.view)
        self.recycled_namespaces = RecycledNamespaces(topics, self.access.view, self.background)
        self.non_persistent_topics = NonPersistentTopics(boottime_ms, self.policies.value, topics.unload)
        self.topic_watches = TopicWatches(self.topic_names, self.permission_checks.refusal_of, self.background)
        self.topic_followers = TopicFollowers()
        self.discovery: TopicDiscovery[ConsumerTable] = TopicDiscovery()
        self.compactions = Compactions(
            topics, self.storage, self.policies, self.memory_limiter.catch_up, self.now_ms, settings.message_bytes_max
        )
        self.move_targets = MoveTargets(
            self.owners,
            self.other_brokers,
            self.open_persistent_topic,
            partial(topics.get_persistent, create=False),
            self.now_ms,
        )
        self.dead_letters = DeadLetterMoves(
            self.move_targets,
            partial(self.partition_count, auto_create=True),
            self.authorize,
            self.memory_limiter.egress,
            self.now_ms,
            self.background,
            settings.message_bytes_max,
        )
        self.problems = ProblemWatch(topics, self.now_ms, self.background.register("look_for_problems"), self.access.view.owner_of)
        self.stored_problems = StoredProblems(self.problems, topics, self.storage, self.cursors, self.owners.owned_namespaces)
        self.broker_problems = BrokerProblems(settings.broker_id, self.owners, self.ready, self.now_ms)
        self.schemas.on_judged.append(self.problems.refusals.judged)
        self.access.feed.on_change.append(self.problems.refusals.follow)
        topics.on_loaded += [self.problems.loaded, self.stored_problems.loaded]
        topics.on_unloaded.append(self.problems.unloaded)
        topics.on_deleted += [self.problems.deleted, self.stored_problems.deleted]
        topics.on_loaded += [self.idle_topics.loaded, self.non_persistent_topics.add, self.dead_letters.recover]
        self.metering.history.topics = topics
        topics.on_loaded.append(lambda topic: topic.mark_active())  # a point says what it holds
        topics.on_unloaded += [self.metering.unloaded, self.idle_topics.unloaded]
        topics.on_deleted.append(self.idle_topics.deleted)
        topics.recycle_bin.on_restored.append(self.idle_topics.restored)
        topics.on_list_changed += [self.topic_watches.list_changed, self.topic_followers.list_changed]
        topics.services.events.on_dead_letters_due.append(self.dead_letters.due)
        if isinstance(self.owners, FleetMember) and self.other_brokers is not None:
            news = FleetNews(self.owners, self._told_brokers, self.background)
            topics.on_list_changed.append(news.topic_changed)
            topics.partitioned.on_grown.append(news.topic_grown)
            for counts in self.stored_counts:
                counts.on_made.append(news.made)
            self.fleet_limits = FleetLimits(
                settings.broker_id,
                self.owners,
                self._told_brokers,
                self.other_brokers,
                self.background,
                self.peers,
                topics.services.limits,
                monotonic,
            )

    @property
    def stored_counts(self) -> tuple[StoredCounts, ...]:
        """Of what is stored for tenants, each of which has a limit."""
        limits = self.topics.services.limits
        return limits.quota.counts, limits.subscription_counts, limits.ceilings.partitions.counts, limits.ceilings.schemas.counts

    def now_ms(self) -> int:
        return self.storage.clock_ms()

    # --- names

    def new_producer_name(self) -> str:
        """Unique over restarts and brokers: the boot's number is part of it."""
        self._names_given += 1
        broker = self.settings.among_brokers
        boot = f"{broker}.{self.boot_epoch}" if broker else f"{self.boot_epoch}"
        return f"{self.settings.cluster_name}-{boot}-{self._names_given}"

    # --- who may what

    @property
    def grants(self) -> Grants:
        return self.access.view

    async def authenticate(self, token: str | None, local: bool, address: str = "") -> Principal:
        return await self.access.authenticate(token, local, address)

    def authenticate_certificate(self, certificate: Mapping[str, Any] | None) -> Principal:
        return self.access.authenticate_certificate(certificate)

    async def authorize(self, principal: Principal, action: Action, resource: Resource) -> None:
        try:
            await self.access.authorize(principal, action, resource)
        except NotAuthorized:
            self.audit.denied(principal, action, resource)
            raise

    def sign_in_failed(self, error: AuthenticationFailed, address: str) -> None:
        self.audit.sign_in_failed(error, address)

    async def require_namespace(self, namespace: str) -> None:
        await self.access.require_namespace(namespace)

    # --- topics

    async def open_topic(self, name: TopicName, *, create: bool = True, writable: bool = False) -> Topic:
        """The topic for a client that was authorised on it; made on first use where the namespace allows that (`Topics.get`)."""
        await self.require_namespace(str(name.namespace))
        topic = await self.topics.get(name, create=create and self.policies.auto_creates_topics(name), writable=writable)
        if str(name.namespace) not in self.access.view.namespaces:
            if str(name.namespace) in self.access.view.recycled:
                await self.topics.unload(name)
            elif not topic.ledger_list.entries:  # it may be of this moment: a later namespace of the name must not find it
                await self.topics.delete(name, force=True)
            raise NotFound(f"namespace {name.namespace} was deleted")
        return topic

    async def open_persistent_topic(self, name: TopicName, *, create: bool = True) -> PersistentTopic:
        """The same; raises `NotAllowed` for a non-persistent one."""
        return persistent(await self.open_topic(name, create=create))

    async def partition_count(self, name: TopicName, *, auto_create: bool) -> int:
        """0 for a plain topic, or for one that first use would make; where that makes partitioned ones, it is made. Raises
        `NotFound`."""
        await self.require_namespace(str(name.namespace))
        creates = auto_create and self.policies.auto_creates_topics(name)
        return await self.topics.partitioned.count(name, creates=creates, partitions=self.policies.auto_topic_partitions(name))

    async def topic_names(self, namespace: str) -> list[str]:
        """Of persistent topics."""
        return await stored_names(self.storage.meta, namespace)

    def store_failed(self, error: StoreError) -> None:
        """The log takes nothing any more: said loudly, and to whoever asks whether we are ready."""
        log.critical("store.failed", error=str(error))
        self._log_health.failed(error)
        self.why_not_ready = f"the log cannot be written: {error}"

    def count_publish_error(self, code: str) -> None:
        self.publish_errors[code] += 1

    # --- work of our own

    def start_background_loops(self) -> None:
        """Every loop of the broker that runs forever; `messaging/background.py` keeps them going."""
        background = self.background
        background.watch(asyncio.get_running_loop())
        background.every(RATE_SAMPLE_S, "sample_rates", self.metering.sample_rates)
        background.every(RETRY_S, DEAD_LETTERS_LOOP, self.dead_letters.retry)
        background.every(MEMORY_SWEEP_S, "sweep_memory", self.sweep_memory)
        background.every(LOOK_S, "end_non_persistent_topics", self.non_persistent_topics.look)
        background.every(PROBLEMS_LOOK_S, "look_for_problems", self.problems.look)
        background.every(PROBLEMS_LOOK_S, "look_for_brokers", self.broker_problems.look)
        keep_alive = self._each_peer("keep_alive", lambda peer: peer.liveness.keep_alive())
        background.every(self.settings.keep_alive_ms / 1000, "keep_alive", keep_alive)
        background.every(SIGNING_KEYS_S, "check_signing_keys", self._look_at_keys)
        background.every(WINDOW_S, "arrivals", self._each_peer("arrivals", lambda peer: peer.liveness.check_progress()))
        background.every(self.access.pull_wait_s, "pull_feed", self.access.pull_on_schedule, first_s=0.0)
        background.every(self.metering.wait_s, "collect_usage", self.metering.collect)
        background.every(self.metering.history.wait_s, "sample_history", self.metering.history.sample)
        if self.fleet_limits is not None:
            background.every(TELL_S, "tell_use", self.fleet_limits.tell)

    def _each_peer(self, loop: str, act: Callable[[Peer], None]) -> Callable[[], None]:
        return lambda: self.background.register(loop).each(self.peers.connections, act)

    def _follow_issuers(self, changed: set[tuple[str, str]]) -> None:
        if self.access.issuers.follow(changed):
            self.peers.end_untrusted(self.access.issuers.still_trusts)

    def _look_at_keys(self) -> None:
        self.peers.end_expired_keys(self.now_ms())
        self.access.feed.end_grants(self.now_ms())
        self.peers.check_signing_keys(self.access.verifier, self.now_ms())
        self.access.key_uses.look(self.now_ms(), self.peers.keys_in_use)

    def sweep_memory(self) -> None:
        """Readers whose consumers take nothing keep less and less; peers that were sent nothing since are counted again."""
        loop = self.background.register("sweep_memory")
        loop.each(self.backlog_scheduler.readers, lambda backlog: backlog.sweep())
        self.cursor_memory.measure()
        passed_ms = round(asyncio.get_running_loop().time() * 1000)
        self.topics.services.loops.delay_timers.check_clock(self.storage.safe_expiry_ms(), passed_ms)
        loop.each(self.peers.unread, lambda outgoing: outgoing.count())
        free_young_cycles()

    # --- asking

    def ready(self) -> tuple[bool, str]:
        why = self.why_not_ready or self.databases.failing or self._why_no_acknowledgements() or self.access.feed.why_not_ready()
        return not why, why

    def _why_no_acknowledgements(self) -> str:
        return f"acknowledgements cannot be stored: {error}" if (error := self.cursors.refusing) else ""

    async def stop(self) -> None:
        """Closes clients and topics; everything acknowledged is on disk already."""
        self.why_not_ready = "the broker is stopping"
        self.background.cancel(but=(RENEWS,))  # until all is closed: others take the bundles of one that is late to renew
        for stop in self.before_stop:
            await stop()
        if self.bundle_moves is not None:
            try:
                await self.bundle_moves.drain(ends_s=monotonic() + DRAIN_S)
            except NotReady as error:  # they take over what it had once its session is closed
                log.warning("broker.not_drained", error=error.message)
        await self.metering.history.ending()
        self.peers.end_all()
        await self.topics.close_all(NotReady("the broker is stopping"))
        self.metering.history.ended()
        await self.metering.flush()
        for act in self.after_stop:
            await act()
