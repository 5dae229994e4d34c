"""Producers and consumers of the binary protocol as `OpenSession`: the permission they use, and how to close them when it is
withdrawn.

The client is told that they were closed and reconnects, as after an unload; its lookup is then refused with AuthorizationError.
"""

from __future__ import annotations

from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire.connection import Connection
from messaging.errors import MagnetarError
from messaging.permissions.model import Action, Principal, Resource


class _BinarySession:
    """`opened_id` identifies it on its connection."""

    __slots__ = ("__weakref__", "connection", "opened_id", "topic")

    def __init__(self, connection: Connection, topic: Topic, opened_id: int) -> None:
        self.connection = connection
        self.topic = topic
        self.opened_id = opened_id

    @property
    def principal(self) -> Principal:
        assert self.connection.principal is not None
        return self.connection.principal


class BinaryProducerSession(_BinarySession):
    __slots__ = ()

    action = Action.PRODUCE

    @property
    def resource(self) -> Resource:
        return self.topic.resource()

    def end(self, error: MagnetarError) -> None:
        endpoints = self.connection.endpoints
        attached = endpoints.opening.get(self.opened_id) or endpoints.producers.get(self.opened_id)
        producer = attached[1] if attached is not None else None
        if producer is not None and producer.session is self and not producer.closed:
            self.topic.producers.detach(producer)
            producer.sink.closed(producer)


class BinaryConsumerSession(_BinarySession):
    __slots__ = ("subscription",)

    action = Action.CONSUME

    def __init__(self, connection: Connection, topic: Topic, opened_id: int, subscription: str) -> None:
        super().__init__(connection, topic, opened_id)
        self.subscription = subscription

    @property
    def resource(self) -> Resource:
        return self.topic.resource(self.subscription)

    def end(self, error: MagnetarError) -> None:
        _, subscription, consumer = self.connection.endpoints.consumers.get(self.opened_id, (None, None, None))
        if subscription is not None and consumer is not None and consumer.session is self:
            consumer.sink.closed(consumer)
            self.topic.consumers.detach(subscription, consumer)
