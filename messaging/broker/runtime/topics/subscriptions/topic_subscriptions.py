"""The subscriptions of a loaded topic: finding, changing and deleting them, whether the topic keeps messages or not.

Changes of one subscription run one after another; changes of different subscriptions share commits.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Protocol

from messaging.broker.core.clients.client_usage import DepartedSubscriptions
from messaging.broker.core.memory.memory_charge import pairs_bytes
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription import Subscription, subscription_key
from messaging.broker.runtime.topics.dispatch.dispatcher import Dispatcher
from messaging.broker.runtime.topics.services import refusal_of
from messaging.broker.runtime.topics.subscriptions import dead_letter_state
from messaging.broker.runtime.topics.subscriptions.properties import SubscriptionProperties
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import PreconditionFailed, SubscriptionNotFound
from messaging.keyed_lock import keyed_lock
from messaging.storage.ledger_store import Position, StoreError

NO_SUBSCRIPTIONS: dict[str, Subscription] = {}  # shared by idle topics; never written to


class ClosesConsumers(Protocol):
    def close(self, subscription: Subscription) -> None:
        """Closes the consumers of this subscription."""


class SubscriptionsTopic(TopicContext, Protocol):
    """The interface of the topic that its subscriptions need."""

    started_dispatcher: Dispatcher | None

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def consumers(self) -> ClosesConsumers: ...

    def check_open(self) -> None:
        """Raises `NotReady` once the topic has begun to close."""


class TopicSubscriptions(ABC):
    __slots__ = ("_properties", "_topic", "changes", "departed", "table")

    def __init__(self, topic: SubscriptionsTopic) -> None:
        self._topic = topic
        self.table: dict[str, Subscription] = NO_SUBSCRIPTIONS  # by key; never kept, because the first one replaces it
        # Subscriptions that are being created, deleted or moved, by key; the future is done when the change is complete.
        self.changes: dict[str, asyncio.Future[None]] | None = None
        self.departed: DepartedSubscriptions | None = None  # what subscriptions that are gone were sent
        self._properties: SubscriptionProperties | None = None  # None: no subscription has any

    # --- finding

    def find(self, name: str) -> Subscription | None:
        """The subscription that `name` means to an administrator: the durable one where there are two."""
        durable = self.table.get(name)
        return durable if durable is not None else self.table.get(subscription_key(name, durable=False))

    def named(self, name: str) -> Subscription:
        """The same; raises `SubscriptionNotFound`."""
        subscription = self.find(name)
        if subscription is None:
            raise SubscriptionNotFound(f"topic {self._topic.text} has no subscription {name!r}")
        return subscription

    def holds(self, subscription: Subscription) -> bool:
        """Whether it is a subscription of this topic still."""
        return self.table.get(subscription.key) is subscription

    def check_current(self, subscription: Subscription) -> None:
        """Raises if the target of a change is gone: `NotReady` if its topic is closing, `SubscriptionNotFound` if only the
        subscription is.
        """
        self._topic.check_open()
        if not self.holds(subscription):
            raise SubscriptionNotFound(f"subscription {subscription.name!r} of {self._topic.text} was deleted")

    # --- what the kinds of topics do each in its way

    @abstractmethod
    async def create(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        """Creates a durable subscription whose first entry is at `start` (`EARLIEST`, `LATEST`, or a position).

        Raises `MetaConflict` if it exists, `NotReady`, `StorageFailed`.
        """

    @abstractmethod
    def create_reader(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        """Creates a non-durable subscription, which lives as long as its consumer. Raises `NotReady`."""

    @abstractmethod
    async def seek(self, subscription: Subscription, target: SeekTarget) -> None:
        """Moves a subscription so that it continues at `target`. Returns when that is durable."""

    @abstractmethod
    def policies_changed(self) -> None:
        """Policies of the topic or its namespace changed."""

    # --- changing

    @asynccontextmanager
    async def _change(self, key: str) -> AsyncIterator[None]:
        """Serialises the creates, deletes and moves of the subscription with this key. None starts once the topic is closing, and
        closing waits for those in progress. Errors of the store are raised as `NotReady` or `StorageFailed`.
        """
        if self.changes is None:
            self.changes = {}
        async with keyed_lock(self.changes, key):
            self._topic.check_open()
            try:
                yield
            except StoreError as error:
                raise refusal_of(error, f"subscription {key.rstrip()!r} of {self._topic.text} cannot be changed") from error

    def _check_room(self) -> None:
        """Raises `PreconditionFailed` if one more subscription is too many; those being created count."""
        limit, count = self._topic.services.limits.subscriptions_max, len(self.table)
        if count + self._being_created >= limit:
            raise PreconditionFailed(
                f"topic {self._topic.text} has {count} subscriptions, which is subscriptions_per_topic_max = {limit}: "
                "delete unused ones"
            )

    @property
    def _being_created(self) -> int:
        """The number being created. Those being moved or deleted are already counted as subscriptions."""
        return sum(name not in self.table for name in self.changes or ())

    @property
    def properties_memory(self) -> SubscriptionProperties:
        """Of all subscriptions."""
        if self._properties is None:
            self._properties = SubscriptionProperties(
                self._topic.services.memory.records, self._topic.name.tenant, self._topic.text
            )
        return self._properties

    def _room_for(self, properties: dict[str, str] | None, before: dict[str, str] | None = None) -> AbstractContextManager[None]:
        """They are stored inside this context, in place of those of `before`. Raises `PreconditionFailed`, `NotReady`."""
        more_bytes = pairs_bytes(properties or {}) - pairs_bytes(before or {})
        return self.properties_memory.change_if_done(more_bytes) if more_bytes else nullcontext()

    def _add(self, subscription: Subscription) -> Subscription:
        may_keep = partial(self._topic.services.memory.cursor_memory.allows, self._topic.name.tenant)
        subscription.may_keep = subscription.state.redeliveries.may_keep = may_keep
        if self.table is NO_SUBSCRIPTIONS:
            self.table = {}
        self.table[subscription.key] = subscription
        return subscription

    async def set_properties(self, subscription: Subscription, properties: dict[str, str]) -> None:
        """Replaces the subscription's properties. Raises `NotReady`, `SubscriptionNotFound`, `StorageFailed`."""
        async with self._change(subscription.key):
            self.check_current(subscription)
            with self._room_for(properties, subscription.properties):
                if subscription.durable:
                    storage = self._topic.services.stores.storage
                    await storage.meta.set_subscription_properties(
                        storage.fence_of(self._topic.text), self._topic.text, subscription.name, properties
                    )
            subscription.properties = properties

    def check_unused(self, subscription: Subscription) -> None:
        """Raises `PreconditionFailed` where a deletion without `force` is refused."""
        if subscription.consumers:
            raise PreconditionFailed(f"subscription {subscription.name!r} has consumers: close them, or delete with force")

    async def delete(self, key: str, *, force: bool = True) -> None:
        """Without `force`, deletes the subscription only if it has no consumers. Does nothing if none has this key (the name of a
        durable one). Raises `PreconditionFailed`, `NotReady`, `StorageFailed`; it is then not deleted.
        """
        topic = self._topic
        async with self._change(key):
            subscription = self.table.get(key)
            if subscription is None:
                return
            if not force:
                self.check_unused(subscription)
            subscription.fenced = True
            try:
                topic.consumers.close(subscription)
                if subscription.durable:
                    storage = topic.services.stores.storage
                    await storage.meta.delete_subscription(storage.fence_of(topic.text), topic.text, subscription.name)
                    topic.services.limits.subscription_counts.forget(topic.name.tenant)
                topic.mark_active()  # with this subscription, whose history ends now
                self.table.pop(key, None)
                topic.idle.forget(key, topic.ledger.stamp())
                self._removed(subscription)
                if subscription.dead_letters is not None:
                    await dead_letter_state.save(topic)
                topic.services.memory.cursor_memory.release(topic.name.tenant, subscription)
                topic.services.stores.cursors.forget(subscription.subscription_id)
            finally:
                subscription.fenced = False

    def drop_if_idle(self, subscription: Subscription) -> None:
        """Removes a non-durable subscription when its last consumer leaves, unless a seek closed its consumers. Of a topic that is
        closed nothing is removed: it releases everything together."""
        topic = self._topic
        stays = subscription.durable or subscription.consumers or subscription.fenced or topic.closed is not None
        if not stays and self.holds(subscription):
            del self.table[subscription.key]
            self._removed(subscription)
            topic.services.memory.cursor_memory.release(topic.name.tenant, subscription)

    async def wait_until_unchanged(self, subscription: Subscription) -> None:
        """Waits for a change in progress: the C++ client does not retry when its first SUBSCRIBE is refused temporarily."""
        while self.changes and subscription.key in self.changes:
            await asyncio.wait([self.changes[subscription.key]])

    def _removed(self, subscription: Subscription) -> None:
        if subscription.properties:
            self.properties_memory.change(-pairs_bytes(subscription.properties))
        if subscription.departed:
            self.departed = self.departed or DepartedSubscriptions()
            self.departed.add(subscription.name if subscription.durable else "", subscription.departed)
        if self._topic.started_dispatcher is not None:
            self._topic.started_dispatcher.removed(subscription)

    def release(self) -> None:
        """The topic is closed: gives back the memory of all subscriptions. Idempotent."""
        for subscription in self.table.values():
            self._topic.services.memory.cursor_memory.release(self._topic.name.tenant, subscription)
        if self._properties is not None:
            self._properties.end()
