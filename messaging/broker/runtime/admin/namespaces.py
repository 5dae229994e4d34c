"""Admin RPC: the topics of a namespace, by name."""

from __future__ import annotations

import structlog

from messaging.adminrpc.base import Empty
from messaging.adminrpc.methods import NAMES_SEARCH, NAMESPACES_PURGE, TOPICS_LIST, TOPICS_PAGE
from messaging.adminrpc.topics import (
    NamesSearch,
    SearchResult,
    SubscriptionFound,
    TopicNames,
    TopicsList,
    TopicsPage,
    TopicsPageAsked,
)
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.listing import page_of_topics
from messaging.errors import NotFound, PreconditionFailed, TopicNotFound
from messaging.protocol.names import parse_namespace, parse_topic
from messaging.storage.meta_store import namespace_of

log = structlog.get_logger("broker.topics")

SEARCH_MAX = 1_000  # names of a kind in one answer


def present_namespace(broker: Broker, text: str) -> str:
    """Raises `InvalidName`, and `NotFound` for a namespace in the recycle bin."""
    namespace = str(parse_namespace(text))
    if namespace in broker.access.view.recycled:
        raise NotFound(f"namespace {namespace} does not exist: create it first")
    return namespace


class NamespaceHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(TOPICS_LIST)
    async def list_topics(self, request: TopicsList) -> TopicNames:
        namespace = present_namespace(self._broker, request.namespace)
        names = await self._names(namespace)
        partitioned = {topic.name: topic.partitions for topic in await self._broker.storage.meta.list_partitioned(namespace)}
        return TopicNames(topics=names, partitioned=partitioned)

    @answers(TOPICS_PAGE)
    async def page_of_topics(self, request: TopicsPageAsked) -> TopicsPage:
        namespace = present_namespace(self._broker, request.namespace)
        topics, meta = self._broker.topics, self._broker.storage.meta
        loaded = topics.loaded_of(namespace)
        return await page_of_topics(meta, loaded, namespace, request.after, request.limit, request.words.lower())

    async def _names(self, namespace: str) -> list[str]:
        """Of all topics, those that are not persistent last."""
        return await self._broker.topic_names(namespace) + self._broker.topics.unstored_names(namespace)

    @answers(NAMES_SEARCH)
    async def search_names(self, request: NamesSearch) -> SearchResult:
        limit = min(request.limit, SEARCH_MAX)
        words = request.words.lower()
        topics: list[str] = []
        subscriptions: list[tuple[str, str]] = []
        tenants = [""] if request.everywhere else [name for name in request.tenants if name]
        for tenant in tenants:
            matches = await self._broker.storage.meta.search(tenant, words, limit)
            topics += [topic for topic in matches.topics if self._is_present(topic)]
            subscriptions += [(topic, name) for topic, name in matches.subscriptions if self._is_present(topic)]
            if len(topics) >= limit and len(subscriptions) >= limit:
                break
        within = None if request.everywhere else set(tenants)
        for topic in self._broker.non_persistent_topics:
            if within is None or topic.name.tenant in within:
                shown = str(topic.name.base)
                if not topic.ledger.recorded and words in shown.partition("://")[2].lower():
                    topics.append(shown)
                subscriptions += [
                    (shown, subscription.name)
                    for subscription in topic.subscriptions.table.values()
                    if words in subscription.name.lower()
                ]
        return SearchResult(
            topics=topics[:limit],
            subscriptions=[SubscriptionFound(topic=topic, name=name) for topic, name in dict.fromkeys(subscriptions)][:limit],
        )

    def _is_present(self, topic: str) -> bool:
        return namespace_of(topic) not in self._broker.access.view.recycled

    @answers(NAMESPACES_PURGE)
    async def purge(self, request: TopicsList) -> Empty:
        """Deletes what is left in a namespace that does not exist, and in its recycle bin. Raises `PreconditionFailed` for one that
        does, or that is in the recycle bin itself."""
        namespace = str(parse_namespace(request.namespace))
        partitioned = [topic.name for topic in await self._broker.storage.meta.list_partitioned(namespace)]
        for text in (*partitioned, *await self._names(namespace)):
            name = parse_topic(text)
            if self._is_kept(namespace):
                break
            if not await self._broker.owners.own([name]):  # that broker is asked, too
                continue
            try:
                if text in partitioned:
                    await self._broker.topics.partitioned.delete(name, force=True)
                else:
                    await self._broker.topics.delete(name, force=True)
            except TopicNotFound:
                continue  # a partition that went with its topic
            log.warning("namespace.leftover_deleted", topic=text)
        for text in await self._broker.storage.meta.topics_with_schemas(namespace):
            if not self._is_kept(namespace):
                await self._broker.schemas.delete(parse_topic(text), "", force=True)
        if not self._is_kept(namespace):
            self._broker.problems.refusals.namespace_deleted(namespace)
            await self._broker.topics.recycle_bin.purge_namespace(namespace)
        if self._is_kept(namespace):
            raise PreconditionFailed(f"namespace {namespace} still exists: delete its topics individually")
        return Empty()

    def _is_kept(self, namespace: str) -> bool:
        view = self._broker.access.view
        return namespace in view.namespaces or namespace in view.recycled
