"""Opening and closing producers of the binary protocol."""

from __future__ import annotations

from messaging.broker.core.producers.access_modes import AccessMode, Answer
from messaging.broker.core.producers.producer import NO_EPOCH, Producer
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.client_subscriptions import open_subscription
from messaging.broker.runtime.liveness_probe import probe_producers
from messaging.broker.runtime.topics.limits.admission import check_spend_cap
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.schemas import given_schema, role_of
from messaging.broker.runtime.wire.sessions import BinaryProducerSession
from messaging.broker.runtime.wire.sinks import producer_success
from messaging.errors import MagnetarError, NotAllowed, NotReady, SubscriptionNotFound
from messaging.permissions.model import Action, Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic, subscription_name
from messaging.storage.ledger_store import EARLIEST


async def open_producer(service: Broker, connection: Connection, body: pb.Producer, resource: Resource) -> None:
    endpoints = connection.endpoints
    attached = endpoints.producers.get(body.producer_id)
    if attached is not None and not attached[1].closed and (attached[0].text != resource.topic or body.epoch <= attached[1].epoch):
        connection.send(producer_success(body.request_id, *attached))  # a repeated request: same answer
        return
    opening = endpoints.opening.get(body.producer_id)
    if opening is not None:
        if body.epoch <= opening.producer.epoch:
            raise NotReady(f"producer {body.producer_id} waits for exclusive access to {opening.topic.text} already")
        opening.topic.producers.detach(opening.producer)  # on a later try it queues again
        endpoints.end_opening(opening.producer)
    topic = await service.open_topic(parse_topic(resource.topic), writable=True)
    await topic.writable()
    schema_version = await service.schemas.check_producer(topic.name, given_schema(body), role_of(connection), connection.address)
    if body.initial_subscription_name and topic.keeps_messages:
        await _open_initial_subscription(service, connection, body.initial_subscription_name, topic, resource)
    access = AccessMode(body.producer_access_mode)
    await probe_producers(topic.producers.table, body.producer_name, access)
    if connection.closed:  # the client disconnected while the topic was opened
        return
    producer = _producer(service, connection, body, access)
    endpoints.check_room(producer.name, producer.metadata)
    producer.schema_version = schema_version
    producer.session = BinaryProducerSession(connection, topic, body.producer_id)
    check_spend_cap(topic)
    answer = topic.producers.attach(producer).answer
    if answer is Answer.JOIN:
        endpoints.add_producer(topic, producer)
        connection.send(producer_success(body.request_id, topic, producer))
        return
    endpoints.begin_opening(topic, producer, body.request_id)
    if answer is Answer.WAIT:
        waits = pb.ProducerSuccess(
            request_id=body.request_id, producer_name=producer.name, last_sequence_id=-1, schema_version=b"", producer_ready=False
        )
        connection.send(frames.command(pb.Command.PRODUCER_SUCCESS, producer_success=waits))
        return
    try:
        await topic.producers.confirm_owner(producer)
    except MagnetarError as error:
        connection.producer_sink.refused(producer, error)
    else:
        connection.producer_sink.promoted(producer)


def _producer(service: Broker, connection: Connection, body: pb.Producer, access: AccessMode) -> Producer:
    producer = Producer(
        body.producer_id,
        body.producer_name or service.new_producer_name(),
        connection.producer_sink,
        epoch=body.epoch,
        now_ms=service.now_ms(),
        access=access,
        topic_epoch=body.topic_epoch if body.HasField("topic_epoch") else NO_EPOCH,
    )
    if body.metadata:
        producer.metadata = {pair.key: pair.value for pair in body.metadata}
    producer.client = connection.client_info
    producer.encrypted = body.encrypted
    return producer


async def _open_initial_subscription(service: Broker, connection: Connection, name: str, topic: Topic, resource: Resource) -> None:
    """Needs the permission to consume. Raises `NotAllowed` where subscriptions are not created by use."""
    name = subscription_name(name)
    assert connection.principal is not None
    await service.authorize(connection.principal, Action.CONSUME, resource._replace(subscription=name))
    try:
        await open_subscription(service, connection.principal, topic, name, start=EARLIEST)
    except SubscriptionNotFound as error:  # the code that clients of Pulsar expect here
        raise NotAllowed(f"the producer's initial subscription cannot be created: {error.message}") from None


async def close_producer(service: Broker, connection: Connection, body: pb.CloseProducer, resource: Resource) -> None:
    """Always answers SUCCESS, after the receipts of earlier messages (Pulsar's order)."""
    attached = connection.endpoints.producers.get(body.producer_id)
    if attached is not None:
        topic, producer = attached
        await topic.publisher.wait_for_pending(producer)
        topic.producers.detach(producer)
        if connection.endpoints.producers.get(body.producer_id) is attached:
            connection.endpoints.end_producer(body.producer_id)
    opening = connection.endpoints.opening.get(body.producer_id)
    if opening is not None:
        opening.topic.producers.detach(opening.producer)
        connection.endpoints.end_opening(opening.producer)
    connection.send(frames.success(body.request_id))
