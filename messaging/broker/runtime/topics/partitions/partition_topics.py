"""Creates the topics behind partitions, with the subscriptions that they get from the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from messaging.broker.runtime.topics.limits.topic_reservations import TopicReservations
from messaging.broker.runtime.topics.services import TopicServices
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import all_in_slices
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import EARLIEST
from messaging.storage.meta_store import MetaConflict, MetaStore, TopicRecord
from messaging.storage.recycled_topic import RecycledTopic, Recycling

# Of one partition, in units of `core/turns/command_costs.py`.
MAKE_COST, DELETE_COST, READ_COST = 500, 1_000, 100

Carried = dict[str, dict[str, str]]  # subscription -> its properties


class Bin(Protocol):
    """The recycle bin (`topics/recycle_bin.py`)."""

    async def take(self, name: str, record: TopicRecord | None, into: Recycling) -> None: ...

    async def bring_back(self, name: TopicName, record: RecycledTopic, *, listed: bool) -> None: ...

    def room_for(self, name: TopicName, record: RecycledTopic) -> AbstractAsyncContextManager[None]: ...


class TopicStore(Protocol):
    """Creates and deletes the topics behind the partitions; implemented by `registry.py`."""

    services: TopicServices
    meta: MetaStore
    loaded: dict[str, Topic]
    reservations: TopicReservations
    on_deleted: list[Callable[[str], None]]

    @property
    def recycle_bin(self) -> Bin: ...

    async def get(self, name: TopicName, *, create: bool) -> Topic: ...

    async def exists(self, name: TopicName) -> bool: ...

    async def delete(self, name: TopicName, *, force: bool, into: Recycling | None = None) -> None: ...

    def list_changed(self, name: TopicName, exists: bool) -> None: ...


class PartitionTopics:
    def __init__(self, topics: TopicStore) -> None:
        self._topics = topics
        self._meta = topics.meta
        self._fence = topics.services.stores.storage.fence

    async def subscriptions(self, name: TopicName, partitions: int, known: Carried) -> Carried:
        """The durable subscriptions of the first partitions, without those in `known`."""
        properties: Carried = {}

        async def look(index: int) -> None:
            records = await self._meta.subscriptions(str(name.of_partition(index)))
            properties.update((record.name, record.properties) for record in records if record.name not in known)

        slices = self._topics.services.loops.slices(name.tenant)
        await all_in_slices(slices, range(partitions), READ_COST, look)
        return properties

    async def make(self, name: TopicName, indexes: Sequence[int], subscriptions: Carried) -> None:
        """Creates the subscriptions before their topic, so nobody can open a topic that lacks them. Existing ones are kept."""

        async def make(index: int) -> None:
            text, now_ms = str(name.of_partition(index)), self._topics.services.clock_ms()
            for subscription, properties in subscriptions.items():
                try:
                    await self._meta.create_subscription(
                        self._fence, text, subscription, created_ms=now_ms, mark_delete=EARLIEST, properties=properties
                    )
                except MetaConflict:
                    pass
            if not subscriptions:
                try:
                    await self._meta.cas_topic(self._fence, TopicRecord(text, created_ms=now_ms))
                except MetaConflict:
                    return
                self._topics.list_changed(name.of_partition(index), True)

        slices = self._topics.services.loops.slices(name.tenant)
        await all_in_slices(slices, indexes, MAKE_COST * max(1, len(subscriptions)), make)
        self._topics.services.limits.subscription_counts.made_elsewhere(name.tenant)
