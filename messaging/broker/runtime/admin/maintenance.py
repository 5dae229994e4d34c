"""Admin RPC: what removes messages: upkeep by policy (expiry, retention), and truncating on somebody's word."""

from __future__ import annotations

import asyncio

import structlog

from messaging.adminrpc import schema
from messaging.broker.runtime.admin.subscriptions import SubscriptionRpc
from messaging.broker.runtime.topics import dedup_state
from messaging.broker.runtime.topics.services import refusal_of
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.maintenance_due import MaintenancePolicies
from messaging.storage.managed.retention import NOTHING

log = structlog.get_logger("broker.upkeep")

TRUNCATED_TOGETHER = 100  # partitions of one topic


class MaintenanceRpc(SubscriptionRpc):
    async def upkeep_topics(self, request: schema.MaintenanceTopics) -> schema.MaintenancePage:
        limit = max(1, min(request.limit, 5_000))
        names = await self.storage.meta.list_all_topics(after=request.after, limit=limit)
        return schema.MaintenancePage(topics=names, next_after=names[-1] if len(names) == limit else "")

    async def upkeep_run(self, request: schema.MaintenanceRun) -> schema.MaintenanceResult:
        result = schema.MaintenanceResult(expired_entries=0, trimmed_ledgers=0, freed_bytes=0, failed={})
        for text in request.topics:
            try:
                await self._keep_up(parse_topic(text), result)
            except (MagnetarError, StoreError) as error:
                result.failed[text] = str(error)
        if result.expired_entries or result.trimmed_ledgers:
            log.info(
                "upkeep.done",
                task_id=request.task_id,
                expired_entries=result.expired_entries,
                trimmed_ledgers=result.trimmed_ledgers,
            )
        return result

    async def _keep_up(self, name: TopicName, result: schema.MaintenanceResult) -> None:
        """Expiry and retention of one topic. One that is not loaded is loaded only when there may be something to do."""
        policies = self._policies(name)
        ttl_s = policies.message_ttl_s
        loaded = self.topics.loaded.get(str(name))
        if loaded is None and await self.idle_topics.rests(str(name), policies, self.storage.safe_expiry_ms()):
            return
        topic = loaded or await self.topics.get(name, create=False)
        if ttl_s:
            cutoff_ms = self.storage.safe_expiry_ms() - ttl_s * 1000
            for subscription in list(topic.subscriptions.values()):
                if subscription.durable:
                    result.expired_entries += await self.expire(topic, subscription, cutoff_ms)
        ledgers, freed = await self._trim(topic)
        result.trimmed_ledgers += ledgers
        result.freed_bytes += freed
        if loaded is None and not len(topic.producers) and not any(one.consumers for one in topic.subscriptions.values()):
            await self.topics.unload(name)

    def _policies(self, name: TopicName) -> MaintenancePolicies:
        view, namespace = self.access.view, str(name.namespace)
        keep_min = int(view.policy("retention_time_min", namespace).value)
        keep_mb = int(view.policy("retention_size_mb", namespace).value)
        return MaintenancePolicies(self.message_ttl_s(name), keep_min, keep_mb)

    async def _trim(self, topic: Topic) -> tuple[int, int]:
        retention = self._policies(topic.name).retention(self.storage.safe_expiry_ms())
        before = min((one.cursor.mark_delete for one in topic.subscriptions.values()), default=topic.ledger_list.last)
        dedup = topic.publisher.dedup
        if dedup is not None:  # what follows the snapshot is needed to know duplicates after a restart
            if dedup.snapshot_position < before and topic.ledger.trims(before, retention):
                await dedup_state.save(topic)
            before = min(before, dedup.snapshot_position)
        return await topic.ledger.trim(before, retention)

    async def topics_truncate(self, request: schema.TopicRef) -> schema.Empty:
        """Of a partitioned topic: every partition. Clients stay connected. Calling again finishes what was cut off."""
        name = await self.admin_name(request.topic)
        held = await self.topics.partitioned.get(name)
        topics = [name.of_partition(index) for index in range(held.partitions)] if held else [name]
        for start in range(0, len(topics), TRUNCATED_TOGETHER):
            await asyncio.gather(
                *(self._truncate(one, create=held is not None) for one in topics[start : start + TRUNCATED_TOGETHER])
            )
        return schema.Empty()

    async def _truncate(self, name: TopicName, *, create: bool) -> None:
        """Cursors first, then the ledgers: a crash between leaves messages that nobody will get, which retention drops."""
        topic = await self.topics.get(name, create=create)
        try:
            await topic.ledger.roll()
            last = topic.ledger_list.last
            if topic.publisher.dedup is not None:  # what it knows of the messages cannot be read from them any more
                await dedup_state.save(topic)
            for subscription in list(topic.subscriptions.values()):
                if topic.subscriptions.get(subscription.name) is subscription:  # else deleted meanwhile
                    await self._acknowledge_up_to(topic, subscription, last)
            ledgers, freed = await topic.ledger.trim(last, NOTHING)
        except StoreError as error:
            raise refusal_of(error, f"topic {name} could not be truncated") from error
        log.info("topic.truncated", topic=str(name), ledgers=ledgers, freed_bytes=freed)
