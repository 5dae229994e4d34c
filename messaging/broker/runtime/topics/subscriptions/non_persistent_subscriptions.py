"""The subscriptions of a non-persistent topic: each ends with its last consumer."""

from __future__ import annotations

from messaging.broker.core.non_persistent import NonPersistentSubscription
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.limits.admission import check_subscription_count
from messaging.broker.runtime.topics.subscriptions.topic_subscriptions import TopicSubscriptions
from messaging.errors import NotAllowed, NotReady
from messaging.storage.ledger_store import Position


class NonPersistentSubscriptions(TopicSubscriptions):
    __slots__ = ()

    async def create(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        raise NotAllowed(f"{self._topic.text} is a non-persistent topic: its subscriptions exist only while they have consumers")

    def create_reader(self, name: str, start: Position, properties: dict[str, str] | None = None) -> Subscription:
        """The subscription of this name, made where there is none."""
        topic = self._topic
        topic.check_open()
        known = self.find(name)
        if known is not None:
            return known
        check_subscription_count(topic)
        made = NonPersistentSubscription(
            name,
            topic=topic.text,
            partition=topic.name.partition,
            key_shared=topic.services.limits.key_shared,
            properties=properties,
        )
        if self.changes and made.key in self.changes:
            raise NotReady(f"subscription {name!r} is being moved or deleted: try again")
        self._check_room()
        with self._room_for(properties):
            made.created_ms = topic.services.clock_ms()
            return self._add(made)

    def check_unused(self, subscription: Subscription) -> None:
        """It is deleted with its consumers: without them there is none."""

    async def delete(self, key: str, *, force: bool = True) -> None:
        """Even while it has consumers, as by Pulsar: without them there is none."""
        await super().delete(key)

    async def seek(self, subscription: Subscription, target: SeekTarget) -> None:
        """Nothing happens, as in Pulsar: there is nothing to go back to."""
        self.check_current(subscription)

    def policies_changed(self) -> None:
        """Nobody holds anything unacknowledged, so there is no limit of it to follow."""
