"""Admin RPC: disconnecting producers and consumers. On a partitioned topic on every partition, in slices of the turns."""

from __future__ import annotations

from messaging.adminrpc.clients import CONSUMER, KINDS, PRODUCER, ClientsDisconnect, ClientsDisconnected
from messaging.adminrpc.methods import CLIENTS_DISCONNECT
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.producers.producer import Producer
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.naming import parts_of, topic_name
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.detach import DETACH_COST
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.errors import InvalidValue, TopicNotFound

LOOK_COST = 1  # at one client that stays, in units of `core/turns/command_costs.py`


class ClientHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(CLIENTS_DISCONNECT)
    async def disconnect(self, request: ClientsDisconnect) -> ClientsDisconnected:
        """A topic that is not loaded has no clients. Those that connect meanwhile may stay."""
        if request.kind and request.kind not in KINDS:
            raise InvalidValue(f"kind {request.kind!r} is not known: use {' or '.join(KINDS)}, or leave it out")
        if request.kind == PRODUCER and request.subscription:
            raise InvalidValue("a producer has no subscription: leave it out, or ask for consumers")
        topics = self._broker.topics
        name = await topic_name(self._broker, request.topic)
        parts = await parts_of(self._broker, name)
        if not parts.partitioned and not await topics.exists(name):
            raise TopicNotFound(f"topic {name} does not exist")
        slices = topics.services.loops.slices(name.tenant)
        answer = ClientsDisconnected()
        for part in parts.names:
            await slices.spend(LOOK_COST)
            topic = topics.loaded.get(str(part))
            if topic is None:
                continue
            if request.kind != CONSUMER and not request.subscription:
                answer.producers += await _producers(topic, request, slices)
            if request.kind != PRODUCER:
                answer.consumers += await _consumers(topic, request, slices)
        return answer


async def _producers(topic: Topic, request: ClientsDisconnect, slices: TurnSlices) -> int:
    count = 0
    for producer in list(topic.producers):
        fits = _fits(producer, request)
        await slices.spend(DETACH_COST if fits and not request.dry_run else LOOK_COST)
        if not fits or producer.closed:
            continue
        count += 1
        if not request.dry_run:
            topic.producers.disconnect(producer)
    return count


async def _consumers(topic: Topic, request: ClientsDisconnect, slices: TurnSlices) -> int:
    count = 0
    for subscription in list(topic.subscriptions.table.values()):
        await slices.spend(LOOK_COST)
        if request.subscription and subscription.name != request.subscription:
            continue
        for consumer in list(subscription.consumers):
            fits = _fits(consumer, request)
            await slices.spend(DETACH_COST if fits and not request.dry_run else LOOK_COST)
            if not fits or consumer not in subscription.consumers:
                continue
            count += 1
            if not request.dry_run:
                topic.consumers.disconnect(subscription, consumer)
    return count


def _fits(client: Producer | Consumer, request: ClientsDisconnect) -> bool:
    return (not request.name or client.name == request.name) and (not request.address or client.client.address == request.address)
