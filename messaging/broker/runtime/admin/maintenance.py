"""Admin RPC: what policies remove on a schedule: messages past their TTL, ledgers past their retention, subscriptions and topics
that nobody uses; and idle topics from memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import structlog

from messaging.adminrpc.base import Empty
from messaging.adminrpc.maintenance import MaintenancePage, MaintenanceResult, MaintenanceRun, MaintenanceTopics
from messaging.adminrpc.methods import MAINTENANCE_RUN, MAINTENANCE_TOPICS, TOPICS_TRIM
from messaging.adminrpc.topics import TopicRef
from messaging.broker.core.maintenance.inactivity import NEVER, InactivityPolicies, inactive_after_ms, inactivity_policies
from messaging.broker.core.maintenance.round import MaintenanceRound, PageRequest
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import parts_of, stored_topic_name
from messaging.broker.runtime.admin.positions import expire
from messaging.broker.runtime.admin.reclaim import consumed_ledgers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.idle_topics import TopicMaintenance
from messaging.broker.runtime.topics.backlog.quota import quota_of
from messaging.broker.runtime.topics.persistent import PersistentTopic, persistent
from messaging.broker.runtime.topics.services import refusal_of
from messaging.errors import MagnetarError, NotReady, PreconditionFailed
from messaging.protocol.names import TopicName, parse_topic
from messaging.protocol.system_topics import is_system_topic
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.maintenance_due import MaintenancePolicies

log = structlog.get_logger("broker.maintenance")

RUN_S = 10.0  # of one call, which its caller gives up after 30 s
SLOW_S = 3.0  # of one topic
SLOW_OF_TENANT_MAX = 4  # topics of a tenant that take long at the same time; its others are passed over until some are done


class MaintenanceHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._round = MaintenanceRound()
        self._working: set[str] = set()  # topics
        self._slow: Counter[str] = Counter()  # by tenant: those of them that take longer than the call that began them
        self._late: list[MaintenanceResult] = []  # of those that were done after their call had ended

    @answers(MAINTENANCE_TOPICS)
    async def list_topics(self, request: MaintenanceTopics) -> MaintenancePage:
        limit = max(1, min(request.limit, 5_000))
        first: list[str] = []
        if request.after:
            page = PageRequest.of(request.after)
        else:
            first, page = self._round.begin()
        names = await self._broker.storage.meta.list_all_topics(after=page.after, limit=limit)
        within, following = self._round.page(page, names, limit)
        return MaintenancePage(topics=[*first, *within], next_after="" if following is None else following.token())

    @answers(MAINTENANCE_RUN)
    async def run(self, request: MaintenanceRun) -> MaintenanceResult:
        result = _nothing_done()
        for late in self._late:
            _add(result, late)
        self._late.clear()
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + RUN_S
        for text in request.topics:
            if loop.time() >= ends_s or not await self._maintained_in_time(text, result):
                self._round.pass_over(text)
                result.passed_over += 1
        if result.expired_entries or result.trimmed_ledgers or result.unloaded_topics:
            log.info(
                "maintenance.done",
                task_id=request.task_id,
                expired_entries=result.expired_entries,
                trimmed_ledgers=result.trimmed_ledgers,
                unloaded_topics=result.unloaded_topics,
            )
        return result

    async def _maintained_in_time(self, text: str, result: MaintenanceResult) -> bool:
        """Whether the topic is done, as far as it can be. What takes longer goes on by itself, and is not begun again meanwhile."""
        tenant = text.partition("://")[2].partition("/")[0]
        if text in self._working or self._slow[tenant] >= SLOW_OF_TENANT_MAX:
            return False
        part = _nothing_done()
        self._working.add(text)
        work = self._broker.background.spawn(self._maintain_one(text, part), "maintain_topic")
        work.add_done_callback(lambda _: self._working.discard(text))
        try:
            await asyncio.wait({work}, timeout=SLOW_S)
        finally:  # also where the caller leaves
            if not work.done():
                self._slow[tenant] += 1
                work.add_done_callback(lambda _: self._done_late(tenant, part))
        if work.done():
            _add(result, part)
            return True
        log.warning("maintenance.slow", topic=text, seconds=SLOW_S)
        return False

    def _done_late(self, tenant: str, part: MaintenanceResult) -> None:
        self._late.append(part)
        self._slow[tenant] -= 1
        self._slow += Counter()  # without those that have none

    async def _maintain_one(self, text: str, result: MaintenanceResult) -> None:
        try:
            await self.maintain(parse_topic(text), result)
        except (MagnetarError, StoreError) as error:
            result.failed[text] = str(error)

    @answers(TOPICS_TRIM)
    async def trim(self, request: TopicRef) -> Empty:
        """Deletes what the policies do not retain of a topic, or of each partition: what `run` does for every topic."""
        name = await stored_topic_name(self._broker, request.topic, "trimming")
        parts = await parts_of(self._broker, name)
        for part in parts.names:
            topic = await self._broker.topics.get_persistent(part, create=parts.partitioned)
            try:
                await self._trim(topic, self._policies(part))
            except StoreError as error:
                raise refusal_of(error, f"topic {part} cannot be trimmed") from error
        return Empty()

    async def maintain(self, name: TopicName, result: MaintenanceResult) -> None:
        """What policies ask for of one topic. One that is not loaded is loaded only when there may be something to do. Nothing of
        one whose namespace is in the recycle bin: it comes back as it is."""
        if str(name.namespace) in self._broker.access.view.recycled:
            await self._broker.topics.unload(name)
            return
        if not name.persistent:
            await self._delete_unused_partition(name, result)
            return
        policies = self._policies(name)
        loaded = self._broker.topics.loaded.get(str(name))
        if loaded is None and await self._broker.idle_topics.rests(str(name), policies, self._broker.storage.safe_expiry_ms()):
            return
        topic = await self._broker.topics.get_persistent(name, create=False) if loaded is None else persistent(loaded)
        await self._expire(topic, policies, result)
        if await self._delete_unused(topic, policies.inactivity, result):
            return
        ledgers, freed = await self._trim(topic, policies)
        result.trimmed_ledgers += ledgers
        result.freed_bytes += freed
        if self._is_idle(topic, was_loaded=loaded is not None):
            await self._broker.topics.unload(name)
            result.unloaded_topics += loaded is not None

    async def _expire(self, topic: PersistentTopic, policies: TopicMaintenance, result: MaintenanceResult) -> None:
        ttl_s = policies.maintenance.message_ttl_s
        if ttl_s:
            cutoff_ms = self._broker.storage.safe_expiry_ms() - ttl_s * 1000
            durable = [subscription for subscription in topic.subscriptions.table.values() if subscription.durable]
            result.expired_entries += await expire(topic, durable, cutoff_ms)
        silent_ms = self._broker.settings.incomplete_chunks_expire_s * 1000
        for subscription in list(topic.subscriptions.table.values()):
            if subscription.durable and subscription.state.chunks:
                result.expired_entries += await topic.acknowledgements.expire_chunks(subscription, silent_ms)
        if topic.publisher.quota is not None:
            await topic.publisher.quota.enforce(self._broker.now_ms())

    async def _delete_unused(self, topic: PersistentTopic, policies: InactivityPolicies, result: MaintenanceResult) -> bool:
        """Deletes the subscriptions, and then the topic, that were not used for as long as the policies say."""
        if not policies.in_force or is_system_topic(topic.name):
            return False
        now_ms = self._broker.storage.safe_expiry_ms()
        restored_ms = self._broker.access.view.restored_ms(str(topic.name.namespace))
        for subscription in list(topic.subscriptions.table.values()):
            idle_ms = now_ms - max(topic.idle.subscription_ms(subscription.name), restored_ms)
            if subscription.durable and not subscription.consumers and idle_ms >= policies.subscription_ms:
                try:
                    await topic.subscriptions.delete(subscription.key, force=False)
                except PreconditionFailed:  # a consumer was faster
                    continue
                result.expired_subscriptions += 1
                log.info("subscription.expired", topic=topic.text, subscription=subscription.name, idle_ms=idle_ms)
        backlog = any(subscription.backlog_entries for subscription in topic.subscriptions.table.values() if subscription.durable)
        if policies.keeps(len(topic.subscriptions.table), backlog):
            topic.idle.topic_ms = topic.ledger.stamp()
            return False
        idle_ms = now_ms - max(topic.idle.topic_ms, restored_ms)
        if idle_ms < policies.topic_ms or not await self._broker.topics.delete_unused(topic):
            return False
        result.deleted_topics += 1
        log.info("topic.inactive_deleted", topic=topic.text, idle_ms=idle_ms)
        if topic.name.partition >= 0 and self._broker.settings.delete_inactive_partitioned_topics:
            await self._broker.topics.partitioned.delete_if_empty(topic.name.base)
        return True

    async def _delete_unused_partition(self, name: TopicName, result: MaintenanceResult) -> None:
        """Of a non-persistent topic. Only its name is stored; `NonPersistentTopics` unloads it before."""
        topics, storage = self._broker.topics, self._broker.storage
        after_ms = inactive_after_ms(partial(self._broker.policies.value, name=name))
        record = await storage.meta.get_topic(str(name))
        if after_ms == NEVER or str(name) in topics.loaded or record is None:
            return
        restored_ms = self._broker.access.view.restored_ms(str(name.namespace))
        if storage.safe_expiry_ms() - max(topics.idle_since_ms(str(name)), record.created_ms, restored_ms) < after_ms:
            return
        try:
            await topics.delete(name, force=False)
        except PreconditionFailed:  # a client was faster
            return
        result.deleted_topics += 1
        if self._broker.settings.delete_inactive_partitioned_topics:
            await topics.partitioned.delete_if_empty(name.base)

    def _is_idle(self, topic: PersistentTopic, *, was_loaded: bool) -> bool:
        """Whether the topic is to be unloaded: nobody uses it, and nobody did for a while unless it was loaded for this run."""
        if topic.closed is not None or topic.in_use:
            return False
        limit_s = self._broker.settings.idle_topic_unload_s
        return not was_loaded or 0 < limit_s * 1000 <= self._broker.storage.safe_expiry_ms() - topic.idle.topic_ms

    def _policies(self, name: TopicName) -> TopicMaintenance:
        """Raises `NotReady` before the control plane has told any: those by default would delete what a namespace retains."""
        if not self._broker.access.view.version:
            raise NotReady("the control plane has told this broker no policies yet: nothing is deleted before")
        policies = self._broker.policies
        value = partial(policies.value, name=name)
        maintenance = MaintenancePolicies(
            policies.message_ttl_s(name), int(value("retention_time_min")), int(value("retention_size_mb"))
        )
        return TopicMaintenance(maintenance, inactivity_policies(value), quota_of(policies.value, name))

    async def _trim(self, topic: PersistentTopic, policies: TopicMaintenance) -> tuple[int, int]:
        retention = policies.maintenance.retention(self._broker.storage.safe_expiry_ms())
        durable = (
            subscription.cursor.mark_delete for subscription in topic.subscriptions.table.values() if subscription.durable
        )  # readers keep nothing
        before = min(durable, default=topic.ledger_list.last)
        dedup = topic.deduplication.state
        if dedup is not None:  # what follows the snapshot is needed to know duplicates after a restart
            if dedup.snapshot_position < before and topic.ledger.trims(before, retention):
                await topic.deduplication.save()
            before = min(before, dedup.snapshot_position)
        before = self._broker.compactions.kept_from(topic, before)
        consumed = consumed_ledgers(self._broker, topic)
        if topic.ledger.trims(before, retention, consumed):
            await topic.stored_moves.keep_outcomes()
        return await topic.ledger.trim(before, retention, consumed, topic.cursor_changes.forget_ledgers)


def _nothing_done() -> MaintenanceResult:
    return MaintenanceResult(expired_entries=0, trimmed_ledgers=0, freed_bytes=0, failed={})


def _add(result: MaintenanceResult, part: MaintenanceResult) -> None:
    result.expired_entries += part.expired_entries
    result.trimmed_ledgers += part.trimmed_ledgers
    result.freed_bytes += part.freed_bytes
    result.expired_subscriptions += part.expired_subscriptions
    result.deleted_topics += part.deleted_topics
    result.unloaded_topics += part.unloaded_topics
    result.failed |= part.failed
