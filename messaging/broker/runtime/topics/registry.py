"""The topics of a broker: loaded on first use, one object per topic. Topics are created, unloaded and deleted here only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import structlog

from messaging.background import shared
from messaging.broker.runtime.topics.limits.topic_reservations import TopicReservations
from messaging.broker.runtime.topics.listing import unstored_names
from messaging.broker.runtime.topics.opening import check_enabled, make_topic, open_topic
from messaging.broker.runtime.topics.partitions.partitions import Partitions
from messaging.broker.runtime.topics.persistent import PersistentTopic, persistent
from messaging.broker.runtime.topics.recovery import TopicRecovery
from messaging.broker.runtime.topics.recycle_bin import VALUE_KEYS, RecycleBin
from messaging.broker.runtime.topics.services import TopicServices, refusal_of
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import Conflict, MagnetarError, NotReady, PreconditionFailed, TopicNotFound
from messaging.protocol.names import TopicName
from messaging.protocol.system_topics import CHANGE_EVENTS
from messaging.storage.ledger_store import StoreError
from messaging.storage.meta_store import MetaConflict, TopicRecord
from messaging.storage.recycled_topic import Recycling

log = structlog.get_logger("broker.topics")

CLOSING_MAX = 1_000  # topics closed concurrently when the broker stops
LOADED_WITHIN_S = 5.0  # a topic that is being loaded when the broker stops, so that it is closed


class Topics:
    """`idle_since_ms`: since when nobody used a topic that is not loaded, where that is not stored."""

    def __init__(self, services: TopicServices, idle_since_ms: Callable[[str], int]) -> None:
        self.services = services
        self.idle_since_ms = idle_since_ms
        self.meta = services.stores.storage.meta
        self.reservations = TopicReservations(services)
        self.partitioned = Partitions(self)
        self.recycle_bin = RecycleBin(self)
        self.loaded: dict[str, Topic] = {}
        self._loaded_of: dict[str, dict[str, Topic]] = {}  # the same topics by namespace
        self._loading: dict[str, asyncio.Task[Topic]] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._ended = False
        self.on_loaded: list[Callable[[Topic], None]] = []
        self.on_deleted: list[Callable[[str], None]] = []
        self.on_list_changed: list[Callable[[TopicName, bool], None]] = []  # created, or deleted
        self.on_unloaded: list[Callable[[Topic], None]] = []
        services.events.on_failed.append(TopicRecovery(services.loops.background, self.unload).failed)

    def __iter__(self) -> Iterator[Topic]:
        return iter(list(self.loaded.values()))

    def loaded_of(self, namespace: str) -> list[Topic]:
        """The loaded topics of one namespace, at a cost that does not depend on other namespaces."""
        return list(self._loaded_of.get(namespace, {}).values())

    def namespaces_with_loaded(self, tenant: str) -> list[str]:
        return [namespace for namespace in self._loaded_of if namespace.startswith(f"{tenant}/")]

    def loaded_with_policies_of(self, text: str) -> list[Topic]:
        """The loaded topic of this full name, or its loaded partitions."""
        own = self.loaded.get(text)
        if own is not None:
            return [own]
        namespace, partitions = text.partition("://")[2].rpartition("/")[0], f"{text}-partition-"
        return [topic for topic in self.loaded_of(namespace) if topic.text.startswith(partitions)]

    def unstored_names(self, namespace: str) -> list[str]:
        """The non-persistent topics of a namespace: those that are loaded, as in Pulsar."""
        return unstored_names(self.loaded_of(namespace))

    def _forget_loaded(self, topic: Topic) -> None:
        namespace = str(topic.name.namespace)
        loaded = self._loaded_of[namespace]
        del loaded[topic.text]
        if not loaded:
            del self._loaded_of[namespace]
        if not topic.ledger.recorded:
            self.reservations.gone(topic.name, recorded=False)

    def under_way(self, concerns: Callable[[str], bool]) -> list[asyncio.Task[Any]]:
        """The loading, unloading and deleting of topics that it is asked about, by their full names."""
        return [task for tasks in (self._loading, self._closing) for text, task in tasks.items() if concerns(text)]

    # --- loading

    async def get(self, name: TopicName, *, create: bool, writable: bool = False) -> Topic:
        """The loaded topic. `create`: create it if it does not exist; `writable`: then with a ledger, for a caller that needs one.
        Raises `TopicNotFound`, `NotAllowed`, `NotReady`."""
        text = str(name)
        while True:
            topic = self.loaded.get(text)
            if topic is not None and topic.closed is None:
                return topic
            closing = self._closing.get(text)
            if closing is not None:
                await asyncio.wait([closing])
                continue
            loading = self._loading.get(text)
            if loading is not None:
                # The first caller may not have been allowed to create the topic; this caller may be, so try again.
                await asyncio.wait([loading])
                continue
            if self._ended:
                raise NotReady("the broker is stopping: connect again")
            loading = shared(asyncio.get_running_loop().create_task(self._load(name, create, writable), name=f"load {text}"))
            self._loading[text] = loading
            loading.add_done_callback(lambda _: self._loading.pop(text, None))
            return await asyncio.shield(loading)

    async def get_persistent(self, name: TopicName, *, create: bool) -> PersistentTopic:
        """The same; raises `NotAllowed` for a non-persistent topic."""
        return persistent(await self.get(name, create=create))

    async def _load(self, name: TopicName, create: bool, writable: bool) -> Topic:
        text, policies = str(name), self.services.policies
        check_enabled(self.services, name)
        await self.services.owners.require(name)
        version = policies.version
        try:
            record = await self.meta.get_topic(text)
            topic = await (
                self._make(name, text, create, writable)
                if record is None
                else open_topic(self.services, name, record, self.idle_since_ms)
            )
        except StoreError as error:
            log.error("topic.load_failed", topic=text, error=str(error))
            raise refusal_of(error, f"topic {text} cannot be opened") from error
        self.loaded[topic.text] = topic
        self._loaded_of.setdefault(str(topic.name.namespace), {})[topic.text] = topic
        for tell in self.on_loaded:
            tell(topic)
        if isinstance(topic, PersistentTopic):
            topic.subscriptions.claim()
        if policies.version != version:  # only loaded topics are told of changes
            with self.services.loops.dispatching.guard(topic=text):
                topic.policies_changed()
        return topic

    async def _make(self, name: TopicName, text: str, create: bool, writable: bool) -> Topic:
        if not (name.persistent and create):  # else making it tells
            await self.partitioned.check_plain(name)
        of_parent = await self.partitioned.includes(name)  # a partition is not limited: it was counted with its topic
        limited = not of_parent and name.local != CHANGE_EVENTS
        if not create and not of_parent:
            raise TopicNotFound(f"topic {text} does not exist: create it, or allow auto-creation in the namespace")
        if limited:
            self.reservations.check_rate(name)
        recorded = name.persistent or of_parent
        try:
            async with self.reservations.reserved(name, 1, limited=limited):
                made = await make_topic(self.services, name, recorded=recorded, writable=writable)
                if not recorded:
                    self.reservations.made_unrecorded(name)
        except MetaConflict as error:  # it was created, or a partitioned topic of that name was created or is being deleted
            await self.partitioned.check_plain(name)
            record = await self.meta.get_topic(text)
            if record is None:
                raise NotReady(f"topic {text} could not be created: {error}; try again") from None
            return await open_topic(self.services, name, record, self.idle_since_ms)
        self.list_changed(name, True)
        if isinstance(made, PersistentTopic):
            await made.deduplication.follow_policy()
        return made

    # --- asking

    async def exists(self, name: TopicName) -> bool:
        text = str(name)
        return text in self.loaded or await self.meta.get_topic(text) is not None

    async def created_ms(self, name: TopicName) -> int | None:
        """Of a topic, a partition or a partitioned topic, or of one that is being deleted or restored; None: there is none of that
        name. Raises `NotReady`, `StorageFailed`."""
        try:
            record = await self.meta.get_partitioned(str(name)) or await self.meta.get_topic(str(name))
        except StoreError as error:
            raise refusal_of(error, f"topic {name} cannot be read") from error
        if record is not None:
            return record.created_ms
        return 0 if str(name) in self.loaded else None

    # --- creating

    async def create(self, name: TopicName, properties: dict[str, str]) -> None:
        """Raises `Conflict` if a topic, partitioned or not, has this name."""
        check_enabled(self.services, name)
        await self.services.owners.require(name)
        text = str(name)
        if name.partition >= 0:
            parent = await self.partitioned.get(name.base)
            if parent is None or name.partition >= parent.partitions:
                raise PreconditionFailed(f"{text} has the name of a partition but is none: choose another name")
        if not name.persistent:
            await self._create_unrecorded(name)
            return
        try:
            async with self.reservations.reserved(name, 1):
                await self.meta.cas_topic(
                    self.services.stores.storage.fence_of(text),
                    TopicRecord(text, created_ms=self.services.clock_ms(), properties=properties),
                )
        except MetaConflict as error:
            raise Conflict(f"{error}: choose another name") from None
        except StoreError as error:
            raise refusal_of(error, f"topic {text} cannot be created") from error
        self.list_changed(name, True)

    async def _create_unrecorded(self, name: TopicName) -> None:
        """It exists from now on as long as it is loaded."""
        if str(name) in self.loaded or await self.partitioned.get(name) is not None:
            raise Conflict(f"topic {name} exists already: choose another name")
        await self.get(name, create=True)

    def list_changed(self, name: TopicName, exists: bool) -> None:
        if name.persistent:  # nobody watches the others
            for tell in self.on_list_changed:
                tell(name, exists)

    # --- unloading and deleting

    async def unload(self, name: TopicName, why: MagnetarError | None = None) -> None:
        """Tells clients to reconnect; the next use loads the topic again. Does nothing if the topic is not loaded."""
        topic = self.loaded.get(str(name))
        if topic is not None:
            await self._end(topic, why or NotReady(f"topic {name} was unloaded: reconnect"), delete=False)

    async def _end(self, topic: Topic, why: MagnetarError, *, delete: bool, into: Recycling | None = None) -> None:
        """Callers that ask for the topic in the meantime wait until it can be loaded or created again. `into`: where a topic goes
        that is deleted."""
        closing = self._closing.get(topic.text)
        if closing is None:
            topic.begin_close(why)  # without awaiting, so nobody finds it open afterwards
            closing = self._begin(topic.text, "delete" if delete else "unload", self._close(topic, delete=delete, into=into))
        try:
            await asyncio.shield(closing)
        except StoreError as error:
            raise refusal_of(error, f"topic {topic.text} cannot be {'deleted' if delete else 'unloaded'}") from error

    def _begin(self, text: str, what: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Callers shield this task, so it completes even if all of them are cancelled."""
        closing = self._closing[text] = shared(asyncio.get_running_loop().create_task(work, name=f"{what} {text}"))
        closing.add_done_callback(lambda _: self._closing.pop(text, None))
        return closing

    async def _close(self, topic: Topic, *, delete: bool, into: Recycling | None) -> None:
        try:
            try:
                await topic.close()
            except Exception as error:  # it can no longer be used; its cursors are saved or kept by the cursor log
                log.error("topic.close_failed", topic=topic.text, error=str(error), exc_info=not isinstance(error, StoreError))
            if delete and topic.ledger.recorded:
                await self._remove(topic.name, into)
                for subscription in topic.subscriptions.table.values() if into is None else ():
                    self.services.stores.cursors.forget(subscription.subscription_id)
        finally:
            if self.loaded.get(topic.text) is topic:
                del self.loaded[topic.text]
                self._forget_loaded(topic)
            for tell in self.on_unloaded:  # counted last, to include what became durable during the close
                tell(topic)

    async def _remove(self, name: TopicName, into: Recycling | None) -> None:
        """Deletes the record first, then the ledgers: a crash in between leaves orphans, never a topic with missing ledgers."""
        text = str(name)
        record = await self.meta.get_topic(text)
        if into is not None:
            await self.recycle_bin.take(text, record, into)
        else:
            values = [key(text) for key in VALUE_KEYS]
            await self.meta.delete_topic(self.services.stores.storage.fence_of(text), text, values=values)
        self.services.policies.topic_deleted(name)
        self.services.limits.subscription_counts.forget(name.tenant)
        self.services.limits.ceilings.schemas.counts.forget(name.tenant)
        if record is not None:
            self.reservations.gone(name, recorded=True)
            self.list_changed(name, False)
        for tell in self.on_deleted:
            tell(text)
        for ledger_id in record.ledger_ids if record and into is None else ():
            await self.services.stores.storage.delete_ledger(ledger_id)

    async def delete_unused(self, topic: Topic) -> bool:
        """Deletes a loaded topic if nobody uses it at this moment: what connects from now on finds no such topic."""
        if topic.closed is not None or topic.in_use:
            return False
        await self._end(topic, TopicNotFound(f"topic {topic.text} was deleted because it was inactive"), delete=True)
        return True

    async def delete(self, name: TopicName, *, force: bool, into: Recycling | None = None) -> None:
        """`into`: where it goes; None: it is deleted for good. Raises `TopicNotFound`, `PreconditionFailed` while producers or
        consumers are connected (unless `force`).

        A topic that is not loaded is deleted without loading it, so one that cannot be opened can still be deleted.
        """
        text = str(name)
        while under_way := self._closing.get(text) or self._loading.get(text):
            await asyncio.wait([under_way])
        topic = self.loaded.get(text)
        if topic is None:
            try:
                await asyncio.shield(self._begin(text, "delete", self._delete_unloaded(name, into)))
            except StoreError as error:
                raise refusal_of(error, f"topic {text} cannot be deleted") from error
            return
        if not force:
            topic.check_unused()
        await self._end(topic, TopicNotFound(f"topic {text} was deleted"), delete=True, into=into)

    async def _delete_unloaded(self, name: TopicName, into: Recycling | None) -> None:
        text = str(name)
        await self.services.owners.require(name)
        if await self.meta.get_topic(text) is None:
            if not name.persistent:
                return  # as in Pulsar: it is gone already
            raise TopicNotFound(f"topic {text} does not exist")
        self.services.memory.delayed_counts.deleted(text)
        subscriptions = await self.meta.subscriptions(text)
        await self._remove(name, into)
        for stored in subscriptions if into is None else ():
            self.services.stores.cursors.forget(stored.subscription_id)

    async def close_all(self, why: MagnetarError) -> None:
        """Closes many topics concurrently: their last writes share commits. From now on none is loaded, since nobody would close
        it; what is being loaded is closed, too. What is not closed is recovered when it is loaded."""
        self._ended = True
        await self._close_loaded(why)
        if loading := list(self._loading.values()):
            await asyncio.wait(loading, timeout=LOADED_WITHIN_S)
            await self._close_loaded(why)

    async def _close_loaded(self, why: MagnetarError) -> None:
        topics = list(self)
        for start in range(0, len(topics), CLOSING_MAX):
            closing = [self.unload(topic.name, why) for topic in topics[start : start + CLOSING_MAX]]
            for outcome in await asyncio.gather(*closing, return_exceptions=True):
                if isinstance(outcome, Exception):  # a failure of one topic; the others are still closed
                    log.error("topic.close_failed", error=str(outcome), exc_info=outcome)
