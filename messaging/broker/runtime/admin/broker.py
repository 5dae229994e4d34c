"""Admin RPC: the broker itself, its feed, its upkeep and its usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from messaging.adminrpc import schema
from messaging.broker.runtime.admin.subscriptions import SubscriptionRpc
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.process import resident_bytes
from messaging.broker.runtime.topics import dedup_state
from messaging.broker.runtime.topics.topic import LATEST
from messaging.errors import MagnetarError, NotReady
from messaging.protocol import hot
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.retention import Retention, droppable
from messaging.storage.seam import StoreError
from messaging.version import VERSION

if TYPE_CHECKING:
    from messaging.broker.runtime.topics.topic import Topic

log = structlog.get_logger("broker.upkeep")


class BrokerRpc(SubscriptionRpc, LocalSessions):
    async def status(self, request: schema.Request) -> schema.BrokerStatus:
        ready, why = self.ready()
        topics = list(self.topics)
        return schema.BrokerStatus(
            broker_id=self.settings.broker_id,
            boot_epoch=self.boot_epoch,
            version=VERSION,
            uptime_ms=self.now_ms() - self.started_ms,
            ready=ready,
            why_not_ready=why,
            feed_version=self.access.view.version,
            connections=len(self.peers.connections),
            topics_loaded=len(topics),
            producers=sum(len(topic.producers) for topic in topics),
            consumers=sum(len(one.consumers) for topic in topics for one in topic.subscriptions.values()),
            hot_loops="compiled" if hot.COMPILED else "python",
            durability=self.settings.durability,
            resident_bytes=resident_bytes(),
        )

    async def health(self, request: schema.Request) -> schema.Empty:
        """One message through the log and back to a reader, on a topic of the broker's own."""
        ready, why = self.ready()
        if not ready:
            raise NotReady(why)
        await self.round_trip()
        return schema.Empty()

    async def feed_apply(self, request: schema.FeedApply) -> schema.FeedVersion:
        return schema.FeedVersion(version=await self.access.apply(request))

    async def feed_version(self, request: schema.Request) -> schema.FeedVersion:
        return schema.FeedVersion(version=self.access.view.version)

    async def upkeep_topics(self, request: schema.UpkeepTopics) -> schema.UpkeepPage:
        limit = max(1, min(request.limit, 5_000))
        names = await self.storage.meta.list_all_topics(after=request.after, limit=limit)
        return schema.UpkeepPage(topics=names, next_after=names[-1] if len(names) == limit else "")

    async def upkeep_run(self, request: schema.UpkeepRun) -> schema.UpkeepResult:
        result = schema.UpkeepResult(expired_entries=0, trimmed_ledgers=0, freed_bytes=0, failed={})
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

    async def _keep_up(self, name: TopicName, result: schema.UpkeepResult) -> None:
        """Expiry and retention of one topic. One that is not loaded is loaded only if there may be something to do."""
        ttl_s = self.message_ttl_s(name)
        loaded = self.topics.loaded.get(str(name))
        if loaded is None and not ttl_s and not await self._trims_unloaded(name):
            return
        topic = loaded or await self.topics.get(name, create=False)
        if ttl_s:
            cutoff_ms = self.now_ms() - ttl_s * 1000
            for subscription in list(topic.subscriptions.values()):
                if subscription.durable:
                    result.expired_entries += await self.expire(topic, subscription, cutoff_ms)
        ledgers, freed = await self._trim(topic)
        result.trimmed_ledgers += ledgers
        result.freed_bytes += freed
        if loaded is None and not len(topic.producers) and not any(one.consumers for one in topic.subscriptions.values()):
            await self.topics.unload(name)

    async def _trims_unloaded(self, name: TopicName) -> bool:
        """Whether retention lets go of something of a topic that is not loaded, as far as what is stored of it tells."""
        record = await self.storage.meta.get_topic(str(name))
        if record is None or not record.ledgers:
            return False
        last = record.ledgers[-1]
        if last.last_entry is None:  # of a broker that died: loading it settles where it ended
            return self.now_ms() - last.created_ms >= self.storage.limits.age_max_ms
        marks = [
            LATEST if self.cursors.recovered_deltas(one.subscription_id) else one.mark_delete
            for one in await self.storage.meta.subscriptions(record.name)
        ]
        return any(one.last_entry != -1 for one in droppable(record.ledgers, min(marks, default=LATEST), self._retention(name)))

    def _retention(self, name: TopicName) -> Retention:
        view, namespace = self.access.view, str(name.namespace)
        keep_min = int(view.policy("retention_time_min", namespace).value)
        keep_mb = int(view.policy("retention_size_mb", namespace).value)
        older_than_ms = 0 if keep_min < 0 else self.now_ms() - keep_min * 60_000
        return Retention(older_than_ms, keep_mb << 20 if keep_mb >= 0 else -1)

    async def _trim(self, topic: Topic) -> tuple[int, int]:
        retention = self._retention(topic.name)
        before = min((one.cursor.mark_delete for one in topic.subscriptions.values()), default=topic.chain.last)
        dedup = topic.inlet.dedup
        if dedup is not None:  # what follows the snapshot is needed to know duplicates after a restart
            if dedup.snapshot_position < before and topic.ledger.trims(before, retention):
                await dedup_state.save(topic)
            before = min(before, dedup.snapshot_position)
        return await topic.ledger.trim(before, retention)

    async def usage_flush(self, request: schema.UsageFlush) -> schema.UsageFlushed:
        if self.metering.usage is None:
            return schema.UsageFlushed(files=[], rows=0)
        return await self.metering.usage.collect()
