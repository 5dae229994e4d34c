"""Partitioned topics: creating, growing and deleting them so that neither a crash nor a concurrent request leaves one half done.

A change first records its intent in the partitioned topic's record, then acts, then records the result. Until the result is
recorded, a growth is invisible, a deletion keeps clients from creating the partitions again, and a topic that comes back from the
recycle bin is not found. A change interrupted by a crash is completed at the next start, or by the next change.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog

from messaging.broker.runtime.topics.partitions.partition_topics import DELETE_COST, Carried, PartitionTopics, TopicStore
from messaging.broker.runtime.topics.services import refusal_of
from messaging.broker.runtime.turn_slices import all_in_slices
from messaging.clock import boottime_ms
from messaging.errors import Conflict, FewerPartitions, InvalidValue, MagnetarError, NotAllowed, PreconditionFailed, TopicNotFound
from messaging.keyed_lock import keyed_lock
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.ledger_store import EARLIEST, StoreError
from messaging.storage.meta_store import MetaConflict, PartitionedRecord, partitioned_name
from messaging.storage.recycled_topic import RecycledTopic, Recycling

log = structlog.get_logger("broker.partitions")

RETURN_MS = 120_000  # how long clients of a deleted topic may keep trying to open its partitions again
DELETED_MAX = 10_000  # deleted topics that are remembered for that long, the newest ones


class Partitions:
    def __init__(self, topics: TopicStore) -> None:
        self._topics = topics
        self._meta = topics.meta
        self._fence = topics.services.stores.storage.fence
        self._parts = PartitionTopics(topics)
        self._owners = topics.services.owners
        self._elsewhere = topics.services.partitions_elsewhere
        self._partitions_max = topics.services.limits.partitions_max
        self._ceiling = topics.services.limits.ceilings.partitions
        self._under_way: dict[str, asyncio.Future[None]] = {}
        self._deleted: OrderedDict[str, int] = OrderedDict()  # when, oldest first
        self._followers: dict[str, set[Callable[[int], None]]] = {}
        self.on_grown: list[Callable[[TopicName, int], None]] = []

    async def get(self, name: TopicName) -> PartitionedRecord | None:
        """None if no partitioned topic has this name. Raises `TopicNotFound` for one that is being deleted or restored."""
        record = await self._meta.get_partitioned(str(name))
        if record is not None and (record.deleting or record.restoring):
            raise TopicNotFound(f"partitioned topic {name} is being {'deleted' if record.deleting else 'restored'}")
        return record

    async def check_plain(self, name: TopicName) -> None:
        """Raises `NotAllowed` if a partitioned topic has this name."""
        if await self.get(name) is not None:
            raise NotAllowed(f"{name} is a partitioned topic: use its partitions, {name}-partition-0 and so on")

    def deleted_lately(self, name: TopicName) -> bool:
        """Whether clients of a partitioned topic of this name, which was deleted, may still be trying to open its partitions."""
        return boottime_ms() - self._deleted.get(str(name), -RETURN_MS) < RETURN_MS

    async def includes(self, name: TopicName) -> bool:
        """Whether this is a partition of a partitioned topic. Raises `TopicNotFound` for one that the topic does not have, or had
        before it was deleted."""
        if name.partition < 0:
            return False
        parent = await self.get(name.base)
        if parent is None and self.deleted_lately(name.base):
            raise TopicNotFound(f"{name}: the partitioned topic {name.base} was deleted")
        if parent is not None and name.partition >= parent.partitions:
            raise TopicNotFound(f"{name}: the topic has {parent.partitions} partitions, numbered from 0")
        return parent is not None

    def follow(self, name: TopicName, grown: Callable[[int], None]) -> None:
        """From now on `grown` is told how many partitions there are whenever there are more."""
        self._followers.setdefault(str(name), set()).add(grown)

    def has_grown(self, name: TopicName, partitions: int) -> None:
        for tell in list(self._followers.get(str(name), ())):
            tell(partitions)

    def unfollow(self, name: TopicName, grown: Callable[[int], None]) -> None:
        """Idempotent."""
        followers = self._followers.get(str(name), set())
        followers.discard(grown)
        if not followers:
            self._followers.pop(str(name), None)

    async def count(self, name: TopicName, *, creates: bool, partitions: int = 0) -> int:
        """The number of partitions. 0 for a plain topic, or for a missing one if first use `creates` topics here; unless those get
        `partitions`: then it is created. Raises `TopicNotFound`, and what creating raises.
        """
        record = await self.get(name)
        if record is not None:
            return record.partitions
        if await self._topics.exists(name):
            return 0
        if name.partition >= 0:
            parent = await self.get(name.base)
            if parent is not None and name.partition < parent.partitions:
                return 0
            if parent is not None:
                raise TopicNotFound(f"{name}: the topic has {parent.partitions} partitions")
        if not creates:
            raise TopicNotFound(f"topic {name} does not exist: create it, or allow auto-creation in the namespace")
        if not partitions or name.partition >= 0:
            return 0
        self._topics.reservations.check_rate(name)
        try:
            await self.create(name, partitions, {})
        except Conflict:  # another client was faster
            return await self.count(name, creates=True)
        return partitions

    async def create(self, name: TopicName, partitions: int, properties: dict[str, str]) -> None:
        """Creates the partitioned topic and all its partitions."""
        text = str(name)
        if not 1 <= partitions <= self._partitions_max:
            raise InvalidValue(
                f"{partitions} partitions were requested: use 1 to partitions_per_topic_max = {self._partitions_max}"
            )
        self.check_count(name, partitions)
        if name.partition >= 0:
            raise PreconditionFailed(f"{text} has the name of a partition: choose another name")
        async with self._alone(name):
            record = PartitionedRecord(text, partitions, created_ms=self._topics.services.clock_ms(), properties=properties)
            async with self._topics.reservations.reserved(name, partitions), self._ceiling.room(name, partitions):
                try:
                    await self._meta.cas_partitioned(self._fence, record)
                except MetaConflict as error:
                    raise Conflict(f"{error}: choose another name") from None
                self._deleted.pop(text, None)
                await self._parts.make(name, range(partitions), {})

    async def grow(self, name: TopicName, partitions: int) -> None:
        """Adds partitions. Before they become visible, they get every durable subscription of the others, from the beginning."""
        async with self._alone(name):
            record = await self.get(name)
            if record is None:
                raise Conflict(f"topic {name} is not a partitioned topic: create one first")
            if record.growing_to:
                record = await self._finish_growth(name, record)
            if partitions < record.partitions:
                raise FewerPartitions(f"{name} has {record.partitions} partitions: the number can only be increased")
            self.check_count(name, partitions)
            if partitions > record.partitions:
                more = partitions - record.partitions
                async with self._topics.reservations.reserved(name, more), self._ceiling.room(name, more):
                    await self._finish_growth(name, await self._store(replace(record, growing_to=partitions)))

    def check_count(self, name: TopicName, partitions: int) -> None:
        """Raises `PreconditionFailed` where a topic may not have so many."""
        asked = f"{partitions} partitions were requested"
        if partitions > self._partitions_max:
            raise PreconditionFailed(f"{asked}: partitions_per_topic_max = {self._partitions_max}")
        limit, level = self._topics.services.policies.resolved("max_partitions_per_topic", name)
        if limit and partitions > limit:
            raise PreconditionFailed(
                f"{asked}: max_partitions_per_topic = {limit}, set on the {level}; use fewer, or raise it there"
            )

    async def delete(self, name: TopicName, *, force: bool, recycled: RecycledTopic | None = None) -> RecycledTopic | None:
        """`recycled`: it goes to the recycle bin; None: for good. Returns where it went: if an earlier deletion was cut off, that
        has decided. Raises `TopicNotFound`, `Conflict` for a plain topic, or `PreconditionFailed` while clients are connected to a
        partition (unless `force`): then nothing is deleted.
        """
        async with self._alone(name):
            record = await self._meta.get_partitioned(str(name))
            if record is None:
                if await self._topics.exists(name):
                    raise Conflict(f"topic {name} is not a partitioned topic: delete it as a plain one")
                raise TopicNotFound(f"partitioned topic {name} does not exist")
            if record.restoring is not None:
                record = await self._finish_restoring(name, record, record.restoring)
            if not record.deleting:
                if not force:
                    await self._check_unused(name, record)
                record = await self._store(replace(record, deleting=True, recycling=recycled))
                if not force:  # checked again, now that no new client can attach
                    try:
                        await self._check_unused(name, record)
                    except MagnetarError:
                        await self._store(replace(record, deleting=False, recycling=None))
                        raise
            await self._finish_deletion(name, record)
            return record.recycling

    async def restore(self, name: TopicName, recycled: RecycledTopic) -> None:
        """Raises `Conflict` where a topic has the name, `PreconditionFailed` where there may be no more."""
        async with self._alone(name):
            record = await self._meta.get_partitioned(str(name))
            if record is None or record.restoring is None or record.restoring.recycle_id != recycled.recycle_id:
                partitions = recycled.partitions
                recycle_bin = self._topics.recycle_bin
                async with recycle_bin.room_for(name, recycled), self._ceiling.room(name, partitions):
                    try:
                        await recycle_bin.bring_back(name, recycled, listed=True)
                    except MetaConflict as error:
                        raise Conflict(f"{error}: delete it, then restore {name}") from None
                    record = await self._meta.get_partitioned(str(name))
                    assert record is not None
                    await self._finish_restoring(name, record, recycled)
            else:
                await self._finish_restoring(name, record, recycled)

    async def create_missing(self, name: TopicName) -> None:
        """Creates the partitions that do not exist, with the durable subscriptions of the others."""
        async with self._alone(name):
            record = await self.get(name)
            if record is None:
                raise TopicNotFound(f"partitioned topic {name} does not exist")
            carried = await self._parts.subscriptions(name, record.partitions, {})
            missing = [index for index in range(record.partitions) if not await self._topics.exists(name.of_partition(index))]
            async with self._topics.reservations.reserved(name, len(missing)):
                if carried:
                    await self._parts.make(name, missing, carried)
                await self._parts.make(name, missing, {})

    async def change_properties(self, name: TopicName, change: Callable[[dict[str, str]], dict[str, str]]) -> dict[str, str]:
        async with self._alone(name):
            record = await self.get(name)
            if record is None:
                raise TopicNotFound(f"partitioned topic {name} does not exist")
            return (await self._store(replace(record, properties=change(record.properties)))).properties

    async def delete_if_empty(self, name: TopicName) -> bool:
        """Deletes a partitioned topic none of whose partitions exists, unless one is created meanwhile."""
        async with self._alone(name):
            record = await self._meta.get_partitioned(str(name))
            if record is None or record.unfinished or await self._has_partitions(name):
                return False
            record = await self._store(replace(record, deleting=True))
            if await self._has_partitions(name):
                await self._store(replace(record, deleting=False))
                return False
            await self._forget(name, record)
            return True

    async def _has_partitions(self, name: TopicName) -> bool:
        prefix = after = f"{name}-partition-"
        while page := await self._meta.list_topics(str(name.namespace), after=after, limit=100):
            if any(partitioned_name(text) == str(name) for text in page):
                return True
            after = page[-1]
            if not after.startswith(prefix):
                return False
        return False

    async def finish_interrupted(self) -> None:
        """Called at startup: completes the changes that the last run left unfinished. Raises the last error if some could not be
        completed.
        """
        failure: MagnetarError | None = None
        for record in await self._meta.unfinished_partitioned():
            name = parse_topic(record.name)
            if not await self._owners.own([name]):
                continue
            try:
                async with self._alone(name):
                    now = await self._meta.get_partitioned(record.name)
                    if now is not None and now.deleting:
                        await self._finish_deletion(name, now)
                    elif now is not None and now.restoring is not None:
                        await self._finish_restoring(name, now, now.restoring)
                    elif now is not None and now.growing_to:
                        await self._finish_growth(name, now)
            except MagnetarError as error:
                log.error("partitions.not_finished", topic=record.name, error=error.message)
                failure = error
            else:
                log.info("partitions.finished", topic=record.name, deleted=record.deleting, partitions=record.growing_to)
        if failure is not None:
            raise failure

    # --- the steps

    @asynccontextmanager
    async def _alone(self, name: TopicName) -> AsyncIterator[None]:
        """Serialises changes of a partitioned topic. Errors of the store are raised as `NotReady` or `StorageFailed`."""
        async with keyed_lock(self._under_way, str(name)):
            try:
                yield
            except StoreError as error:
                raise refusal_of(error, f"partitioned topic {name} cannot be changed") from error

    async def _store(self, record: PartitionedRecord) -> PartitionedRecord:
        try:
            return await self._meta.cas_partitioned(self._fence, record)
        except MetaConflict:
            raise Conflict(f"partitioned topic {record.name} was changed by another request: check it and try again") from None

    async def _finish_growth(self, name: TopicName, record: PartitionedRecord) -> PartitionedRecord:
        new = range(record.partitions, record.growing_to)
        carried: Carried = {}
        while more := await self._parts.subscriptions(name, record.partitions, carried):  # again: there may be more
            await self._parts.make(name, new, more)
            carried |= more
        await self._parts.make(name, new, {})
        grown = await self._store(replace(record, partitions=record.growing_to, growing_to=0))
        self.has_grown(name, grown.partitions)  # now, whatever fails after it
        for announce in self.on_grown:
            announce(name, grown.partitions)
        for late, properties in (await self._parts.subscriptions(name, record.partitions, carried)).items():
            for partition in map(name.of_partition, new):
                if not await self._owners.own([partition]):
                    await self._elsewhere.subscribe(partition, late, properties)
                    continue
                topic = await self._topics.get(partition, create=False)
                try:
                    await topic.subscriptions.create(late, EARLIEST, properties)
                except MetaConflict:
                    pass  # created by its consumer in the meantime
        return grown

    async def _check_unused(self, name: TopicName, record: PartitionedRecord) -> None:
        self._check_loaded(name, record)
        await self._elsewhere.check_unused(name, [name.of_partition(index) for index in range(record.partitions)])

    def _check_loaded(self, name: TopicName, record: PartitionedRecord) -> None:
        for index in range(record.partitions):
            loaded = self._topics.loaded.get(str(name.of_partition(index)))
            if loaded is not None:
                loaded.check_unused()

    async def check_unused_here(self, name: TopicName) -> None:
        """For the owner of the topic. Raises `PreconditionFailed` while clients are connected to a partition that is here."""
        record = await self._meta.get_partitioned(str(name))
        if record is not None:
            self._check_loaded(name, record)

    async def delete_here(self, name: TopicName) -> None:
        """For the owner of the topic: deletes the partitions that are served here, if its record says that it is being deleted."""
        record = await self._meta.get_partitioned(str(name))
        if record is not None and record.deleting:
            await self._delete_own(name, record)

    async def _finish_deletion(self, name: TopicName, record: PartitionedRecord) -> None:
        await self._elsewhere.delete(name, [name.of_partition(index) for index in range(record.partitions_reserved)])
        await self._delete_own(name, record)
        await self._forget(name, record)

    async def _delete_own(self, name: TopicName, record: PartitionedRecord) -> None:
        into = None if record.recycling is None else Recycling(record.recycling, listed=False)

        async def remove(partition: TopicName) -> None:
            try:
                await self._topics.delete(partition, force=True, into=into)
            except TopicNotFound:
                if into is None:  # an interrupted growth may have left its subscriptions
                    await self._meta.delete_topic(self._fence, str(partition))

        slices = self._topics.services.loops.slices(name.tenant)
        own = await self._owners.own([name.of_partition(index) for index in range(record.partitions_reserved)])
        await all_in_slices(slices, own, DELETE_COST, remove)
        self._remember_deleted(str(name))

    async def _finish_restoring(self, name: TopicName, record: PartitionedRecord, recycled: RecycledTopic) -> PartitionedRecord:
        async def bring_back(index: int) -> None:
            partition = name.of_partition(index)
            if not await self._topics.exists(partition):
                await self._topics.recycle_bin.bring_back(partition, recycled, listed=False)

        slices = self._topics.services.loops.slices(name.tenant)
        await all_in_slices(slices, range(record.partitions), DELETE_COST, bring_back)
        self._deleted.pop(str(name), None)
        return await self._meta.end_restore(self._fence, str(name), recycled)

    async def _forget(self, name: TopicName, record: PartitionedRecord) -> None:
        if record.recycling is None:
            await self._meta.delete_partitioned(self._fence, str(name))
        else:
            await self._topics.recycle_bin.take(str(name), None, Recycling(record.recycling))
        self._ceiling.counts.gone(name.tenant, str(name.namespace), record.partitions_reserved)
        self._topics.services.policies.topic_deleted(name)
        for tell in self._topics.on_deleted:
            tell(str(name))

    def _remember_deleted(self, text: str) -> None:
        self._deleted.pop(text, None)
        self._deleted[text] = boottime_ms()
        if len(self._deleted) > DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]
