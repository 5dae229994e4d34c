"""The interface of what opens producers and consumers on topics of other brokers."""

from __future__ import annotations

from typing import Protocol

from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.local.messages import (
    ConsumerListener,
    InitialPosition,
    MessagePosition,
    ProducerHandle,
    ProducerListener,
)
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.local.topic_consumer import PartConsumer
from messaging.broker.runtime.ownership.owners import Elsewhere
from messaging.permissions.model import Principal
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position


class RemoteService(Protocol):
    """The caller has authorised what it opens; the other broker does so again."""

    async def open_producer(
        self,
        principal: Principal,
        topic: TopicName,
        name: str,
        sink: ProducerListener,
        elsewhere: Elsewhere,
        *,
        encrypts: bool,
    ) -> ProducerHandle: ...

    async def open_consumer(
        self,
        principal: Principal,
        topic: TopicName,
        subscription: str,
        kind: SubscriptionType,
        initial: InitialPosition,
        durable: bool,
        start: MessagePosition | None,
        sink: ConsumerListener,
        elsewhere: Elsewhere,
        *,
        consumer_name: str,
        priority: int,
        shared: SharedPermits,
        wanted: dict[Position, int],
        create: bool,
    ) -> PartConsumer: ...
