"""Admin RPC: topics of a namespace as they are now, a page at a time, and which of the loaded ones have most of something.

A page costs what its length costs. What is asked of all loaded topics of a namespace takes slices of the event loop's turns, and
the sums over them are kept for twenty times as long as they took: however many there are, they cost a twentieth of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic

from messaging.adminrpc.methods import NAMESPACES_LIVE, TOPICS_RANKED
from messaging.adminrpc.topics import (
    LiveAsked,
    LiveTotals,
    NamespaceLive,
    PageTopic,
    TopicLive,
    TopicsRanked,
    TopicsRankedAsked,
)
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.fewer_copies import degraded_since_ms
from messaging.broker.runtime.admin.namespaces import present_namespace
from messaging.broker.runtime.admin.stats import live_stats
from messaging.broker.runtime.admin.stats.ranking import FIGURES, combined, in_order
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.listing import page_of_topics
from messaging.errors import InvalidValue, TopicNotFound
from messaging.problems.kinds import Kind, worst
from messaging.protocol.names import PERSISTENT, parse_topic
from messaging.protocol.system_topics import CHANGE_EVENTS, without_system_topics

LIVE_LOAD_MAX = 200  # topics of one namespace that a live table loads to know their backlog; of the rest it shows the names
ROWS_MAX = 5_000  # of a page, partitions one by one: it ends before the topic with which it would have more
TOPIC_COST = 10  # in units of `core/turns/command_costs.py`: a topic is looked at in 3 to 6 microseconds
TOPICS_A_SLICE = 100
SUMS_KEPT_S_MIN = 0.5
SUMS_KEPT_TIMES = 20
NAMESPACES_KEPT_MAX = 100


@dataclass
class _Kept:
    totals: LiveTotals
    until: float  # of the monotonic clock


class LiveHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sequence = 0
        self._kept: dict[str, _Kept] = {}

    @answers(NAMESPACES_LIVE)
    async def live(self, request: LiveAsked) -> NamespaceLive:
        namespace = present_namespace(self._broker, request.namespace)
        following = ""
        if request.names:
            rows = await self._rows_of(namespace, request.names)
        elif request.rows_max is None:
            rows = await self._all(namespace)
        else:
            rows, following = await self._page(namespace, request, request.rows_max)
        self._sequence += 1
        return NamespaceLive(
            sequence=self._sequence,
            at_ms=self._broker.now_ms(),
            boot_epoch=self._broker.boot_epoch,
            topics=rows,
            next=following,
            totals=None if request.rows_max is None else await self._totals(namespace),
        )

    async def _all(self, namespace: str) -> list[TopicLive]:
        topics = self._broker.topics
        names = await self._broker.topic_names(namespace) + topics.unstored_names(namespace)
        rows = await self._rows(without_system_topics(names))
        for partitioned in await self._broker.storage.meta.list_partitioned(namespace):
            parts = _parts(partitioned.name, partitioned.partitions)
            if not parse_topic(partitioned.name).persistent:  # of which only those that are loaded have a name in the list
                rows += [live_stats.nothing(text) for text in parts if text not in topics.loaded]
        return rows

    async def _page(self, namespace: str, request: LiveAsked, limit: int) -> tuple[list[TopicLive], str]:
        """Its rows, and where the next page begins."""
        topics, words = self._broker.topics, request.words.lower()
        loaded = topics.loaded_of(namespace)
        page = await page_of_topics(self._broker.storage.meta, loaded, namespace, request.after, limit, words)
        names: list[str] = []
        following = page.next
        for index, topic in enumerate(page.topics):
            if names and len(names) + topic.partitions > ROWS_MAX:
                following = page.topics[index - 1].topic
                break
            names += _names(topic)
        return await self._rows(names, whole=not (following or request.after or words)), following

    async def _rows_of(self, namespace: str, asked: Iterable[str]) -> list[TopicLive]:
        """Of topics that exist. Raises `InvalidValue` for one of another namespace, which the caller may not be allowed to see."""
        names: list[str] = []
        for text in asked:
            if str(parse_topic(text).namespace) != namespace:
                raise InvalidValue(f"topic {text} is not in namespace {namespace}: ask for the topics of one namespace at a time")
            if text not in self._broker.topics.loaded:
                name = parse_topic(text)
                record = None if name.partition >= 0 else await self._broker.storage.meta.get_partitioned(text)
                if record is not None:
                    names += _parts(text, record.partitions)
                    continue
                if not name.persistent or await self._broker.storage.meta.get_topic(text) is None:
                    continue
            names.append(text)
        return await self._rows(names[:ROWS_MAX], whole=False)

    async def _rows(self, names: list[str], *, whole: bool = True) -> list[TopicLive]:
        """`whole`: it is all of a namespace, whose topics are loaded if there are few."""
        rows, load = [], whole and len(names) <= LIVE_LOAD_MAX
        few = degraded_since_ms(self._broker)
        for text in names:
            topic, name = self._broker.topics.loaded.get(text), parse_topic(text)
            if topic is None and load and name.persistent and await self._broker.owners.serves(name):
                try:
                    topic = await self._broker.topics.get(name, create=False)
                except TopicNotFound:  # deleted since it was listed
                    continue
            problem = self._broker.problems.worst_of(text)
            if topic is not None:
                if topic.ledger.writing_to in few:
                    problem = worst([*([problem] if problem else []), Kind.FEWER_COPIES])
                rows.append(live_stats.live(topic, problem))
            else:
                rows.append(live_stats.not_loaded(text, problem) if name.persistent else live_stats.nothing(text))
        return rows

    async def _totals(self, namespace: str) -> LiveTotals:
        kept = self._kept.get(namespace)
        if kept is not None and monotonic() < kept.until:
            return kept.totals
        began = monotonic()
        loaded = self._broker.topics.loaded_of(namespace)
        counts = await self._broker.storage.meta.count_in_pages(namespace)
        unstored = sum(1 for topic in loaded if not topic.keeps_messages and topic.name.partition < 0)
        stored = sum(1 for topic in loaded if topic.keeps_messages)
        events = await self._broker.storage.meta.get_topic(f"{PERSISTENT}://{namespace}/{CHANGE_EVENTS}") is not None
        totals = LiveTotals(topics=counts.in_pages + unstored - events, at_rest=max(0, counts.stored - stored), stored=stored)
        slices = self._broker.topics.services.loops.slices(namespace.partition("/")[0])
        for start in range(0, len(loaded), TOPICS_A_SLICE):
            some = loaded[start : start + TOPICS_A_SLICE]
            await slices.spend(TOPIC_COST * len(some))
            for topic in some:
                row = live_stats.live(topic)
                for figure in _ADDED:
                    setattr(totals, figure, getattr(totals, figure) + getattr(row, figure))
        now = monotonic()
        self._kept = {each: kept for each, kept in self._kept.items() if kept.until > now}
        if len(self._kept) < NAMESPACES_KEPT_MAX:
            self._kept[namespace] = _Kept(totals, now + max(SUMS_KEPT_S_MIN, SUMS_KEPT_TIMES * (now - began)))
        return totals

    @answers(TOPICS_RANKED)
    async def ranked(self, request: TopicsRankedAsked) -> TopicsRanked:
        namespace = present_namespace(self._broker, request.namespace)
        figure = FIGURES.get(request.figure)
        if figure is None:
            raise InvalidValue(f"figure {request.figure!r} is none of {', '.join(FIGURES)}")
        words, prefix = request.words.lower(), len(f"/{namespace}/")
        slices = self._broker.topics.services.loops.slices(namespace.partition("/")[0])
        loaded, values = self._broker.topics.loaded_of(namespace), dict[str, float]()
        for start in range(0, len(loaded), TOPICS_A_SLICE):
            some = loaded[start : start + TOPICS_A_SLICE]
            await slices.spend(TOPIC_COST * len(some))
            for topic in some:
                text = topic.text if topic.name.partition < 0 else str(topic.name.base)
                if words and words not in text.partition(":/")[2][prefix:].lower():
                    continue
                values[text] = combined(request.figure, values.get(text, 0), figure(topic))
        for text in set(values) - set(without_system_topics(values)):
            del values[text]
        first = (await asyncio.to_thread(in_order, values, request.descending))[: request.limit]
        return TopicsRanked(
            topics=first,
            values=[values[text] for text in first],
            matching=len(values),
            figure=request.figure,
            descending=request.descending,
        )


_ADDED = [figure for figure in LiveTotals.__struct_fields__ if figure in FIGURES]


def _names(topic: PageTopic) -> list[str]:
    return _parts(topic.topic, topic.partitions) if topic.partitions else [topic.topic]


def _parts(text: str, partitions: int) -> list[str]:
    return [f"{text}-partition-{index}" for index in range(partitions)]
