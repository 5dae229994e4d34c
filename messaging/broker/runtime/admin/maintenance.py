"""Admin RPC: what policies remove from topics on a schedule: messages past their TTL, ledgers past their retention."""

from __future__ import annotations

import structlog

from messaging.adminrpc import schema
from messaging.broker.runtime.admin.positions import expire
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics import dedup_state
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.maintenance_due import MaintenancePolicies

log = structlog.get_logger("broker.maintenance")


class MaintenanceHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def list_topics(self, request: schema.MaintenanceTopics) -> schema.MaintenancePage:
        limit = max(1, min(request.limit, 5_000))
        names = await self._broker.storage.meta.list_all_topics(after=request.after, limit=limit)
        return schema.MaintenancePage(topics=names, next_after=names[-1] if len(names) == limit else "")

    async def run(self, request: schema.MaintenanceRun) -> schema.MaintenanceResult:
        result = schema.MaintenanceResult(expired_entries=0, trimmed_ledgers=0, freed_bytes=0, failed={})
        for text in request.topics:
            try:
                await self._maintain(parse_topic(text), result)
            except (MagnetarError, StoreError) as error:
                result.failed[text] = str(error)
        if result.expired_entries or result.trimmed_ledgers:
            log.info(
                "maintenance.done",
                task_id=request.task_id,
                expired_entries=result.expired_entries,
                trimmed_ledgers=result.trimmed_ledgers,
            )
        return result

    async def _maintain(self, name: TopicName, result: schema.MaintenanceResult) -> None:
        """Expiry and retention of one topic. One that is not loaded is loaded only when there may be something to do."""
        policies = self._policies(name)
        ttl_s = policies.message_ttl_s
        loaded = self._broker.topics.loaded.get(str(name))
        if loaded is None and await self._broker.idle_topics.rests(str(name), policies, self._broker.storage.safe_expiry_ms()):
            return
        topic = loaded or await self._broker.topics.get(name, create=False)
        if ttl_s:
            cutoff_ms = self._broker.storage.safe_expiry_ms() - ttl_s * 1000
            for subscription in list(topic.subscriptions.values()):
                if subscription.durable:
                    result.expired_entries += await expire(topic, subscription, cutoff_ms)
        silent_ms = self._broker.settings.incomplete_chunks_expire_s * 1000
        for subscription in list(topic.subscriptions.values()):
            if subscription.durable and subscription.state.chunks:
                result.expired_entries += await topic.expire_chunks(subscription, silent_ms)
        if topic.backlog_quota is not None:
            await topic.backlog_quota.enforce(self._broker.now_ms())
        ledgers, freed = await self._trim(topic)
        result.trimmed_ledgers += ledgers
        result.freed_bytes += freed
        if loaded is None and not len(topic.producers) and not any(one.consumers for one in topic.subscriptions.values()):
            await self._broker.topics.unload(name)

    def _policies(self, name: TopicName) -> MaintenancePolicies:
        policies = self._broker.policies
        keep_min, keep_mb = policies.value("retention_time_min", name), policies.value("retention_size_mb", name)
        return MaintenancePolicies(policies.message_ttl_s(name), int(keep_min), int(keep_mb))

    async def _trim(self, topic: Topic) -> tuple[int, int]:
        retention = self._policies(topic.name).retention(self._broker.storage.safe_expiry_ms())
        durable = (one.cursor.mark_delete for one in topic.subscriptions.values() if one.durable)  # readers keep nothing
        before = min(durable, default=topic.ledger_list.last)
        dedup = topic.publisher.dedup
        if dedup is not None:  # what follows the snapshot is needed to know duplicates after a restart
            if dedup.snapshot_position < before and topic.ledger.trims(before, retention):
                await dedup_state.save(topic)
            before = min(before, dedup.snapshot_position)
        return await topic.ledger.trim(before, retention)
