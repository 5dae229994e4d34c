"""The consumers of a topic: attaching them to subscriptions, and what they ask for. Each method makes the change and dispatches
what became possible; the caller has nothing left to do.

A consumer is checked and attached in one step, with nothing awaited in between, so none can be attached to a topic that is closing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.diagnosis.explain import DeliveryState
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.topics.dispatch.delivery_state import delivery_state
from messaging.broker.runtime.topics.limits.admission import check_consumer
from messaging.broker.runtime.topics.limits.shared_limits import check_another_consumer
from messaging.broker.runtime.topics.moving import Moving
from messaging.broker.runtime.topics.subscriptions.topic_subscriptions import SubscriptionsTopic, TopicSubscriptions
from messaging.errors import ConsumerBusy, MagnetarError, NotAllowed, NotReady


class TopicConsumers:
    __slots__ = ("_subscriptions", "_topic")

    def __init__(self, topic: SubscriptionsTopic, subscriptions: TopicSubscriptions) -> None:
        self._topic = topic
        self._subscriptions = subscriptions

    # --- admitting, and leaving

    def attach(
        self, subscription: Subscription, consumer: Consumer, kind: SubscriptionType, admitted: Callable[[], None] = lambda: None
    ) -> None:
        """`admitted` is called once nothing can refuse the consumer any more, before anything is sent to it.

        Raises `NotReady`, `ConsumerBusy`, `NotAllowed`, and whatever `PermissionChecks.admit` raises if the permission was
        withdrawn meanwhile; in that case a reader's subscription is removed.
        """
        topic = self._topic
        try:
            topic.check_open()
            if not self._subscriptions.holds(subscription):
                raise NotReady(f"subscription {subscription.name!r} was deleted meanwhile: subscribe again")
            subscription.admit(consumer, kind)
            check_consumer(topic, subscription, kind)
            check_another_consumer(topic)
            if consumer.session is not None:
                topic.services.admit(consumer.session)
        except MagnetarError as error:
            if isinstance(error, ConsumerBusy | NotAllowed):
                subscription.refused = subscription.refused.and_one(error.message, topic.services.clock_ms())
            self._subscriptions.drop_if_idle(subscription)
            raise
        admitted()
        subscription.attach(consumer, kind)
        topic.services.limits.consumers.add(topic.name, 1)
        topic.services.memory.cursor_memory.changed(topic.name.tenant, subscription)
        if consumer.read_compacted and subscription.durable:
            topic.cursor_changes.finish_all(subscription, subscription.state.pass_over_end(), None)

    def detach(self, subscription: Subscription, consumer: Consumer) -> None:
        topic = self._topic
        topic.services.limits.consumers.add(topic.name, -int(consumer in subscription.consumers))
        try:
            subscription.detach(consumer)
        except Exception as error:
            topic.dispatcher.failed(subscription, error)
        topic.services.memory.cursor_memory.changed(topic.name.tenant, subscription)  # what it held is given back
        if not subscription.consumers:
            self._left(subscription)
            self._release_reads(subscription)
            self._subscriptions.drop_if_idle(subscription)
        topic.dispatcher.dispatch_soon(subscription)

    def close(self, subscription: Subscription) -> None:
        """Closes all consumers of a subscription."""
        topic = self._topic
        dispatching = topic.services.loops.dispatching
        if subscription.consumers:
            self._left(subscription)
            topic.services.limits.consumers.add(topic.name, -len(subscription.consumers))
        for consumer in list(subscription.consumers):
            with dispatching.guard(topic=topic.text, consumer=consumer.name):
                subscription.detach(consumer)
            if isinstance(topic.closed, Moving):
                topic.closed.when_told(partial(self._say_closed, consumer))
            else:
                self._say_closed(consumer)
        self._release_reads(subscription)

    def _say_closed(self, consumer: Consumer) -> None:
        with self._topic.services.loops.dispatching.guard(topic=self._topic.text, consumer=consumer.name):
            consumer.sink.closed(consumer)

    def disconnect(self, subscription: Subscription, consumer: Consumer) -> None:
        """Closes one consumer. It connects again, unless the topic refuses it then; what it held is delivered again."""
        self.detach(subscription, consumer)
        with self._topic.services.loops.dispatching.guard(topic=self._topic.text, consumer=consumer.name):
            consumer.sink.closed(consumer)

    def _left(self, subscription: Subscription) -> None:
        """Its last consumer left."""
        topic = self._topic
        if subscription.durable and self._subscriptions.holds(subscription):
            topic.idle.left(subscription.name, topic.ledger.stamp())
        else:
            topic.idle.topic_ms = topic.ledger.stamp()

    def _release_reads(self, subscription: Subscription) -> None:
        if self._topic.started_dispatcher is not None:
            self._topic.started_dispatcher.forget(subscription)

    # --- what they ask for

    def flow(self, subscription: Subscription, consumer: Consumer, permits: int) -> None:
        consumer.flow(permits, self._topic.services.clock_ms())
        self._topic.dispatcher.dispatch_soon(subscription)

    def return_permits(self, subscription: Subscription, consumer: Consumer, permits: int) -> None:
        """Returns the permits of messages that were not delivered."""
        consumer.give_back(permits)
        self._topic.dispatcher.dispatch_soon(subscription)

    def wake(self, subscription: Subscription, consumer: Consumer) -> None:
        """The consumer's connection can be written to again."""
        consumer.wake()
        self._topic.dispatcher.dispatch_soon(subscription)

    # --- what else they may have to be sent

    def follow_dead_letters(self, subscription: Subscription) -> None:
        """The dead-letter policy was set or removed: entries that waited to be moved may have to be sent again."""
        subscription.follow_dead_letters(subscription.dead_letters)
        self._topic.dispatcher.dispatch_soon(subscription)

    def resume(self, subscription: Subscription) -> None:
        """After a recovery of dead letters: it is known what was moved, and consumers are sent the rest."""
        subscription.recovering = False
        self._topic.dispatcher.dispatch_soon(subscription)

    def delivery_state(self, subscription: Subscription) -> DeliveryState:
        """What stands in the way of a delivery, beside the subscription itself."""
        dispatcher = self._topic.started_dispatcher
        if dispatcher is None:
            return DeliveryState(closing=self._topic.closed is not None, now_ms=self._topic.services.clock_ms())
        return delivery_state(dispatcher, subscription)
