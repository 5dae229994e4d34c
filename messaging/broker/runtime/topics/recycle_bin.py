"""The recycle bin: deleted topics whose policies say so are kept for a while, with all that is stored of them.

A deletion moves a topic's rows to their place in the bin, instead of deleting them, and a restore moves them back, each in one
commit of the metadata; of a partitioned topic one partition after the other, while its record says what is going on
(`partitions/partitions.py`). A purge first makes the topic one that cannot be restored, then deletes what lies at its places. What
a crash cuts off is finished by the next start, a purge by the next round of maintenance.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

import structlog

from messaging.broker.core.dead_letters.dead_entries import key_of as dead_letters_key_of
from messaging.broker.runtime.topics.delayed import overrides as delay_overrides
from messaging.broker.runtime.topics.limits.shared_limits import room_for_subscriptions
from messaging.broker.runtime.topics.limits.topic_reservations import TopicReservations
from messaging.broker.runtime.topics.partitions.partitions import Partitions
from messaging.broker.runtime.topics.producers import deduplication, stored_moves
from messaging.broker.runtime.topics.services import TopicServices, refusal_of
from messaging.broker.runtime.turn_slices import all_in_slices
from messaging.clock import boottime_ms
from messaging.errors import Conflict, MagnetarError, NotFound, PreconditionFailed
from messaging.keyed_lock import keyed_lock
from messaging.protocol.names import TopicName, parse_topic
from messaging.protocol.system_topics import is_system_topic
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import MetaConflict, TopicRecord
from messaging.storage.recycled_topic import RecycledTopic, Recycling

log = structlog.get_logger("broker.recycle_bin")

POLICY = "recycle_bin_retention_hours"
VALUE_KEYS = (deduplication.key_of, dead_letters_key_of, delay_overrides.key_of, stored_moves.key_of)
PAGE_TOPICS = 200
EXPIRE_S = 5.0  # of one call of a worker
PUT_OFF_MS, PUT_OFF_MAX = 600_000, 10_000  # what could not be purged, which is tried again after the others
PURGE_COST = 1_000  # of one topic or partition, in units of `core/turns/command_costs.py`


class BinTopics(Protocol):
    """Implemented by `registry.py`."""

    services: TopicServices
    reservations: TopicReservations
    partitioned: Partitions

    def list_changed(self, name: TopicName, exists: bool) -> None: ...


class RecycleBin:
    """`on_stored` is told of each topic that has another name now, with what is stored of it, `on_gone` of the name that no topic
    has any more, `on_restored` of the name of one that is back."""

    def __init__(self, topics: BinTopics) -> None:
        self._topics = topics
        self._services = topics.services
        self._storage = topics.services.stores.storage
        self._meta = self._storage.meta
        self._under_way: dict[str, asyncio.Future[None]] = {}
        self._arriving: Counter[str] = Counter()  # topics and partitions of tenants, on their way into the bin
        self._put_off: dict[str, int] = {}  # until when, by id
        self.on_stored: list[Callable[[TopicRecord], None]] = []
        self.on_gone: list[Callable[[str], None]] = []
        self.on_restored: list[Callable[[str], None]] = []

    # --- into it

    @asynccontextmanager
    async def place_for(self, name: TopicName, deleted_by: str, policies: bytes) -> AsyncIterator[RecycledTopic | None]:
        """What a topic is in the bin that is deleted in the `with` block; None where it is deleted at once. Raises
        `PreconditionFailed`."""
        retention_ms = int(self._services.policies.value(POLICY, name)) * 3_600_000
        stored = None
        if retention_ms and name.persistent and not is_system_topic(name):
            stored = await self._meta.get_partitioned(str(name)) or await self._meta.get_topic(str(name))
        if stored is None:  # if there is none, whoever deletes it is told
            yield None
            return
        partitions = getattr(stored, "partitions", 0)
        async with self._room(name.tenant, max(1, partitions)):
            now_ms = self._storage.safe_expiry_ms()
            yield RecycledTopic(
                f"{now_ms:012x}-{uuid.uuid4().hex[:12]}",
                str(name),
                now_ms,
                now_ms + retention_ms,
                deleted_by,
                partitions,
                stored.created_ms,
                policies=policies,
            )

    @asynccontextmanager
    async def _room(self, tenant: str, count: int) -> AsyncIterator[None]:
        """For those that arrive in the `with` block: deletions at the same time do not have the same room. Raises
        `PreconditionFailed`."""
        arriving = self._arriving[tenant]  # some of them may not be counted, although they arrive meanwhile
        topics = await self._meta.count_recycled(tenant) + max(arriving, self._arriving[tenant])
        topics_max = self._services.limits.recycled_topics_max
        if topics + count > topics_max:
            raise PreconditionFailed(
                f"the recycle bin of tenant {tenant} has {topics} topics and partitions, and "
                f"recycle_bin_topics_per_tenant_max = {topics_max}: purge some, or set policy {POLICY} to 0"
            )
        self._arriving[tenant] += count
        try:
            yield
        finally:
            self._arriving[tenant] -= count
            if not self._arriving[tenant]:
                del self._arriving[tenant]

    async def take(self, name: str, record: TopicRecord | None, into: Recycling) -> None:
        """A topic that is not loaded any more. Raises `StoreError`."""
        if record is not None and record.ledgers and record.ledgers[-1].last_entry is None:
            record = await self._sealed(record)
        place = into.record.place_of(name)
        left = self._storage.take_left(name)
        try:
            await self._meta.recycle(self._storage.fence, name, into.record, values=VALUE_KEYS, listed=into.listed)
        except BaseException:  # it has one name or the other
            place = name if await self._has(name) else place
            raise
        finally:
            for ledger_id in left:
                self._storage.leave(ledger_id, place)
        if record is not None:
            self._tell_stored(replace(record, name=place))

    async def _sealed(self, record: TopicRecord) -> TopicRecord:
        """With the size of the ledger that a crash left open. One that cannot be opened is recycled as it is."""
        try:
            return (await ManagedLedger.open(self._storage, record, {})).record
        except StoreError as error:
            log.warning("recycle_bin.not_sealed", topic=record.name, error=str(error))
            return record

    async def _has(self, name: str) -> bool:
        try:
            return await self._meta.get_topic(name) is not None
        except StoreError:
            return False  # then what is left stays: no record of that name refers to it, and the next start collects it

    def _tell_stored(self, record: TopicRecord) -> None:
        for tell in self.on_stored:
            tell(record)

    # --- out of it

    async def restore(self, namespace: str, recycle_id: str) -> TopicName:
        """Calling again finishes what was cut off. Raises `NotFound`; `Conflict` where a topic of its name exists;
        `PreconditionFailed` where there may be no more topics, or the partitioned topic is gone that it was a partition of."""
        async with self._alone(recycle_id):
            record = await self._get(namespace, recycle_id)
            name = parse_topic(record.name)
            if record.partitions:
                await self._topics.partitioned.restore(name, record)
            else:
                await self._restore_plain(name, record)
        log.info("topic.restored", topic=record.name, recycle_id=recycle_id)
        return name

    async def _restore_plain(self, name: TopicName, record: RecycledTopic) -> None:
        if name.partition >= 0:
            parent = await self._topics.partitioned.get(name.base)
            if parent is None or name.partition >= parent.partitions:
                raise PreconditionFailed(f"{name} was a partition of a partitioned topic that does not exist: restore that first")
        try:
            async with self.room_for(name, record):
                await self.bring_back(name, record, listed=True)
        except MetaConflict as error:
            raise Conflict(f"{error}: delete it, then restore {name}") from None

    @asynccontextmanager
    async def room_for(self, name: TopicName, record: RecycledTopic) -> AsyncIterator[None]:
        """For what comes back in the `with` block. Raises `PreconditionFailed`."""
        limits = self._services.limits
        subscriptions, schemas = await self._meta.count_within(record.places)
        async with (
            self._topics.reservations.reserved(name, max(1, record.partitions)),
            room_for_subscriptions(self._services, name, subscriptions),
            limits.ceilings.schemas.room(name, schemas),
        ):
            yield

    async def bring_back(self, name: TopicName, record: RecycledTopic, *, listed: bool) -> None:
        """One topic or partition, or the record of a partitioned topic. Raises `MetaConflict`, `StoreError`."""
        text, place = str(name), record.place_of(str(name))
        left = self._storage.take_left(place)
        try:
            await self._meta.restore(self._storage.fence, text, record, values=VALUE_KEYS, listed=listed)
        finally:
            for ledger_id in left:
                self._storage.leave(ledger_id, text if await self._has(text) else place)
        if await self._services.owners.own([name]):
            await self.left_place(name, place, (), restored=True)
        else:
            await self._services.partitions_elsewhere.restored(name, place)
        if await self._has(text):
            self._topics.list_changed(name, True)
        self._services.policies.topic_restored(name)
        self._services.limits.subscription_counts.made_elsewhere(name.tenant)
        self._services.limits.ceilings.schemas.counts.made_elsewhere(name.tenant)

    async def left_place(self, name: TopicName, place: str, ledger_ids: Sequence[int], *, restored: bool) -> None:
        """A topic whose log is here left its place. `ledger_ids`: those that are gone with it."""
        for gone in self.on_gone:
            gone(place)
        stored = await self._meta.get_topic(str(name)) if restored else None
        if stored is not None:
            for tell in self.on_restored:
                tell(str(name))
            self._tell_stored(stored)
        for ledger_id in ledger_ids:
            await self._storage.delete_ledger(ledger_id)

    # --- away

    async def purge(self, namespace: str, recycle_id: str) -> None:
        """Deletes it for good. Calling again finishes what was cut off. Raises `NotFound`, `Conflict`."""
        async with self._alone(recycle_id):
            record = await self._get(namespace, recycle_id, purging=True)
            parent = await self._meta.get_partitioned(record.name) if record.partitions else None
            if parent is not None and parent.restoring is not None and parent.restoring.recycle_id == recycle_id:
                raise Conflict(f"{record.name} is being restored: restore it again to finish that, then delete it")
            await self._purge(record)

    async def purge_expired(self, limit: int) -> tuple[int, dict[str, str]]:
        """Purges up to `limit` of those whose time is over, or whose purge was cut off: how many, and what failed of which. What
        failed is put off, so that it holds up no other. Begins none after `EXPIRE_S`."""
        purged = 0
        failed: dict[str, str] = {}
        loop, now_ms = asyncio.get_running_loop(), boottime_ms()
        ends_s = loop.time() + EXPIRE_S
        self._put_off = {recycle_id: until_ms for recycle_id, until_ms in self._put_off.items() if until_ms > now_ms}
        while purged < limit and (due := await self._due(limit - purged)):
            for record in due:
                if loop.time() >= ends_s or len(self._put_off) >= PUT_OFF_MAX:
                    return purged, failed
                try:
                    await self.purge(record.namespace, record.recycle_id)
                    purged += 1
                except MagnetarError as error:
                    self._put_off[record.recycle_id] = now_ms + PUT_OFF_MS
                    if not isinstance(error, NotFound):  # else somebody was faster
                        failed[record.name] = error.message
        return purged, failed

    async def _due(self, limit: int) -> list[RecycledTopic]:
        over = await self._meta.expired_recycled(self._storage.safe_expiry_ms(), limit + len(self._put_off))
        return [record for record in over if record.recycle_id not in self._put_off][:limit]

    async def purge_namespace(self, namespace: str) -> None:
        """What this broker served of a namespace: its next one of that name begins with nothing."""
        after = ""
        while records := await self._meta.list_recycled(namespace, after=after, limit=PAGE_TOPICS):
            after = records[-1].recycle_id
            for record in records:
                if await self._services.owners.own([parse_topic(record.name)]):
                    await self.purge(namespace, record.recycle_id)

    async def _purge(self, record: RecycledTopic) -> None:
        await self._meta.begin_purge(self._storage.fence, record.recycle_id)
        slices = self._services.loops.slices(record.namespace.partition("/")[0])
        while places := await self._meta.recycled_places(within=record.places, limit=PAGE_TOPICS):
            await all_in_slices(slices, places, PURGE_COST, partial(self._purge_place, record))
        await self._meta.forget_recycled(self._storage.fence, record)
        log.info("recycle_bin.purged", topic=record.name, recycle_id=record.recycle_id, topics=record.topics)

    async def _purge_place(self, record: RecycledTopic, place: str) -> None:
        """The record first, then the ledgers: a crash in between leaves orphans."""
        name = parse_topic(record.name_at(place))
        stored, subscriptions = await self._meta.get_topic(place), await self._meta.subscriptions(place)
        await self._meta.delete_topic(self._storage.fence, place, values=[key(place) for key in VALUE_KEYS])
        for subscription in subscriptions:
            self._services.stores.cursors.forget(subscription.subscription_id)
        ledger_ids = stored.ledger_ids if stored else ()
        if await self._services.owners.own([name]):
            await self.left_place(name, place, ledger_ids, restored=False)
        else:
            await self._services.partitions_elsewhere.purged(name, place, ledger_ids)

    # --- asking

    async def get(self, namespace: str, recycle_id: str) -> RecycledTopic:
        """One that can be restored. Raises `NotFound`, `NotReady`, `StorageFailed`."""
        try:
            return await self._get(namespace, recycle_id)
        except StoreError as error:
            raise refusal_of(error, "the recycle bin cannot be read") from error

    async def _get(self, namespace: str, recycle_id: str, *, purging: bool = False) -> RecycledTopic:
        record = await self._meta.get_recycled(recycle_id)
        if record is None or record.namespace != namespace or (record.purging and not purging):
            raise NotFound(f"the recycle bin of namespace {namespace} has nothing with the id {recycle_id[:64]!r}")
        return record

    @asynccontextmanager
    async def _alone(self, recycle_id: str) -> AsyncIterator[None]:
        """A restore and a purge of one thing come one after the other."""
        async with keyed_lock(self._under_way, recycle_id):
            try:
                yield
            except StoreError as error:
                raise refusal_of(error, "the recycle bin cannot be changed") from error
            except MetaConflict as error:
                raise NotFound(f"{error}") from None
