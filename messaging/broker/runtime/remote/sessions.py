"""Opens producers and consumers of clients of this broker on topics of others."""

from __future__ import annotations

from messaging.broker.core.subscription_type import SubscriptionType
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import ConsumerListener, InitialPosition, MessagePosition, ProducerListener
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.ownership.owners import Elsewhere
from messaging.broker.runtime.remote.consumer import RemoteConsumer
from messaging.broker.runtime.remote.links import BrokerLinks
from messaging.broker.runtime.remote.producer import RemoteProducer
from messaging.permissions.model import Principal
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position


class RemoteSessions:
    """A `RemoteService`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.links = BrokerLinks(broker)

    async def open_producer(
        self,
        principal: Principal,
        topic: TopicName,
        name: str,
        sink: ProducerListener,
        elsewhere: Elsewhere,
        *,
        encrypts: bool,
    ) -> RemoteProducer:
        use = await self.links.take(principal, elsewhere, str(topic.base))
        producer = RemoteProducer(self._broker, topic, sink, principal, use)
        await producer.begin(name, encrypts=encrypts)
        return producer

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
    ) -> RemoteConsumer:
        durable = durable and topic.persistent
        use = await self.links.take(principal, elsewhere, "")
        consumer = RemoteConsumer(
            self._broker, topic, subscription, sink, principal, use, durable=durable, shared=shared, wanted=wanted
        )
        await consumer.begin(kind, initial, start, durable=durable, consumer_name=consumer_name, priority=priority, create=create)
        return consumer
