"""Admin RPC: the figures of a topic, as Pulsar's tools read them."""

from __future__ import annotations

import asyncio
from typing import Any

from messaging.adminrpc import schema
from messaging.broker.runtime.admin import stats
from messaging.broker.runtime.admin.internal_stats import internal_stats
from messaging.broker.runtime.admin.naming import plain_topic, topic_name
from messaging.broker.runtime.admin.partitioned_stats import partitioned_stats
from messaging.broker.runtime.admin.pulsar_stats import completed, completed_internal
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.backlog_age import BacklogAges
from messaging.broker.runtime.topics.backlog_quota import quota_of
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import TopicNotFound

LOADED_TOGETHER = 100  # partitions of a topic


class TopicStatsHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._backlog_ages = BacklogAges()

    async def stats(self, request: schema.TopicRef) -> schema.Stats:
        return schema.Stats(stats=await self._stats(await plain_topic(self._broker, request.topic)))

    async def internal_stats(self, request: schema.TopicRef) -> schema.Stats:
        topic = await plain_topic(self._broker, request.topic)
        opened_ms = max((one.created_ms for one in topic.ledger.record.ledgers), default=topic.created_ms)
        return schema.Stats(stats=completed_internal(internal_stats(topic), opened_ms, topic.created_ms))

    async def partitioned_stats(self, request: schema.TopicRef) -> schema.Stats:
        """Sums over the partitions, and each partition's own under "partitions"."""
        name = await topic_name(self._broker, request.topic)
        held = await self._broker.topics.partitioned.get(name)
        if held is None:
            raise TopicNotFound(f"partitioned topic {name} does not exist")
        parts: dict[str, dict[str, Any]] = {}

        async def add(index: int) -> None:
            topic = await self._broker.topics.get(name.of_partition(index), create=True)
            parts[topic.text] = await self._stats(topic)

        for start in range(0, held.partitions, LOADED_TOGETHER):
            await asyncio.gather(*(add(index) for index in range(start, min(start + LOADED_TOGETHER, held.partitions))))
        return schema.Stats(stats=partitioned_stats(held.partitions, parts))

    async def _stats(self, topic: Topic) -> dict[str, Any]:
        oldest_ms = await self._backlog_ages.of(topic)
        broker = self._broker
        result = broker.compactions.result(topic.text)
        context = stats.StatsContext(broker.settings.broker_id, broker.now_ms(), oldest_ms, result)
        quota = quota_of(topic.services.policy, topic.name)
        return completed(stats.topic_stats(topic, context), quota.bytes_max, quota.age_max_s)
