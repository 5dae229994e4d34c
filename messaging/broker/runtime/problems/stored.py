"""Subscriptions that nobody consumes of topics that nobody used since the broker's start: read once from the metadata.

Of several brokers the owner of a topic's bundle tells of it, and nobody else: whoever had it before does not know who consumes it
now. So they are read as a bundle comes, and forgotten as it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from messaging.broker.runtime.ownership.owners import OwnedNamespaces
from messaging.broker.runtime.problems.known import TopicProblems
from messaging.broker.runtime.problems.topic_look import stored_problem
from messaging.broker.runtime.problems.watch import ProblemWatch
from messaging.broker.runtime.topics.registry import Topics
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.protocol.bundles import position_of
from messaging.protocol.names import TopicName, parse_topic
from messaging.protocol.system_topics import is_system_topic
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.maintenance_due import oldest_open
from messaging.storage.managed.storage import Storage
from messaging.storage.meta_store import SubscriptionRecord, TopicRecord, namespace_of, tenant_of

PAGE_TOPICS = 200
UNKNOWN_MAX = 100_000  # topics
TOPIC_COST, SUBSCRIPTION_COST = 40, 20  # to judge one, in units of `core/turns/command_costs.py`
LEDGERS_A_UNIT = 5  # that are walked over for it


class StoredProblems:
    def __init__(
        self,
        watch: ProblemWatch,
        topics: Topics,
        storage: Storage,
        cursors: CursorLog,
        owned: Callable[[], OwnedNamespaces],
    ) -> None:
        self._watch = watch
        self._topics = topics
        self._storage = storage
        self._cursors = cursors
        self._owned = owned
        self._used = set[str]()  # topics that were loaded or deleted while this goes on
        # namespace -> hashes of the names of topics that only loading tells of, and their places in bundles; by tenant
        self._unknown: dict[str, dict[str, dict[int, int]]] = {}
        self._unknown_topics = 0
        self.done = False

    def loaded(self, topic: Topic) -> None:
        self.deleted(topic.text)

    def deleted(self, topic: str) -> None:
        if not self.done:
            self._used.add(topic)
        namespace = namespace_of(topic)
        topics = self._unknown.get(namespace.partition("/")[0], {}).get(namespace)
        if topics is not None and hash(topic) in topics:
            del topics[hash(topic)]
            self._unknown_topics -= 1

    def unknown(self, tenant: str, namespaces: Collection[str] | None = None) -> int:
        """Of how many topics it is not known whether something waits there: of the tenant, or of some of its namespaces."""
        of_tenant = self._unknown.get(tenant, {})
        return sum(len(of_tenant.get(namespace, ())) for namespace in (of_tenant if namespaces is None else namespaces))

    def tenants_with_unknown(self) -> list[str]:
        return list(self._unknown)

    async def read(self) -> None:
        """Once after the start. Loads no topic. Raises `StoreError`."""
        meta, after = self._storage.meta, ""
        while True:
            names = await meta.list_all_topics(after=after, limit=PAGE_TOPICS)
            await self.look_at(names, self._owned())
            if len(names) < PAGE_TOPICS:
                break
            after = names[-1]
        self.done = True
        self._used.clear()

    async def look_at(self, names: list[str], owned: OwnedNamespaces) -> None:
        """Those of them that are this broker's, and of which nothing is known. Raises `StoreError`."""
        meta = self._storage.meta
        slices: dict[str, TurnSlices] = {}
        for text in names:
            name = parse_topic(text)
            if name.tenant not in slices:
                slices[name.tenant] = self._topics.services.loops.slices(name.tenant)
            await slices[name.tenant].spend(TOPIC_COST)
            is_used = text in self._used or text in self._topics.loaded or bool(self._watch.known.of_topic(text))
            if is_used or not name.persistent or is_system_topic(name) or not owned.has(text):
                continue
            record = await meta.get_topic(text)
            if record is not None and record.ledgers:
                await self._judge(name, record, await meta.subscriptions(text), slices[name.tenant])

    def keep(self, owned: OwnedNamespaces) -> None:
        """Bundles went to other brokers: these tell of what nobody uses there."""
        for topic in self._watch.known.topics():
            if topic not in self._topics.loaded and not owned.has(topic):
                self._watch.known.forget(topic, tenant_of(topic))
        for of_tenant in self._unknown.values():
            for namespace, topics in of_tenant.items():
                for key in [key for key, position in topics.items() if not owned.has_at(namespace, position)]:
                    del topics[key]
                    self._unknown_topics -= 1

    async def _judge(
        self, name: TopicName, record: TopicRecord, subscriptions: list[SubscriptionRecord], slices: TurnSlices
    ) -> None:
        most_urgent, unknown = TopicProblems(), False
        for subscription in subscriptions:
            await slices.spend(SUBSCRIPTION_COST + len(record.ledgers) // LEDGERS_A_UNIT)
            first = oldest_open(record.ledgers, subscription.mark_delete)
            if first is None:
                continue
            # Of a cursor that a crash left, and of the ledger in which it ended, only loading tells where they stand.
            if not self._cursors.is_saved(subscription.subscription_id) or first[0].last_entry is None:
                unknown = True
            else:
                since_ms = record.idle_since.get(subscription.name)
                most_urgent.add(stored_problem(name, subscription.name, since_ms))
        if record.name in self._used or record.name in self._topics.loaded:
            return  # meanwhile
        self._watch.known.put(record.name, name.tenant, most_urgent)
        if unknown and self._unknown_topics < UNKNOWN_MAX:
            namespace = str(name.namespace)
            topics = self._unknown.setdefault(name.tenant, {}).setdefault(namespace, {})
            self._unknown_topics += hash(record.name) not in topics
            topics[hash(record.name)] = position_of(record.name)
