"""`MetaStore` in memory: the plain statement of the interface; nothing survives the process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec import structs

from messaging.storage.ledger_store import Fence, Fenced, Position
from messaging.storage.meta_store import (
    NO_TIMES,
    MetaConflict,
    PageTopic,
    PartitionedRecord,
    SearchResult,
    SubscriptionRecord,
    TopicCounts,
    TopicRecord,
    by_relevance,
    creation_conflict,
    namespace_of,
    partitioned_name,
    partitioning_conflict,
    version_conflict,
)
from messaging.storage.recycled_topic import PREFIX, RecycledTopic, ValueKeys, is_place


class MemoryMetaStore:
    """Stop and start keep what was stored, as a restart of the process does with a durable one."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self.newest_ledger_id = 0
        self._subscription_id = 0
        self._topics: dict[str, TopicRecord] = {}
        self._partitioned: dict[str, PartitionedRecord] = {}
        self._subscriptions: dict[tuple[str, str], SubscriptionRecord] = {}
        self._restores = 0
        self._by_id: dict[int, tuple[str, str]] = {}
        self.values: dict[str, bytes] = {}
        self._schemas: dict[str, list[bytes]] = {}
        self._recycled: dict[str, RecycledTopic] = {}

    async def start(self) -> None:
        return None

    async def stop(self) -> None:
        return None

    def _check(self, fence: Fence) -> None:
        if self._epochs.get(fence.scope) != fence.epoch:
            raise Fenced(f"epoch {fence.epoch} does not own {fence.scope}")

    async def acquire(self, scope: str, *, after: int = 0) -> Fence:
        self._epochs[scope] = max(self._epochs.get(scope, 0), after) + 1
        return Fence(scope, self._epochs[scope])

    async def next_ledger_id(self, fence: Fence, *, after: int = 0) -> int:
        self._check(fence)
        self.newest_ledger_id = max(self.newest_ledger_id, after) + 1
        return self.newest_ledger_id

    async def first_free_ledger_id(self) -> int:
        return self.newest_ledger_id + 1

    async def get_topic(self, name: str) -> TopicRecord | None:
        await asyncio.sleep(0)
        return self._topics.get(name)

    async def cas_topic(self, fence: Fence, record: TopicRecord) -> TopicRecord:
        await asyncio.sleep(0)
        self._check(fence)
        stored = self._topics.get(record.name)
        if (stored.version if stored else 0) != record.version:
            raise MetaConflict(version_conflict(record.name, record.version))
        if record.version == 0 and (why := creation_conflict(record.name, self._partitioned.get)):
            raise MetaConflict(why)
        written = self._topics[record.name] = replace(record, version=record.version + 1)
        return written

    async def delete_topic(self, fence: Fence, name: str, *, values: Sequence[str] = ()) -> None:
        await asyncio.sleep(0)
        self._check(fence)
        for value in values:
            self.values.pop(value, None)
        self._topics.pop(name, None)
        self._schemas.pop(name, None)
        for key in [key for key in self._subscriptions if key[0] == name]:
            self._by_id.pop(self._subscriptions.pop(key).subscription_id)

    def _named(self) -> list[str]:
        """Without those in the recycle bin."""
        return [name for name in self._topics if not is_place(name)]

    async def list_topics(self, namespace: str, *, after: str = "", limit: int = 1000) -> list[str]:
        return sorted(name for name in self._named() if name > after and namespace_of(name) == namespace)[:limit]

    async def count_in_pages(self, namespace: str) -> TopicCounts:
        stored = [name for name in self._named() if namespace_of(name) == namespace and name.startswith("persistent://")]
        return TopicCounts(len(await self.page_of_topics(namespace, limit=1_000_000)), len(stored))

    async def page_of_topics(self, namespace: str, *, after: str = "", limit: int = 1000, words: str = "") -> list[PageTopic]:
        partitioned = {record.name: record.partitions for record in await self.list_partitioned(namespace)}
        stored = [name for name in self._named() if namespace_of(name) == namespace and name.startswith("persistent://")]
        plain = {name: 0 for name in stored if partitioned_name(name) not in partitioned}
        named = [pair for pair in sorted({**plain, **partitioned}.items()) if words in pair[0].split("/", 4)[4].lower()]
        return [PageTopic(name, count) for name, count in named if name > after][:limit]

    async def count_topics(self, tenant: str) -> dict[str, int]:
        await asyncio.sleep(0)
        namespaces = map(namespace_of, self._named())
        return dict(Counter(namespace for namespace in namespaces if namespace.startswith(f"{tenant}/")))

    async def count_subscriptions(self, tenant: str) -> dict[str, int]:
        await asyncio.sleep(0)
        namespaces = (namespace_of(topic) for topic, _ in self._subscriptions if not is_place(topic))
        return dict(Counter(namespace for namespace in namespaces if namespace.startswith(f"{tenant}/")))

    async def count_partitions(self, tenant: str) -> dict[str, int]:
        await asyncio.sleep(0)
        counts = Counter[str]()
        for record in self._partitioned.values():
            if not is_place(record.name):
                counts[namespace_of(record.name)] += record.partitions_reserved
        return {namespace: count for namespace, count in counts.items() if namespace.startswith(f"{tenant}/")}

    async def count_schemas(self, tenant: str) -> dict[str, int]:
        await asyncio.sleep(0)
        counts = Counter[str]()
        for name, versions in self._schemas.items():
            if not is_place(name):
                counts[namespace_of(name)] += len(versions)
        return {namespace: count for namespace, count in counts.items() if namespace.startswith(f"{tenant}/")}

    async def topic_records(self, tenant: str, *, after: str = "", limit: int = 200) -> list[TopicRecord]:
        await asyncio.sleep(0)
        of_tenant = (f"persistent://{tenant}/", f"{PREFIX}{tenant}/")
        names = sorted(name for name in self._topics if name.startswith(of_tenant) and name > after)
        return [self._topics[name] for name in names[:limit]]

    async def list_all_topics(self, *, after: str = "", limit: int = 1000) -> list[str]:
        return sorted(name for name in self._named() if name > after)[:limit]

    async def search(self, tenant: str, words: str, limit: int) -> SearchResult:
        await asyncio.sleep(0)

        def is_of_it(topic: str) -> bool:
            return not is_place(topic) and (namespace_of(topic).startswith(f"{tenant}/") if tenant else True)

        def has(name: str) -> bool:
            return words in name.partition("://")[2].lower()

        def shown(topic: str) -> str:
            return partitioned_name(topic) if partitioned_name(topic) in self._partitioned else topic

        topics = {shown(name) for name in (*self._topics, *self._partitioned) if is_of_it(name)}
        subscriptions = {(shown(topic), name) for topic, name in self._subscriptions if is_of_it(topic)}
        return SearchResult(
            sorted((name for name in topics if has(name)), key=by_relevance(words))[:limit],
            sorted(pair for pair in subscriptions if words in pair[1].lower())[:limit],
        )

    async def referenced_ledgers(self, *, after: str = "", limit: int = 1000) -> tuple[list[int], str | None]:
        await asyncio.sleep(0)
        names = sorted(name for name in self._topics if name > after)[:limit]
        ids = [ledger_id for name in names for ledger_id in self._topics[name].ledger_ids]
        return ids, names[-1] if len(names) == limit else None

    async def get_partitioned(self, name: str) -> PartitionedRecord | None:
        return self._partitioned.get(name)

    async def cas_partitioned(self, fence: Fence, record: PartitionedRecord) -> PartitionedRecord:
        await asyncio.sleep(0)
        self._check(fence)
        stored = self._partitioned.get(record.name)
        if (stored.version if stored else 0) != record.version:
            raise MetaConflict(version_conflict(record.name, record.version))
        if record.version == 0 and (why := partitioning_conflict(record.name, self._topics)):
            raise MetaConflict(why)
        written = self._partitioned[record.name] = replace(record, version=record.version + 1)
        return written

    async def unfinished_partitioned(self) -> list[PartitionedRecord]:
        return [record for name, record in self._partitioned.items() if record.unfinished and not is_place(name)]

    async def delete_partitioned(self, fence: Fence, name: str) -> None:
        self._check(fence)
        self._partitioned.pop(name, None)
        self._schemas.pop(name, None)

    async def list_partitioned(self, namespace: str) -> list[PartitionedRecord]:
        records = sorted(self._partitioned.items())
        return [record for name, record in records if namespace_of(name) == namespace and not is_place(name)]

    async def subscriptions(self, topic: str) -> list[SubscriptionRecord]:
        await asyncio.sleep(0)
        return [record for (owner, _), record in sorted(self._subscriptions.items()) if owner == topic]

    async def create_subscription(
        self, fence: Fence, topic: str, name: str, *, created_ms: int, mark_delete: Position, properties: dict[str, str]
    ) -> SubscriptionRecord:
        await asyncio.sleep(0)
        self._check(fence)
        if (topic, name) in self._subscriptions:
            raise MetaConflict(f"subscription {name} of {topic} exists")
        self._subscription_id += 1
        record = SubscriptionRecord(self._subscription_id, topic, name, created_ms, mark_delete, b"", dict(properties))
        self._subscriptions[topic, name] = record
        self._by_id[record.subscription_id] = (topic, name)
        return record

    async def set_subscription_properties(self, fence: Fence, topic: str, name: str, properties: dict[str, str]) -> None:
        await asyncio.sleep(0)
        self._check(fence)
        if (topic, name) in self._subscriptions:
            self._subscriptions[topic, name] = replace(self._subscriptions[topic, name], properties=dict(properties))

    async def delete_subscription(self, fence: Fence, topic: str, name: str) -> None:
        await asyncio.sleep(0)
        self._check(fence)
        record = self._subscriptions.pop((topic, name), None)
        if record is not None:
            del self._by_id[record.subscription_id]

    async def save_cursors(self, fence: Fence, states: list[tuple[int, Position, bytes]]) -> None:
        await asyncio.sleep(0)
        self._check(fence)
        for subscription_id, mark_delete, state in states:
            key = self._by_id.get(subscription_id)
            if key is not None:
                self._subscriptions[key] = replace(self._subscriptions[key], mark_delete=mark_delete, state=state)

    async def subscriptions_by_id(self, ids: Iterable[int]) -> list[SubscriptionRecord]:
        await asyncio.sleep(0)
        return [self._subscriptions[self._by_id[each]] for each in ids if each in self._by_id]

    async def existing_subscriptions(self, ids: Iterable[int]) -> set[int]:
        await asyncio.sleep(0)
        return {subscription_id for subscription_id in ids if subscription_id in self._by_id}

    async def schema_versions(self, topic: str) -> list[bytes]:
        return list(self._schemas.get(topic, ()))

    async def schema_version(self, topic: str, version: int) -> bytes | None:
        stored = self._schemas.get(topic, [])
        return stored[version] if 0 <= version < len(stored) else None

    async def schema_version_sizes(self, topic: str) -> list[int]:
        return [len(record) for record in self._schemas.get(topic, ())]

    async def topics_with_schemas(self, namespace: str) -> list[str]:
        return sorted(topic for topic in self._schemas if namespace_of(topic) == namespace and not is_place(topic))

    async def add_schema_version(self, fence: Fence, topic: str, version: int, record: bytes) -> None:
        await asyncio.sleep(0)
        self._check(fence)
        if version != len(self._schemas.get(topic, ())):
            raise MetaConflict(f"the schema of {topic} has {len(self._schemas.get(topic, ()))} versions")
        self._schemas.setdefault(topic, []).append(record)

    async def delete_schema_versions(self, fence: Fence, topic: str) -> None:
        self._check(fence)
        self._schemas.pop(topic, None)

    async def get_value(self, key: str) -> bytes | None:
        return self.values.get(key)

    async def put_value(self, fence: Fence, key: str, value: bytes) -> None:
        self._check(fence)
        self.values[key] = bytes(value)

    async def delete_value(self, fence: Fence, key: str) -> None:
        self._check(fence)
        self.values.pop(key, None)

    # --- the recycle bin

    def _move(self, name: str, new: str, values: ValueKeys) -> None:
        if name in self._topics:
            self._topics[new] = replace(self._topics.pop(name), name=new)
        if name in self._partitioned:
            self._partitioned[new] = replace(self._partitioned.pop(name), name=new)
        if name in self._schemas:
            self._schemas[new] = self._schemas.pop(name)
        for key in [key for key in self._subscriptions if key[0] == name]:
            record = self._subscriptions[new, key[1]] = replace(self._subscriptions.pop(key), topic=new)
            self._by_id[record.subscription_id] = (new, key[1])
        for value in values:
            if value(name) in self.values:
                self.values[value(new)] = self.values.pop(value(name))

    async def recycle(self, fence: Fence, name: str, record: RecycledTopic, *, values: ValueKeys, listed: bool) -> None:
        await asyncio.sleep(0)
        self._check(fence)
        place = record.place_of(name)
        self._move(name, place, values)
        if place in self._partitioned:
            self._partitioned[place] = replace(self._partitioned[place], deleting=False, recycling=None)
        if listed:
            topics = [self._topics[text] for text in await self.recycled_places(within=record.places, limit=1 << 30)]
            size_bytes = sum(ledger.length_bytes for topic in topics for ledger in topic.ledgers)
            self._recycled[record.recycle_id] = structs.replace(record, topics=len(topics), stored_bytes=size_bytes)

    async def restores(self) -> int:
        await asyncio.sleep(0)
        return self._restores

    async def restore(self, fence: Fence, name: str, record: RecycledTopic, *, values: ValueKeys, listed: bool) -> None:
        await asyncio.sleep(0)
        self._check(fence)
        place = record.place_of(name)
        stored = self._recycled.get(record.recycle_id)
        if listed and (stored is None or stored.purging):
            raise MetaConflict(f"{record.recycle_id} is not in the recycle bin any more")
        if place in self._partitioned:
            why = f"topic {name} exists already" if name in self._partitioned else partitioning_conflict(name, self._topics)
        else:
            why = creation_conflict(name, self._partitioned.get)
        if not why and name in self._topics:
            why = f"topic {name} exists already"
        if not why and name in self._schemas:
            why = f"topic {name} was given a schema after it had been deleted"
        if why:
            raise MetaConflict(why)
        if listed and place not in self._partitioned:
            del self._recycled[record.recycle_id]
        for key in [key for key in self._subscriptions if key[0] == name]:
            self._by_id.pop(self._subscriptions.pop(key).subscription_id)
        for value in values:
            self.values.pop(value(name), None)
        self._move(place, name, values)
        if name in self._topics:
            back = self._topics[name]
            self._topics[name] = replace(back, version=back.version + 1, idle_since=NO_TIMES)
        if name in self._partitioned:
            parent = self._partitioned[name]
            self._partitioned[name] = replace(parent, version=parent.version + 1, restoring=record)
        self._restores += 1

    async def end_restore(self, fence: Fence, name: str, record: RecycledTopic) -> PartitionedRecord:
        self._check(fence)
        parent = self._partitioned.get(name)
        if parent is None or parent.restoring is None or parent.restoring.recycle_id != record.recycle_id:
            raise MetaConflict(f"{name} is not being restored")
        self._recycled.pop(record.recycle_id, None)
        written = self._partitioned[name] = replace(parent, version=parent.version + 1, restoring=None)
        return written

    async def get_recycled(self, recycle_id: str) -> RecycledTopic | None:
        return self._recycled.get(recycle_id)

    async def list_recycled(self, namespace: str, *, after: str = "", limit: int = 1000) -> list[RecycledTopic]:
        records = sorted(self._recycled.items())
        return [each for key, each in records if key > after and each.namespace == namespace and not each.purging][:limit]

    async def expired_recycled(self, now_ms: int, limit: int) -> list[RecycledTopic]:
        records = sorted(self._recycled.values(), key=lambda each: each.expires_ms)
        return [each for each in records if each.expires_ms <= now_ms][:limit]

    async def count_recycled(self, tenant: str) -> int:
        return sum(each.topics for each in self._recycled.values() if each.namespace.startswith(f"{tenant}/"))

    async def count_within(self, places: str) -> tuple[int, int]:
        subscriptions = sum(topic.startswith(places) for topic, _ in self._subscriptions)
        return subscriptions, sum(len(versions) for topic, versions in self._schemas.items() if topic.startswith(places))

    async def recycled_places(self, *, within: str = PREFIX, after: str = "", limit: int = 1000) -> list[str]:
        return sorted(name for name in self._topics if name.startswith(within) and name > after)[:limit]

    async def begin_purge(self, fence: Fence, recycle_id: str) -> None:
        self._check(fence)
        if recycle_id not in self._recycled:
            raise MetaConflict(f"{recycle_id} is not in the recycle bin any more")
        self._recycled[recycle_id] = structs.replace(self._recycled[recycle_id], expires_ms=0)

    async def forget_recycled(self, fence: Fence, record: RecycledTopic) -> None:
        self._check(fence)
        place = record.place_of(record.name)
        self._partitioned.pop(place, None)
        self._schemas.pop(place, None)
        self._recycled.pop(record.recycle_id, None)
