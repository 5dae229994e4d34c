"""Admin RPC: the figures of a topic, as Pulsar's tools read them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from messaging.adminrpc.methods import (
    TOPICS_FIGURES,
    TOPICS_INTERNAL_INFO,
    TOPICS_INTERNAL_STATS,
    TOPICS_MEMBERS,
    TOPICS_PARTITIONED_INTERNAL_STATS,
    TOPICS_PARTITIONED_STATS,
    TOPICS_STATS,
)
from messaging.adminrpc.topics import SUBSCRIPTION_FIGURES, Stats, StatsAsked, TopicMembers, TopicMembersAsked, TopicRef
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.fewer_copies import problems_of_topic
from messaging.broker.runtime.admin.naming import parts_of, read_topic, stored_topic_name, topic_name
from messaging.broker.runtime.admin.stats import stats
from messaging.broker.runtime.admin.stats.idle_stats import FIGURES_COST, IdleStats, alert_figures
from messaging.broker.runtime.admin.stats.internal_info import internal_info
from messaging.broker.runtime.admin.stats.internal_stats import internal_stats, named_subscriptions
from messaging.broker.runtime.admin.stats.members import MemberContext, MemberSums
from messaging.broker.runtime.admin.stats.partitioned_stats import PartitionedStats
from messaging.broker.runtime.admin.stats.pulsar_stats import completed
from messaging.broker.runtime.admin.stats.stats import ALL, ENCODED_ABOVE, Only
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.memory_turns import MemoryTurns
from messaging.broker.runtime.topics.backlog.age import BacklogAges
from messaging.broker.runtime.topics.backlog.quota import quota_of
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices, all_in_slices
from messaging.errors import InvalidValue, PreconditionFailed, TopicNotFound
from messaging.protocol.names import TopicName

Figures = dict[str, Any]

LOADED_TOGETHER = 100  # partitions of a topic
ANSWERS_AT_ONCE = 4  # of different tenants
SUBSCRIPTION_BYTES, MEMBER_BYTES, PARTITION_BYTES, MEMBER_NAME_BYTES = 3_000, 1_000, 5_000, 200  # of an answer, about
ADD_COST, INFO_COST, LOAD_COST = 50, 10, 1_000  # a subscription, and a partition, in units of `core/turns/command_costs.py`


class TopicStatsHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._backlog_ages = BacklogAges()
        self._answers = MemoryTurns(ANSWERS_AT_ONCE)
        self._idle = IdleStats()
        broker.topics.on_loaded.append(self._idle.loaded)
        broker.topics.on_unloaded.append(lambda topic: self._idle.unloaded(topic, self._backlog_ages.known(topic)))
        broker.topics.on_deleted.append(self._idle.deleted)

    @answers(TOPICS_STATS)
    async def stats(self, request: StatsAsked) -> Stats:
        topic, only = await read_topic(self._broker, request.topic), _chosen(request)
        expected_bytes = SUBSCRIPTION_BYTES * len(only.subscriptions) if only.subscriptions else _expected_bytes(topic)
        async with self._room_for(topic.name, expected_bytes):
            return Stats(stats=await self._stats(topic, self._slices(topic.name), encoded=not only.subscriptions, only=only))

    @answers(TOPICS_FIGURES)
    async def figures(self, request: TopicRef) -> Stats:
        """The stats that alerts are about; of a partitioned topic those of each partition that exists, under "partitions". Of a
        topic that is not loaded those of when it was unloaded; it is loaded only where they are not known: when it is looked at
        for the first time since the broker's start. Raises `TopicNotFound`."""
        name = await topic_name(self._broker, request.topic)
        parts, slices = await parts_of(self._broker, name), self._slices(name)
        if not parts.partitioned:
            return Stats(stats=await self._figures(name, slices))
        by_partition: dict[str, Figures] = {}
        for part in parts.names:
            try:
                by_partition[str(part.partition)] = await self._figures(part, slices)
            except TopicNotFound:  # nobody has used it yet
                continue
        return Stats(stats={"partitions": by_partition})

    async def _figures(self, name: TopicName, slices: TurnSlices) -> Figures:
        await slices.spend(FIGURES_COST)
        idle = self._idle.look(str(name))
        if idle is not None and str(name) not in self._broker.topics.loaded:
            return idle.stats(self._broker.now_ms())
        topic = await self._broker.topics.get(name, create=False)
        oldest_ms = await self._backlog_ages.of(topic, slices)
        return await alert_figures(topic, oldest_ms, self._broker.now_ms(), slices)

    @answers(TOPICS_INTERNAL_STATS)
    async def internal_stats(self, request: TopicRef) -> Stats:
        topic = await read_topic(self._broker, request.topic)
        async with self._room_for(topic.name, _expected_bytes(topic)):
            return Stats(stats=await internal_stats(topic, self._slices(topic.name)))

    @answers(TOPICS_PARTITIONED_STATS)
    async def partitioned_stats(self, request: StatsAsked) -> Stats:
        """Sums over the partitions, and each partition's own under "partitions"."""
        name, names = await self._partitions(request)
        only = _chosen(request)._replace(producers=None)
        slices, parts, sums = self._slices(name), dict[str, Any](), PartitionedStats()
        async with self._room_for(name, PARTITION_BYTES * len(names)):
            async for topic in self._loaded(names):
                figures = await self._stats(topic, slices, only=only)
                await slices.spend(ADD_COST * (1 + len(figures["subscriptions"])))
                sums.add(figures)
                parts[topic.text] = msgspec.Raw(msgspec.json.encode(figures)) if len(names) > ENCODED_ABOVE else figures
            return Stats(stats=sums.total(parts))

    @answers(TOPICS_MEMBERS)
    async def members(self, request: TopicMembersAsked) -> TopicMembers:
        """Raises `TopicNotFound`."""
        unknown = [figure for figure in request.figures if figure not in SUBSCRIPTION_FIGURES]
        if unknown:
            raise InvalidValue(f"figure {unknown[0]!r} is not known: use {', '.join(sorted(SUBSCRIPTION_FIGURES))}")
        name = await topic_name(self._broker, request.topic)
        record = await self._broker.topics.partitioned.get(name)
        if record is None:
            topic = await self._broker.topics.get(name, create=False)
            async with self._room_for(name, MEMBER_NAME_BYTES * len(topic.subscriptions.table)):
                sums = MemberSums(request.figures)
                await self._add_members(sums, topic, request)
                return sums.total(0)
        names, sums = (await parts_of(self._broker, name)).names, MemberSums(request.figures)
        async with self._room_for(name, PARTITION_BYTES * len(names)):
            async for topic in self._loaded(names):
                await self._add_members(sums, topic, request)
            return sums.total(record.partitions)

    async def _add_members(self, sums: MemberSums, topic: Topic, request: TopicMembersAsked) -> None:
        slices = self._slices(topic.name)
        oldest_ms = await self._backlog_ages.of(topic, slices) if "oldest" in request.figures else {}
        context = MemberContext(topic, self._broker.now_ms(), oldest_ms, self._broker.problems)
        await sums.look(context, slices, request.subscription)

    @answers(TOPICS_PARTITIONED_INTERNAL_STATS)
    async def partitioned_internal_stats(self, request: TopicRef) -> Stats:
        """Those of each partition."""
        parts = await self._of_partitions(request, internal_stats)
        return Stats(stats={"metadata": {"partitions": len(parts), "deleted": False}, "partitions": parts})

    @answers(TOPICS_INTERNAL_INFO)
    async def internal_info(self, request: TopicRef) -> Stats:
        name = await stored_topic_name(self._broker, request.topic, "reading what is stored of", PreconditionFailed)
        if await self._broker.topics.partitioned.get(name) is not None:
            return Stats(stats={"version": 0, "partitions": await self._of_partitions(request, self._info)})
        topic = await read_topic(self._broker, request.topic)
        return Stats(stats=await self._info(topic, self._slices(topic.name)))

    async def _info(self, topic: Topic, slices: TurnSlices) -> Figures:
        await slices.spend(INFO_COST * (1 + len(topic.subscriptions.table)))
        return internal_info(topic, await self._broker.storage.meta.subscriptions(topic.text))

    async def _partitions(self, request: TopicRef) -> tuple[TopicName, list[TopicName]]:
        """The topic, and those of its partitions that this broker serves. Raises `TopicNotFound`."""
        name = await topic_name(self._broker, request.topic)
        parts = await parts_of(self._broker, name)
        if not parts.partitioned:
            raise TopicNotFound(f"partitioned topic {name} does not exist")
        return name, parts.names

    async def _loaded(self, names: list[TopicName]) -> AsyncIterator[Topic]:
        """Each of these partitions, in order."""
        topics, slices = self._broker.topics, self._slices(names[0])
        for start in range(0, len(names), LOADED_TOGETHER):
            some = names[start : start + LOADED_TOGETHER]
            for topic in await all_in_slices(slices, some, LOAD_COST, lambda part: topics.get(part, create=True)):
                yield topic

    async def _of_partitions(
        self, request: TopicRef, make: Callable[[Topic, TurnSlices], Awaitable[Figures]]
    ) -> dict[str, Figures]:
        """The figures of each partition, by its name and in order. Raises `TopicNotFound`."""
        name, names = await self._partitions(request)
        slices = self._slices(name)
        async with self._room_for(name, PARTITION_BYTES * len(names)):
            return {topic.text: await make(topic, slices) async for topic in self._loaded(names)}

    async def _stats(self, topic: Topic, slices: TurnSlices, *, encoded: bool = False, only: Only = ALL) -> Figures:
        names = only.subscriptions
        asked = [subscription for _, subscription in named_subscriptions(topic, names)] if names else None
        oldest_ms = await self._backlog_ages.of(topic, slices, asked)
        broker = self._broker
        result = broker.compactions.result(topic.text)
        problems = problems_of_topic(broker, topic)
        context = stats.StatsContext(broker.settings.broker_id, broker.now_ms(), oldest_ms, broker.problems, problems, result)
        quota = quota_of(topic.services.policies.value, topic.name)
        limits = (quota.bytes_max, quota.age_max_s) if topic.keeps_messages else (0, 0)  # no backlog, no quota: as in Pulsar
        return completed(await stats.topic_stats(topic, context, slices, encoded=encoded, only=only), *limits)

    def _slices(self, name: TopicName) -> TurnSlices:
        return self._broker.topics.services.loops.slices(name.tenant)

    def _room_for(self, name: TopicName, size_bytes: int) -> AbstractAsyncContextManager[None]:
        """A large answer is made in it, charged to the topic's tenant. Raises `NotReady`."""
        return self._answers.turn(self._broker.memory_limiter.egress, name.tenant, size_bytes)


def _chosen(request: StatsAsked) -> Only:
    consumers, producers = (
        None if names is None else frozenset(names) for names in (request.only_consumers, request.only_producers)
    )
    return Only(request.only_subscriptions, consumers, producers)


def _expected_bytes(topic: Topic) -> int:
    consumers = sum(len(subscription.consumers) for subscription in topic.subscriptions.table.values())
    return SUBSCRIPTION_BYTES * len(topic.subscriptions.table) + MEMBER_BYTES * (len(topic.producers) + consumers)
