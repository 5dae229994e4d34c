"""Admin RPC: topics. Callers are our own web and worker processes, which authorised the person; names are validated again here."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from messaging.adminrpc import schema
from messaging.broker.runtime.admin import stats
from messaging.broker.runtime.admin.partitioned_stats import partitioned_stats
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.backlog_age import BacklogAges
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import PreconditionFailed, TopicNotFound
from messaging.protocol.names import parse_namespace, parse_topic

log = structlog.get_logger("broker.topics")

LOADED_TOGETHER = 100  # partitions of a topic
SEARCH_MAX = 100  # names of a kind in one answer
LIVE_LOAD_MAX = 200  # topics of one namespace that a live table loads to know their backlog; of the rest it shows the names


class TopicRpc(Broker):
    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.backlog_ages = BacklogAges()

    async def topics_list(self, request: schema.TopicsList) -> schema.TopicNames:
        namespace = str(parse_namespace(request.namespace))
        names = await self.topic_names(namespace)
        partitioned = {one.name: one.partitions for one in await self.storage.meta.list_partitioned(namespace)}
        return schema.TopicNames(topics=names, partitioned=partitioned)

    async def names_search(self, request: schema.NamesSearch) -> schema.SearchResult:
        limit = min(request.limit, SEARCH_MAX)
        topics: list[str] = []
        subscriptions: list[schema.SubscriptionFound] = []
        tenants = [""] if request.everywhere else [name for name in request.tenants if name]
        for tenant in tenants:
            found = await self.storage.meta.search(tenant, request.words.lower(), limit)
            topics += found.topics
            subscriptions += [schema.SubscriptionFound(topic=topic, name=name) for topic, name in found.subscriptions]
            if len(topics) >= limit and len(subscriptions) >= limit:
                break
        return schema.SearchResult(topics=topics[:limit], subscriptions=subscriptions[:limit])

    async def namespaces_purge(self, request: schema.TopicsList) -> schema.Empty:
        """Deletes what is left in a namespace that does not exist. Raises `PreconditionFailed` for one that does."""
        namespace = str(parse_namespace(request.namespace))
        partitioned = [one.name for one in await self.storage.meta.list_partitioned(namespace)]
        for text in (*partitioned, *await self.topic_names(namespace)):
            name = parse_topic(text)
            if namespace in self.access.view.namespaces:
                break
            try:
                if text in partitioned:
                    await self.topics.partitioned.delete(name, force=True)
                else:
                    await self.topics.delete(name, force=True)
            except TopicNotFound:
                continue  # a partition that went with its topic
            log.warning("namespace.leftover_deleted", topic=text)
        if namespace in self.access.view.namespaces:
            raise PreconditionFailed(f"namespace {namespace} exists: its topics are deleted one by one")
        return schema.Empty()

    async def topics_create(self, request: schema.TopicCreate) -> schema.Empty:
        name = await self.admin_name(request.topic)
        if request.partitions is None:
            await self.topics.create(name, request.properties)
        else:
            await self.topics.partitioned.create(name, request.partitions, request.properties)
        return schema.Empty()

    async def topics_delete(self, request: schema.TopicDelete) -> schema.Empty:
        name = await self.admin_name(request.topic)
        if request.partitioned:
            await self.topics.partitioned.delete(name, force=request.force)
        else:
            await self.check_plain(name)
            await self.topics.delete(name, force=request.force)
        return schema.Empty()

    async def topics_partitions(self, request: schema.PartitionsGet) -> schema.Partitions:
        name = await self.admin_name(request.topic)
        held = await self.topics.partitioned.get(name)
        if held is not None:
            return schema.Partitions(partitions=held.partitions, properties=held.properties)
        count = await self.partition_count(name, auto_create=request.check_auto_creation)
        return schema.Partitions(partitions=count)

    async def topics_update_partitions(self, request: schema.PartitionsUpdate) -> schema.Empty:
        await self.topics.partitioned.grow(await self.admin_name(request.topic), request.partitions)
        return schema.Empty()

    async def topics_lookup(self, request: schema.TopicLookup) -> schema.LookupAnswer:
        await self.admin_name(request.topic)
        here = self.addresses
        return schema.LookupAnswer(
            broker_url=here.broker_url, broker_url_tls=here.broker_url_tls, http_url=here.http_url, http_url_tls=here.http_url_tls
        )

    async def topics_stats(self, request: schema.TopicRef) -> schema.Stats:
        return schema.Stats(stats=await self._stats(await self.admin_topic(request.topic)))

    async def topics_internal_stats(self, request: schema.TopicRef) -> schema.Stats:
        return schema.Stats(stats=stats.internal_stats(await self.admin_topic(request.topic)))

    async def topics_partitioned_stats(self, request: schema.TopicRef) -> schema.Stats:
        """Sums over the partitions, and each partition's own under "partitions"."""
        name = await self.admin_name(request.topic)
        held = await self.topics.partitioned.get(name)
        if held is None:
            raise TopicNotFound(f"partitioned topic {name} does not exist")
        parts: dict[str, dict[str, Any]] = {}

        async def add(index: int) -> None:
            topic = await self.topics.get(name.of_partition(index), create=True)
            parts[topic.text] = await self._stats(topic)

        for start in range(0, held.partitions, LOADED_TOGETHER):
            await asyncio.gather(*(add(index) for index in range(start, min(start + LOADED_TOGETHER, held.partitions))))
        return schema.Stats(stats=partitioned_stats(held.partitions, parts))

    async def _stats(self, topic: Topic) -> dict[str, Any]:
        oldest_ms = await self.backlog_ages.of(topic)
        return stats.topic_stats(topic, stats.Asked(self.settings.broker_id, self.time_text, self.now_ms(), oldest_ms))

    async def topics_unload(self, request: schema.TopicRef) -> schema.Empty:
        name = await self.admin_name(request.topic)
        held = await self.topics.partitioned.get(name)
        if held is None and not await self.topics.exists(name):
            raise TopicNotFound(f"topic {name} does not exist")
        for one in [name.of_partition(index) for index in range(held.partitions)] if held else [name]:
            await self.topics.unload(one)
        return schema.Empty()

    async def topics_terminate(self, request: schema.TopicRef) -> schema.MessageIdAnswer:
        topic = await self.admin_topic(request.topic)
        last = await topic.terminate()
        return schema.MessageIdAnswer(ledger_id=last.ledger_id, entry_id=last.entry_id, partition=topic.name.partition)

    async def topics_last_message_id(self, request: schema.TopicRef) -> schema.MessageIdAnswer:
        topic = await self.admin_topic(request.topic)
        last = topic.ledger_list.last
        return schema.MessageIdAnswer(ledger_id=last.ledger_id, entry_id=last.entry_id, partition=topic.name.partition)

    async def namespaces_live(self, request: schema.TopicsList) -> schema.NamespaceLive:
        names = await self.topic_names(str(parse_namespace(request.namespace)))
        rows = []
        for text in names:
            topic = self.topics.loaded.get(text)
            if topic is None and len(names) <= LIVE_LOAD_MAX:
                try:
                    topic = await self.topics.get(parse_topic(text), create=False)
                except TopicNotFound:  # deleted since it was listed
                    continue
            rows.append(stats.live(topic) if topic is not None else stats.not_loaded(text))
        self.live_sequence += 1
        return schema.NamespaceLive(sequence=self.live_sequence, at_ms=self.now_ms(), boot_epoch=self.boot_epoch, topics=rows)
