"""`MetaStore` in memory: the plain statement of the interface; nothing survives the process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from messaging.storage.ledger_store import Fence, Fenced, Position
from messaging.storage.meta_store import (
    MetaConflict,
    PartitionedRecord,
    SearchResult,
    SubscriptionRecord,
    TopicRecord,
    creation_conflict,
    namespace_of,
    partitioned_name,
    partitioning_conflict,
    version_conflict,
)


class MemoryMetaStore:
    """Stop and start keep what was stored, as a restart of the process does with a durable one."""

    def __init__(self) -> None:
        self._epochs: dict[str, int] = {}
        self.newest_ledger_id = 0
        self._subscription_id = 0
        self._topics: dict[str, TopicRecord] = {}
        self._partitioned: dict[str, PartitionedRecord] = {}
        self._subscriptions: dict[tuple[str, str], SubscriptionRecord] = {}
        self._by_id: dict[int, tuple[str, str]] = {}
        self.values: dict[str, bytes] = {}
        self._schemas: dict[str, list[bytes]] = {}

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

    async def list_topics(self, namespace: str, *, after: str = "", limit: int = 1000) -> list[str]:
        return sorted(name for name in self._topics if name > after and namespace_of(name) == namespace)[:limit]

    async def count_topics(self, tenant: str) -> dict[str, int]:
        await asyncio.sleep(0)
        namespaces = map(namespace_of, self._topics)
        return dict(Counter(namespace for namespace in namespaces if namespace.startswith(f"{tenant}/")))

    async def count_subscriptions(self, tenant: str) -> dict[str, int]:
        await asyncio.sleep(0)
        namespaces = (namespace_of(topic) for topic, _ in self._subscriptions)
        return dict(Counter(namespace for namespace in namespaces if namespace.startswith(f"{tenant}/")))

    async def count_partitions(self, tenant: str) -> dict[str, int]:
        await asyncio.sleep(0)
        counts = Counter[str]()
        for record in self._partitioned.values():
            counts[namespace_of(record.name)] += record.partitions_reserved
        return {namespace: count for namespace, count in counts.items() if namespace.startswith(f"{tenant}/")}

    async def count_schemas(self, tenant: str) -> dict[str, int]:
        await asyncio.sleep(0)
        counts = Counter[str]()
        for name, versions in self._schemas.items():
            counts[namespace_of(name)] += len(versions)
        return {namespace: count for namespace, count in counts.items() if namespace.startswith(f"{tenant}/")}

    async def topic_records(self, tenant: str, *, after: str = "", limit: int = 200) -> list[TopicRecord]:
        await asyncio.sleep(0)
        names = sorted(name for name in self._topics if name.startswith(f"persistent://{tenant}/") and name > after)
        return [self._topics[name] for name in names[:limit]]

    async def list_all_topics(self, *, after: str = "", limit: int = 1000) -> list[str]:
        return sorted(name for name in self._topics if name > after)[:limit]

    async def search(self, tenant: str, words: str, limit: int) -> SearchResult:
        await asyncio.sleep(0)

        def is_of_it(topic: str) -> bool:
            return namespace_of(topic).startswith(f"{tenant}/") if tenant else True

        def has(name: str) -> bool:
            return words in name.partition("://")[2].lower()

        def shown(topic: str) -> str:
            return partitioned_name(topic) if partitioned_name(topic) in self._partitioned else topic

        topics = {shown(name) for name in (*self._topics, *self._partitioned) if is_of_it(name)}
        subscriptions = {(shown(topic), name) for topic, name in self._subscriptions if is_of_it(topic)}
        return SearchResult(
            sorted(name for name in topics if has(name))[:limit],
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
        return [record for record in self._partitioned.values() if record.growing_to or record.deleting]

    async def delete_partitioned(self, fence: Fence, name: str) -> None:
        self._check(fence)
        self._partitioned.pop(name, None)
        self._schemas.pop(name, None)

    async def list_partitioned(self, namespace: str) -> list[PartitionedRecord]:
        return [record for name, record in sorted(self._partitioned.items()) if namespace_of(name) == namespace]

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
        return sorted(topic for topic in self._schemas if namespace_of(topic) == namespace)

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
