"""Admin RPC: the figures of a topic, as Pulsar's tools read them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from messaging.adminrpc import schema
from messaging.broker.runtime.admin import stats
from messaging.broker.runtime.admin.idle_stats import IdleStats
from messaging.broker.runtime.admin.internal_info import internal_info
from messaging.broker.runtime.admin.internal_stats import internal_stats
from messaging.broker.runtime.admin.naming import read_topic, stored_topic_name, topic_name
from messaging.broker.runtime.admin.partitioned_stats import partitioned_stats
from messaging.broker.runtime.admin.pulsar_stats import completed
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.backlog_age import BacklogAges
from messaging.broker.runtime.topics.backlog_quota import quota_of
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import PreconditionFailed, TopicNotFound

Figures = dict[str, Any]

LOADED_TOGETHER = 100  # partitions of a topic


class TopicStatsHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._backlog_ages = BacklogAges()
        self._idle = IdleStats()
        broker.topics.on_loaded.append(self._idle.loaded)
        broker.topics.on_unloaded.append(lambda topic: self._idle.unloaded(topic, self._backlog_ages.known(topic)))
        broker.topics.on_deleted.append(self._idle.deleted)

    async def stats(self, request: schema.TopicRef) -> schema.Stats:
        return schema.Stats(stats=await self._stats(await read_topic(self._broker, request.topic)))

    async def figures(self, request: schema.TopicRef) -> schema.Stats:
        """The stats that alerts are about. Of a topic that is not loaded those of when it was unloaded; it is loaded only where
        they are not known: when it is looked at for the first time since the broker's start."""
        name = await topic_name(self._broker, request.topic)
        held = self._idle.look(str(name))
        if held is None or str(name) in self._broker.topics.loaded:
            return await self.stats(request)
        return schema.Stats(stats=held.stats(self._broker.now_ms()))

    async def internal_stats(self, request: schema.TopicRef) -> schema.Stats:
        return schema.Stats(stats=internal_stats(await read_topic(self._broker, request.topic)))

    async def partitioned_stats(self, request: schema.TopicRef) -> schema.Stats:
        """Sums over the partitions, and each partition's own under "partitions"."""
        parts = await self._of_partitions(request, self._stats)
        return schema.Stats(stats=partitioned_stats(len(parts), parts))

    async def partitioned_internal_stats(self, request: schema.TopicRef) -> schema.Stats:
        """Those of each partition."""
        parts = await self._of_partitions(request, _internal_stats)
        return schema.Stats(stats={"metadata": {"partitions": len(parts), "deleted": False}, "partitions": parts})

    async def internal_info(self, request: schema.TopicRef) -> schema.Stats:
        name = await stored_topic_name(self._broker, request.topic, "reading what is stored of", PreconditionFailed)
        if await self._broker.topics.partitioned.get(name) is not None:
            return schema.Stats(stats={"version": 0, "partitions": await self._of_partitions(request, self._info)})
        return schema.Stats(stats=await self._info(await read_topic(self._broker, request.topic)))

    async def _info(self, topic: Topic) -> Figures:
        return internal_info(topic, await self._broker.storage.meta.subscriptions(topic.text))

    async def _of_partitions(self, request: schema.TopicRef, figures: Callable[[Topic], Awaitable[Figures]]) -> dict[str, Figures]:
        """The figures of each partition, by its name and in order. Raises `TopicNotFound`."""
        name = await topic_name(self._broker, request.topic)
        held = await self._broker.topics.partitioned.get(name)
        if held is None:
            raise TopicNotFound(f"partitioned topic {name} does not exist")

        async def of(index: int) -> tuple[str, Figures]:
            topic = await self._broker.topics.get(name.of_partition(index), create=True)
            return topic.text, await figures(topic)

        parts: dict[str, Figures] = {}
        for start in range(0, held.partitions, LOADED_TOGETHER):
            stop = min(start + LOADED_TOGETHER, held.partitions)
            parts |= dict(await asyncio.gather(*(of(index) for index in range(start, stop))))
        return parts

    async def _stats(self, topic: Topic) -> Figures:
        oldest_ms = await self._backlog_ages.of(topic)
        broker = self._broker
        result = broker.compactions.result(topic.text)
        context = stats.StatsContext(broker.settings.broker_id, broker.now_ms(), oldest_ms, result)
        quota = quota_of(topic.services.policy, topic.name)
        limits = (quota.bytes_max, quota.age_max_s) if topic.keeps_messages else (0, 0)  # no backlog, no quota: as in Pulsar
        return completed(stats.topic_stats(topic, context), *limits)


async def _internal_stats(topic: Topic) -> Figures:
    return internal_stats(topic)
