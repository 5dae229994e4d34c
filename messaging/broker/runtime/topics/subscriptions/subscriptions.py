"""The subscriptions of a loaded topic: restoring, creating, moving and deleting them, and attaching consumers.

A consumer is checked and attached in one step, with nothing awaited in between, so none can be attached to a topic that is closing.
Changes of one subscription run one after another; changes of different subscriptions share commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial

from messaging.broker.core.client_usage import DepartedSubscriptions
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursor import Cursor
from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.inactivity import IdleTimes
from messaging.broker.core.memory_charge import pairs_bytes
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription import Subscription, subscription_key
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.topics.delayed import overrides as delay_overrides
from messaging.broker.runtime.topics.limits.admission import check_consumer, check_durable_subscription
from messaging.broker.runtime.topics.limits.shared_limits import check_another_consumer, room_for_subscription
from messaging.broker.runtime.topics.services import TopicServices, refusal_of
from messaging.broker.runtime.topics.subscriptions import dead_letter_state
from messaging.broker.runtime.topics.subscriptions.cursor_recovery import recovered_cursor
from messaging.broker.runtime.topics.subscriptions.effects import NO_SUBSCRIPTIONS, SubscriptionEffects
from messaging.broker.runtime.topics.subscriptions.properties import SubscriptionProperties
from messaging.errors import ConsumerBusy, MagnetarError, NotReady, PreconditionFailed
from messaging.keyed_lock import keyed_lock
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position, StoreError
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.meta_store import MetaConflict, SubscriptionRecord

LATEST = Position(2**63 - 1, 2**63 - 1)
SEEK_RETURN_S = 60.0  # how long a reader whose own seek closed it may take to reconnect


class TopicSubscriptions(SubscriptionEffects):
    __slots__ = ("_changes", "_properties", "departed", "idle")

    def __init__(self, name: TopicName, services: TopicServices, ledger: ManagedLedger) -> None:
        super().__init__(name, services, ledger)
        # Subscriptions that are being created, deleted or moved, by key; the future is done when the change is complete.
        self._changes: dict[str, asyncio.Future[None]] | None = None
        self._properties: SubscriptionProperties | None = None  # None: no subscription has any
        self.departed: DepartedSubscriptions | None = None  # what subscriptions that are gone were sent
        self.idle = IdleTimes(ledger.record.idle_since, ledger.record.created_ms)

    # --- admitting

    def attach_consumer(
        self, subscription: Subscription, consumer: Consumer, kind: SubscriptionType, admitted: Callable[[], None] = lambda: None
    ) -> None:
        """`admitted` is called once nothing can refuse the consumer any more, before anything is sent to it.

        Raises `NotReady`, `ConsumerBusy`, `NotAllowed`, and whatever `PermissionChecks.admit` raises if the permission was
        withdrawn meanwhile; in that case a reader's subscription is removed.
        """
        try:
            self.check_open()
            if not self.holds(subscription):
                raise NotReady(f"subscription {subscription.name!r} was deleted meanwhile: subscribe again")
            subscription.admit(consumer, kind)
            check_consumer(self, subscription, kind)
            check_another_consumer(self)
            if consumer.session is not None:
                self.services.admit(consumer.session)
        except MagnetarError:
            self.drop_if_idle(subscription)
            raise
        admitted()
        subscription.attach(consumer, kind)
        self.services.limits.consumers.add(self.name, 1)
        self.services.memory.cursor_memory.changed(self.name.tenant, subscription)
        if consumer.read_compacted and subscription.durable:
            self.cursor_changes.finish_all(subscription, subscription.state.pass_over_end(), None)

    # --- creating, moving and deleting

    def restore(self, record: SubscriptionRecord) -> Subscription:
        """Restores a stored subscription."""
        cursor = recovered_cursor(self.services, self.ledger_list, record)
        self.idle.restored(record.name, record.created_ms)
        return self._new_subscription(record.name, cursor, record.subscription_id, record.properties, record.created_ms)

    def claim(self) -> None:
        """Takes over the recovered deltas. Called last, because a load that fails must leave them for the next one."""
        for subscription in self.subscriptions.values():
            cursor = subscription.cursor
            self.services.stores.cursors.claim(subscription.subscription_id, cursor)
            if cursor.individual_acks or cursor.batches:
                self.services.memory.cursor_memory.charge(self.name.tenant, subscription)
            if subscription.properties:
                self._properties_memory().change(pairs_bytes(subscription.properties))

    def _properties_memory(self) -> SubscriptionProperties:
        if self._properties is None:
            self._properties = SubscriptionProperties(self.services.memory.records, self.name.tenant, self.text)
        return self._properties

    def _room_for(self, properties: dict[str, str] | None, before: dict[str, str] | None = None) -> AbstractContextManager[None]:
        """They are stored inside this context, in place of those of `before`. Raises `PreconditionFailed`, `NotReady`."""
        more_bytes = pairs_bytes(properties or {}) - pairs_bytes(before or {})
        return self._properties_memory().change_if_done(more_bytes) if more_bytes else nullcontext()

    def release_properties(self) -> None:
        """Called when the topic is closed. Idempotent."""
        if self._properties is not None:
            self._properties.end()

    def _new_subscription(self, name: str, cursor: Cursor, id_: int, properties: dict[str, str], created_ms: int) -> Subscription:
        made = self._make_subscription(name, cursor, id_, properties)
        made.created_ms = created_ms
        return self._add(made)

    def _make_subscription(self, name: str, cursor: Cursor, subscription_id: int, properties: dict[str, str]) -> Subscription:
        return Subscription(
            name,
            cursor,
            self.ledger_list,
            subscription_id=subscription_id,
            durable=subscription_id != 0,
            topic=self.text,
            partition=self.name.partition,
            unacked_max=self.services.policies.value("max_unacked_per_consumer", self.name),
            unacked_of_all_max=self.services.policies.value("max_unacked_per_subscription", self.name),
            key_shared=self.services.limits.key_shared,
            properties=properties,
        )

    def _add(self, subscription: Subscription) -> Subscription:
        may_keep = partial(self.services.memory.cursor_memory.allows, self.name.tenant)
        subscription.may_keep = subscription.state.redeliveries.may_keep = may_keep
        delay_overrides.acknowledge_in(self, subscription)
        if self.subscriptions is NO_SUBSCRIPTIONS:
            self.subscriptions = {}
        self.subscriptions[subscription.key] = subscription
        return subscription

    @property
    def overrides(self) -> Overrides | None:
        """What was decided of delayed messages after they were published; None: nothing."""
        return None if self._dispatcher is None else self._dispatcher.overrides

    @asynccontextmanager
    async def _change(self, key: str) -> AsyncIterator[None]:
        """Serialises the creates, deletes and moves of the subscription with this key. None starts once the topic is closing, and
        closing waits for those in progress. Errors of the store are raised as `NotReady` or `StorageFailed`.
        """
        if self._changes is None:
            self._changes = {}
        async with keyed_lock(self._changes, key):
            self.check_open()
            try:
                yield
            except StoreError as error:
                raise refusal_of(error, f"subscription {key.rstrip()!r} of {self.text} cannot be changed") from error

    async def create_subscription(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        """Creates a durable subscription whose first entry is at `start` (`EARLIEST`, `LATEST`, or a position).

        Raises `MetaConflict` if it exists, `NotReady`, `StorageFailed`.
        """
        if name not in self.subscriptions:
            self._check_room()
            check_durable_subscription(self, self._being_created)
        async with self._change(name):
            if name in self.subscriptions:
                raise MetaConflict(name)
            mark_delete = self.mark_delete_for(start)
            async with room_for_subscription(self):
                with self._room_for(properties):
                    record = await self.services.stores.storage.meta.create_subscription(
                        self.services.stores.storage.fence,
                        self.text,
                        name,
                        created_ms=self.services.clock_ms(),
                        mark_delete=mark_delete,
                        properties=properties or {},
                    )
            made = self._new_subscription(name, Cursor(mark_delete), record.subscription_id, record.properties, record.created_ms)
            self.services.stores.cursors.claim(record.subscription_id, made.cursor)
            self.idle.left(name, self.ledger.stamp())
            return made

    @property
    def _being_created(self) -> int:
        """The number being created. Those being moved or deleted are already counted as subscriptions."""
        return sum(name not in self.subscriptions for name in self._changes or ())

    def _check_room(self) -> None:
        """Raises `PreconditionFailed` if one more subscription is too many; those being created count."""
        limit, held = self.services.limits.subscriptions_max, len(self.subscriptions)
        if held + self._being_created >= limit:
            raise PreconditionFailed(
                f"topic {self.text} has {held} subscriptions, which is subscriptions_per_topic_max = {limit}: delete unused ones"
            )

    def create_reader(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        """Creates a non-durable subscription, which lives as long as its consumer. Raises `NotReady`."""
        self.check_open()
        if self._changes and subscription_key(name, durable=False) in self._changes:
            raise NotReady(f"subscription {name!r} is being moved or deleted: try again")
        self._check_room()
        with self._room_for(properties):
            return self._new_subscription(name, Cursor(self.mark_delete_for(start)), 0, properties or {}, self.services.clock_ms())

    def mark_delete_for(self, start: Position) -> Position:
        """The mark-delete position that makes `start` the first entry read."""
        ledger_list = self.ledger_list
        return ledger_list.mark_at_end if start == LATEST else ledger_list.mark_before(start)

    async def delete_subscription(self, key: str, *, force: bool = True) -> None:
        """Without `force`, deletes the subscription only if it has no consumers. Does nothing if none has this key (the name of a
        durable one). Raises `PreconditionFailed`, `NotReady`, `StorageFailed`; it is then not deleted.
        """
        async with self._change(key):
            subscription = self.subscriptions.get(key)
            if subscription is None:
                return
            if subscription.consumers and not force:
                raise PreconditionFailed(f"subscription {subscription.name!r} has consumers: close them, or delete with force")
            subscription.fenced = True
            try:
                self.close_consumers(subscription)
                if subscription.durable:
                    await self.services.stores.storage.meta.delete_subscription(
                        self.services.stores.storage.fence, self.text, subscription.name
                    )
                    self.services.limits.subscription_counts.forget(self.name.tenant)
                self.subscriptions.pop(key, None)
                self.idle.forget(key, self.ledger.stamp())
                self._removed(subscription)
                if subscription.dead_letters is not None:
                    await dead_letter_state.save(self)
                self.services.memory.cursor_memory.release(self.name.tenant, subscription)
                self.services.stores.cursors.forget(subscription.subscription_id)
            finally:
                subscription.fenced = False

    async def set_properties(self, subscription: Subscription, properties: dict[str, str]) -> None:
        """Replaces the subscription's properties. Raises `NotReady`, `SubscriptionNotFound`, `StorageFailed`."""
        async with self._change(subscription.key):
            self.check_current(subscription)
            with self._room_for(properties, subscription.properties):
                if subscription.durable:
                    await self.services.stores.storage.meta.set_subscription_properties(
                        self.services.stores.storage.fence, self.text, subscription.name, properties
                    )
            subscription.properties = properties

    def detach(self, subscription: Subscription, consumer: Consumer) -> None:
        self.services.limits.consumers.add(self.name, -int(consumer in subscription.consumers))
        try:
            subscription.detach(consumer)
        except Exception as error:
            self.dispatch_failed(subscription, error)
        self.services.memory.cursor_memory.changed(self.name.tenant, subscription)  # what it held is given back
        if not subscription.consumers:
            self._left(subscription)
            self._release_reads(subscription)
            self.drop_if_idle(subscription)
        self.dispatch_soon(subscription)

    def drop_if_idle(self, subscription: Subscription) -> None:
        """Removes a non-durable subscription when its last consumer leaves, unless a seek closed its consumers. Of a topic that is
        closed nothing is removed: it releases everything together."""
        stays = subscription.durable or subscription.consumers or subscription.fenced or self.closed is not None
        if not stays and self.holds(subscription):
            del self.subscriptions[subscription.key]
            self._removed(subscription)
            self.services.memory.cursor_memory.release(self.name.tenant, subscription)

    async def seek(self, subscription: Subscription, target: SeekTarget) -> None:
        """Moves a subscription so that it continues at `target`. Returns when that is durable.

        Its consumers are closed and reconnect. Raises `ConsumerBusy` while another seek runs, `StorageFailed`.
        """
        if subscription.fenced:
            raise ConsumerBusy(f"subscription {subscription.name!r} is being moved or deleted by another request: try again")
        async with self._change(subscription.key):
            self.check_current(subscription)
            subscription.fenced = True
            try:
                self.close_consumers(subscription)
                *first, last = [*subscription.reset(target), *delay_overrides.acknowledge_in(self, subscription)]
                for delta in first:
                    self.cursor_changes.store(subscription, delta)
                await self.cursor_changes.finish_durably(subscription, last, "the seek")
            finally:
                subscription.fenced = False
                if not subscription.durable:
                    asyncio.get_running_loop().call_later(SEEK_RETURN_S, self.drop_if_idle, subscription)

    async def wait_until_unchanged(self, subscription: Subscription) -> None:
        """Waits for a change in progress: the C++ client does not retry when its first SUBSCRIBE is refused temporarily."""
        while self._changes and subscription.key in self._changes:
            await asyncio.wait([self._changes[subscription.key]])

    def _left(self, subscription: Subscription) -> None:
        """Its last consumer left."""
        if subscription.durable and self.holds(subscription):
            self.idle.left(subscription.name, self.ledger.stamp())
        else:
            self.idle.topic_ms = self.ledger.stamp()

    def close_consumers(self, subscription: Subscription) -> None:
        if subscription.consumers:
            self._left(subscription)
            self.services.limits.consumers.add(self.name, -len(subscription.consumers))
        for consumer in list(subscription.consumers):
            with self.services.loops.dispatching.guard(topic=self.text, consumer=consumer.name):
                subscription.detach(consumer)
            with self.services.loops.dispatching.guard(topic=self.text, consumer=consumer.name):
                consumer.sink.closed(consumer)
        self._release_reads(subscription)

    def _removed(self, subscription: Subscription) -> None:
        if subscription.properties:
            self._properties_memory().change(-pairs_bytes(subscription.properties))
        if subscription.departed:
            self.departed = self.departed or DepartedSubscriptions()
            self.departed.add(subscription.name if subscription.durable else "", subscription.departed)
        if self._dispatcher is not None:
            self._dispatcher.removed(subscription)

    def _release_reads(self, subscription: Subscription) -> None:
        if self._dispatcher is not None:
            self._dispatcher.forget(subscription)
