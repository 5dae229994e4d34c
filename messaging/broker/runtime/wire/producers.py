"""Opening and closing producers of the binary protocol."""

from __future__ import annotations

import asyncio

from messaging.broker.core.producers import Producer
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.client_subscriptions import open_subscription
from messaging.broker.runtime.liveness_probe import probe_producer
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.sessions import BinaryProducerSession
from messaging.errors import NotAllowed
from messaging.permissions.model import Action, Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic, subscription_name


async def open_producer(service: Broker, connection: Connection, body: pb.Producer, resource: Resource) -> None:
    held = connection.endpoints.producers.get(body.producer_id)
    if held is not None and not held[1].closed and (held[0].text != resource.topic or body.epoch <= held[1].epoch):
        _success(connection, body.request_id, *held)  # a repeated request: same answer
        return
    if body.producer_access_mode != pb.Producer.Shared:
        mode = pb.Producer.AccessMode.Name(body.producer_access_mode)
        raise NotAllowed(f"access mode {mode} is not supported yet: open the producer with access mode Shared")
    topic = await service.open_topic(parse_topic(resource.topic))
    await topic.writable()
    if body.initial_subscription_name:
        name = subscription_name(body.initial_subscription_name)
        assert connection.principal is not None
        await service.authorize(connection.principal, Action.CONSUME, resource._replace(subscription=name))
        await open_subscription(service, connection.principal, topic, name, earliest=True)
    if body.producer_name:
        await probe_producer(topic.producers, body.producer_name)
    if connection.closed:  # the client disconnected while the topic was opened
        return
    name = body.producer_name or service.new_producer_name()
    producer = Producer(body.producer_id, name, connection.producer_sink, epoch=body.epoch, now_ms=service.now_ms())
    if body.metadata:
        producer.metadata = {pair.key: pair.value for pair in body.metadata}
    producer.client = connection.client_info
    connection.endpoints.check_room(producer.name, producer.metadata)
    producer.session = BinaryProducerSession(connection, topic, body.producer_id)
    topic.attach_producer(producer)
    connection.endpoints.add_producer(topic, producer)
    _success(connection, body.request_id, topic, producer)


def _success(connection: Connection, request_id: int, topic: Topic, producer: Producer) -> None:
    last = topic.publisher.last_sequence_id(producer.name_bytes)
    answer = pb.ProducerSuccess(request_id=request_id, producer_name=producer.name, last_sequence_id=last, schema_version=b"")
    connection.send(frames.command(pb.Command.PRODUCER_SUCCESS, producer_success=answer))


async def close_producer(service: Broker, connection: Connection, body: pb.CloseProducer, resource: Resource) -> None:
    """Always answers SUCCESS, after the receipts of earlier messages (Pulsar's order)."""
    held = connection.endpoints.producers.get(body.producer_id)
    if held is not None:
        topic, producer = held
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        topic.publisher.run_after_pending(lambda _: None if answered.done() else answered.set_result(None))
        await answered
        topic.detach_producer(producer)
        if connection.endpoints.producers.get(body.producer_id) is held:
            connection.endpoints.end_producer(body.producer_id)
    connection.send(frames.success(body.request_id))
