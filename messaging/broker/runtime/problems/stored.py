"""Subscriptions that nobody consumes of topics that nobody used since the broker's start: read once from the metadata."""

from __future__ import annotations

import asyncio

from messaging.broker.runtime.problems.watch import ProblemWatch, stored_problem
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol.names import TopicName, parse_topic
from messaging.protocol.system_topics import is_system_topic
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.maintenance_due import oldest_open
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import SubscriptionRecord, TopicRecord

PAGE_TOPICS = 200
UNKNOWN_MAX = 100_000  # topics


class StoredProblems:
    def __init__(self, watch: ProblemWatch, topics: Topics, storage: Storage, cursors: CursorLog) -> None:
        self._watch = watch
        self._topics = topics
        self._storage = storage
        self._cursors = cursors
        self._used = set[str]()  # topics that were loaded or deleted while this goes on
        self._unknown: dict[str, set[int]] = {}  # tenant -> hashes of the names of topics that only loading tells of
        self.done = False

    def loaded(self, topic: Topic) -> None:
        self.deleted(topic.text)

    def deleted(self, topic: str) -> None:
        if not self.done:
            self._used.add(topic)
        tenant = topic.partition("://")[2].partition("/")[0]
        self._unknown.get(tenant, set()).discard(hash(topic))

    def unknown(self, tenant: str) -> int:
        """Of how many topics it is not known whether something waits there."""
        return len(self._unknown.get(tenant, ()))

    async def read(self) -> None:
        """Once after the start. Loads no topic. Raises `StoreError`."""
        meta, after = self._storage.meta, ""
        while True:
            names = await meta.list_all_topics(after=after, limit=PAGE_TOPICS)
            for text in names:
                name = parse_topic(text)
                if text in self._used or text in self._topics.loaded or not name.persistent or is_system_topic(name):
                    continue
                record = await meta.get_topic(text)
                if record is not None and record.ledgers:
                    subscriptions = await meta.subscriptions(text)
                    if text not in self._used and text not in self._topics.loaded:
                        self._judge(name, record, subscriptions)
            if len(names) < PAGE_TOPICS:
                break
            after = names[-1]
            await asyncio.sleep(0)
        self.done = True
        self._used.clear()

    def _judge(self, name: TopicName, record: TopicRecord, subscriptions: list[SubscriptionRecord]) -> None:
        problems, unknown = [], False
        for subscription in subscriptions:
            first = oldest_open(record.ledgers, subscription.mark_delete)
            if first is None:
                continue
            # Of a cursor that a crash left, and of the ledger in which it ended, only loading tells where they stand.
            if not self._cursors.is_saved(subscription.subscription_id) or first[0].last_entry is None:
                unknown = True
            else:
                since_ms = record.idle_since.get(subscription.name)
                problems.append(stored_problem(name, subscription.name, since_ms))
        self._watch.put(record.name, name.tenant, problems)
        if unknown and sum(map(len, self._unknown.values())) < UNKNOWN_MAX:
            self._unknown.setdefault(name.tenant, set()).add(hash(record.name))
