"""The subscriptions of a topic that keeps its messages: restoring, creating and moving them."""

from __future__ import annotations

import asyncio

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.delayed.overrides import acknowledge_cancelled
from messaging.broker.core.memory.memory_charge import pairs_bytes
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription import Subscription, subscription_key
from messaging.broker.runtime.topics.limits.admission import check_durable_subscription
from messaging.broker.runtime.topics.limits.shared_limits import room_for_subscriptions
from messaging.broker.runtime.topics.subscriptions.cursor_recovery import recovered_cursor
from messaging.broker.runtime.topics.subscriptions.topic_subscriptions import TopicSubscriptions
from messaging.errors import ConsumerBusy, NotReady
from messaging.storage.ledger_store import Position
from messaging.storage.meta_store import MetaConflict, SubscriptionRecord

SEEK_RETURN_S = 60.0  # how long a reader whose own seek closed it may take to reconnect


class PersistentSubscriptions(TopicSubscriptions):
    __slots__ = ()

    def restore(self, record: SubscriptionRecord) -> Subscription:
        """Restores a stored subscription."""
        cursor = recovered_cursor(self._topic.services, self._topic.ledger_list, record)
        self._topic.idle.restored(record.name, record.created_ms)
        return self._make(record.name, cursor, record.subscription_id, record.properties, record.created_ms)

    def claim(self) -> None:
        """Takes over the recovered deltas. Called last, because a load that fails must leave them for the next one."""
        services = self._topic.services
        for subscription in self.table.values():
            cursor = subscription.cursor
            services.stores.cursors.claim(subscription.subscription_id, cursor)
            if cursor.individual_acks or cursor.batches:
                services.memory.cursor_memory.charge(self._topic.name.tenant, subscription)
            if subscription.properties:
                self.properties_memory.change(pairs_bytes(subscription.properties))

    def _make(self, name: str, cursor: Cursor, subscription_id: int, properties: dict[str, str], created_ms: int) -> Subscription:
        topic, policies = self._topic, self._topic.services.policies
        made = Subscription(
            name,
            cursor,
            topic.ledger_list,
            subscription_id=subscription_id,
            durable=subscription_id != 0,
            topic=topic.text,
            partition=topic.name.partition,
            unacked_max=policies.value("max_unacked_per_consumer", topic.name),
            unacked_of_all_max=policies.value("max_unacked_per_subscription", topic.name),
            key_shared=topic.services.limits.key_shared,
            properties=properties,
        )
        made.created_ms = created_ms
        self._acknowledge_cancelled(made)
        return self._add(made)

    def _acknowledge_cancelled(self, subscription: Subscription) -> list[bytes]:
        """What was cancelled is never sent to this subscription either, which is new, was moved or recovered. Returns the deltas,
        which need not be stored: a start does the same again."""
        dispatcher = self._topic.started_dispatcher
        overrides = None if dispatcher is None else dispatcher.overrides
        return [] if overrides is None else acknowledge_cancelled(overrides, subscription.cursor, self._topic.ledger_list)

    async def create(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        topic, storage = self._topic, self._topic.services.stores.storage
        if name not in self.table:
            self._check_room()
            check_durable_subscription(topic, self._being_created)
        async with self._change(name):
            if name in self.table:
                raise MetaConflict(name)
            mark_delete = topic.ledger_list.mark_for(start)
            async with room_for_subscriptions(topic.services, topic.name):
                with self._room_for(properties):
                    record = await storage.meta.create_subscription(
                        storage.fence_of(topic.text),
                        topic.text,
                        name,
                        created_ms=topic.services.clock_ms(),
                        mark_delete=mark_delete,
                        properties=properties or {},
                    )
            made = self._make(name, Cursor(mark_delete), record.subscription_id, record.properties, record.created_ms)
            topic.services.stores.cursors.claim(record.subscription_id, made.cursor)
            topic.idle.left(name, topic.ledger.stamp())
            return made

    def create_reader(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        topic = self._topic
        topic.check_open()
        if self.changes and subscription_key(name, durable=False) in self.changes:
            raise NotReady(f"subscription {name!r} is being moved or deleted: try again")
        self._check_room()
        with self._room_for(properties):
            cursor = Cursor(topic.ledger_list.mark_for(start))
            return self._make(name, cursor, 0, properties or {}, topic.services.clock_ms())

    async def seek(self, subscription: Subscription, target: SeekTarget) -> None:
        """Its consumers are closed and reconnect. Raises `ConsumerBusy` while another seek runs, `StorageFailed`."""
        if subscription.fenced:
            raise ConsumerBusy(f"subscription {subscription.name!r} is being moved or deleted by another request: try again")
        topic = self._topic
        async with self._change(subscription.key):
            self.check_current(subscription)
            subscription.fenced = True
            try:
                topic.consumers.close(subscription)
                *first, last = [*subscription.reset(target), *self._acknowledge_cancelled(subscription)]
                for delta in first:
                    topic.cursor_changes.store(subscription, delta)
                await topic.cursor_changes.finish_durably(subscription, last, "the seek")
            finally:
                subscription.fenced = False
                if not subscription.durable:
                    asyncio.get_running_loop().call_later(SEEK_RETURN_S, self.drop_if_idle, subscription)

    def policies_changed(self) -> None:
        """The limits of unacknowledged messages may be others."""
        policy, name = self._topic.services.policies.value, self._topic.name
        limits = policy("max_unacked_per_consumer", name), policy("max_unacked_per_subscription", name)
        for subscription in self.table.values():
            subscription.state.limit_unacked(*limits)
            if subscription.consumers:
                self._topic.dispatcher.dispatch_soon(subscription)
