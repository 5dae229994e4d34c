"""Consumers of the binary protocol: subscribing, permits, acknowledgements, redelivery, seeking, leaving."""

from __future__ import annotations

from typing import Any, cast

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.ack_sets import clipped
from messaging.broker.core.cursors.ack_validation import MessageAck, signed
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode
from messaging.broker.core.limits.subscribe_rates import ConsumerIdentity
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription import Subscription, subscription_key
from messaging.broker.core.subscription_type import TYPE_NAMES, SubscriptionType
from messaging.broker.core.turns.command_costs import REDELIVERED_A_UNIT
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.client_subscriptions import count_subscribe, delete_subscription, open_subscription, seek_subscription
from messaging.broker.runtime.liveness_probe import probe_consumers
from messaging.broker.runtime.topics.subscriptions.acknowledgements import AckDone, AfterReading, subscription_gone
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.schemas import given_schema, role_of
from messaging.broker.runtime.wire.sessions import BinaryConsumerSession
from messaging.broker.runtime.wire.sinks import MessageSender
from messaging.broker.runtime.wire.topic_lists import found_by_looking
from messaging.errors import ConsumerNotFound, InvalidValue, MagnetarError, NotAllowed, SubscriptionInUse
from messaging.permissions.model import Resource
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic, subscription_name
from messaging.storage.ledger_store import EARLIEST, LATEST, Position
from messaging.times import time_text

_MAX = 2**63 - 1
_WRAP = 1 << 64


async def subscribe(service: Broker, connection: Connection, body: pb.Subscribe, resource: Resource) -> None:
    name = subscription_name(body.subscription)
    attached = connection.endpoints.consumers.get(body.consumer_id)
    if attached is not None:
        if attached[0].text != resource.topic or attached[1].name != name:
            raise InvalidValue(f"consumer {body.consumer_id} is already open on this connection with another subscription")
        connection.send(frames.success(body.request_id))
        return
    kind = SubscriptionType(body.sub_type)
    if body.read_compacted and kind in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED):
        raise NotAllowed(f"{TYPE_NAMES[kind]} subscriptions cannot read the compacted topic: use Exclusive or Failover")
    topic = await service.open_topic(parse_topic(resource.topic), create=body.force_topic_creation)
    if body.read_compacted and not topic.keeps_messages:
        raise NotAllowed(f"{topic.text} is a non-persistent topic: it keeps no messages, and has no compacted ones")
    consumer_id = 0 if connection.endpoints.of_sessions else body.consumer_id  # of another broker: new each time
    count_subscribe(topic, ConsumerIdentity(connection.address, body.consumer_name, consumer_id))
    never_used = not (topic.ledger.stored_bytes or topic.used)
    schema, role = given_schema(body), role_of(connection)
    schema_version = await service.schemas.check_consumer(topic.name, schema, role, connection.address, idle=never_used)
    subscription = await _subscription(service, connection, topic, name, body)
    await topic.subscriptions.wait_until_unchanged(subscription)
    await probe_consumers(subscription, kind)
    if connection.closed:  # the client disconnected while the topic was opened
        topic.subscriptions.drop_if_idle(subscription)
        return
    sink = MessageSender(connection.endpoints, topic, subscription)
    consumer = Consumer(body.consumer_id, body.consumer_name, sink, priority=body.priority_level, now_ms=service.now_ms())
    consumer.metadata = {pair.key: pair.value for pair in body.metadata}
    consumer.client = connection.client_info
    consumer.schema_version = schema_version
    consumer.read_compacted = body.read_compacted
    consumer.key_shared = _key_shared_mode(body.key_shared_meta)
    connection.endpoints.check_room(consumer.name, consumer.metadata)
    consumer.session = BinaryConsumerSession(connection, topic, body.consumer_id, name)

    def admitted() -> None:
        # SUCCESS first: Failover tells a consumer whether it is active, which must not arrive before it knows that it is open.
        connection.send(frames.success(body.request_id))
        connection.endpoints.add_consumer(topic, subscription, consumer)

    topic.consumers.attach(subscription, consumer, kind, admitted)


def _key_shared_mode(meta: pb.KeySharedMeta) -> KeySharedMode:
    if meta.mode != pb.KeySharedMeta.STICKY:
        return KeySharedMode(out_of_order=meta.allow_out_of_order_delivery)
    ranges = tuple((hash_range.start, hash_range.end) for hash_range in meta.hash_ranges)
    return KeySharedMode(True, meta.allow_out_of_order_delivery, ranges)


async def _subscription(service: Broker, connection: Connection, topic: Topic, name: str, body: pb.Subscribe) -> Subscription:
    assert connection.principal is not None
    durable = body.durable and topic.keeps_messages
    key, rollback_s = subscription_key(name, durable), body.start_message_rollback_duration_sec
    properties = {pair.key: pair.value for pair in body.subscription_properties}
    rolled_back = None
    if rollback_s:  # it counts even where the subscription exists, unless that would move others
        rolled_back = await topic.entries.mark_delete_at_time(max(0, service.now_ms() - rollback_s * 1000))
    subscription = topic.subscriptions.table.get(key)
    if subscription is not None:
        if rolled_back is not None and not subscription.consumers:
            await seek_subscription(service, connection.principal, topic, subscription, SeekTarget(rolled_back))
        if properties and subscription.durable and not subscription.properties:  # where there are some they stay, as in Pulsar
            await topic.subscriptions.set_properties(subscription, properties)
        return subscription
    start = _start(body) if rolled_back is None else topic.ledger_list.next_after(rolled_back)
    if start == LATEST and not body.HasField("start_message_id") and found_by_looking(service, connection, topic, name):
        start = EARLIEST
    if not durable:
        return topic.subscriptions.create_reader(name, start, properties)
    return await open_subscription(service, connection.principal, topic, name, start=start, properties=properties)


def _start(body: pb.Subscribe) -> Position:
    """Where a new subscription starts: at either end of the topic, or, for a reader, at the entry it names (the client drops it if
    it wants the next)."""
    if not body.durable and body.HasField("start_message_id"):
        return wire_position(body.start_message_id)
    return EARLIEST if body.initial_position == pb.Subscribe.Earliest else LATEST


def wire_position(message_id: pb.MessageId) -> Position:
    """-1:-1 is earliest, (2^63-1):(2^63-1) latest; on the wire they are unsigned numbers."""
    ledger, entry = message_id.ledger_id, message_id.entry_id
    if ledger == _MAX or entry == _MAX:
        return LATEST
    if ledger > _MAX or entry > _MAX:
        return EARLIEST if ledger > _MAX else Position(ledger, 0)
    return Position(ledger, entry)


def flow(service: Broker, connection: Connection, body: pb.Flow, resource: Resource) -> None:
    attached = connection.endpoints.consumers.get(body.consumer_id)
    if attached is not None:
        topic, subscription, consumer = attached
        topic.consumers.flow(subscription, consumer, body.message_permits)


def acknowledge(service: Broker, connection: Connection, body: pb.Ack, resource: Resource) -> AfterReading:
    """Acknowledgements that the hot loop does not handle: several ids, ack sets, cumulative ones, or with a response. What comes
    after the consumer was closed, or while its topic moves, is refused: Apache's client for Go does nothing else until it has the
    response or gives up, so without one it would come back to the topic after its timeout of 30 s, or after several."""
    done = _ack_answer(connection, body)
    attached = connection.endpoints.consumers.get(body.consumer_id)
    if attached is None:
        done(subscription_gone())
        return None
    topic, subscription, consumer = attached
    if body.txnid_least_bits or body.txnid_most_bits:
        done(NotAllowed("transactions are not served yet"))
        return None
    asked = [
        MessageAck(_position(message_id), message_id.ack_set) if message_id.ack_set else MessageAck(_position(message_id))
        for message_id in body.message_id
    ]
    if body.ack_type == pb.Ack.Individual:
        service.acknowledgements += len(asked)
        return topic.acknowledgements.acknowledge_each(subscription, consumer, asked, done)
    if subscription.kind in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED) or len(asked) != 1:
        done(NotAllowed("a cumulative acknowledgement takes one message id, and no Shared or Key_Shared subscription"))
        return None
    return topic.acknowledgements.acknowledge_up_to(subscription, consumer, asked[0], done)


def _position(message_id: pb.MessageId) -> Position:
    """From its wire form; numbers that no entry can have become negative."""
    return Position(signed(message_id.ledger_id), signed(message_id.entry_id))


def _ack_answer(connection: Connection, body: pb.Ack) -> AckDone:
    """Sends the response if one is requested."""
    wanted, consumer_id, request_id = body.HasField("request_id"), body.consumer_id, body.request_id

    def answer(error: MagnetarError | None) -> None:
        if wanted:
            connection.send(ack_response(consumer_id, request_id, error))

    return answer


def ack_response(consumer_id: int, request_id: int, error: MagnetarError | None) -> bytes:
    response = pb.AckResponse(consumer_id=consumer_id, request_id=request_id)
    if error is not None:
        response.error, response.message = cast(Any, error.wire_code), error.message
    return frames.command(pb.Command.ACK_RESPONSE, ack_response=response)


def redeliver(service: Broker, connection: Connection, body: pb.RedeliverUnacknowledgedMessages, resource: Resource) -> None:
    attached = connection.endpoints.consumers.get(body.consumer_id)
    if attached is not None:
        topic, subscription, consumer = attached
        ids = [_position(message_id) for message_id in body.message_ids]
        unacked_before = consumer.unacked_messages
        topic.acknowledgements.redeliver(subscription, consumer, ids or None)
        connection.receiver.costs_more((unacked_before - consumer.unacked_messages) // REDELIVERED_A_UNIT)


async def seek(service: Broker, connection: Connection, body: pb.Seek, resource: Resource) -> None:
    """Closes the consumers first, so that no message from before the seek follows SUCCESS; they reconnect by themselves."""
    topic, subscription, _ = _held(connection, body.consumer_id)
    if body.HasField("message_id"):
        target = await _target(topic, body.message_id)
    elif body.HasField("message_publish_time"):
        target = SeekTarget(await topic.entries.mark_delete_at_time(body.message_publish_time))
    else:
        raise InvalidValue("a seek needs a message id or a publish time")
    assert connection.principal is not None
    await seek_subscription(service, connection.principal, topic, subscription, target)
    connection.send(frames.success(body.request_id))


async def _target(topic: Topic, message_id: pb.MessageId) -> SeekTarget:
    """The entry with this id; of a batch, what the ack set leaves of it, if there is one."""
    position = wire_position(message_id)
    mark_delete = topic.ledger_list.mark_for(position)
    block = await topic.entries.block_at(position) if message_id.ack_set else None
    if block is None:
        return SeekTarget(mark_delete)
    return SeekTarget(mark_delete, position, clipped(message_id.ack_set, block.messages_of(position.entry_id)))


async def last_message_id(service: Broker, connection: Connection, body: pb.GetLastMessageId, resource: Resource) -> None:
    topic, subscription, consumer = _held(connection, body.consumer_id)
    if not topic.keeps_messages:
        raise NotAllowed(f"{topic.text} is a non-persistent topic: it has no last message")
    answer = pb.GetLastMessageIdResponse(request_id=body.request_id)
    last, compacted = topic.ledger_list.deliverable, topic.ledger_list.compacted
    if consumer.read_compacted and compacted is not None and last <= compacted.horizon:  # what was not kept is not there for it
        last, batch_index = compacted.last, compacted.last_batch_index
    else:
        batch_index = (await topic.entries.batch_size_of(last) or 0) - 1
    answer.last_message_id.CopyFrom(id_on_wire(last))
    answer.last_message_id.partition, answer.last_message_id.batch_index = topic.name.partition, batch_index
    answer.consumer_mark_delete_position.CopyFrom(id_on_wire(subscription.cursor.mark_delete))
    connection.send(frames.command(pb.Command.GET_LAST_MESSAGE_ID_RESPONSE, get_last_message_id_response=answer))


def id_on_wire(position: Position) -> pb.MessageId:
    return pb.MessageId(ledger_id=position.ledger_id % _WRAP, entry_id=position.entry_id % _WRAP)


async def consumer_stats(service: Broker, connection: Connection, body: pb.ConsumerStats, resource: Resource) -> None:
    topic, subscription, consumer = _held(connection, body.consumer_id)
    members = (topic.rates or QUIET).members
    rates = members.of_consumer(consumer)
    answer = pb.ConsumerStatsResponse(
        request_id=body.request_id,
        msg_rate_out=rates.messages_out,
        msg_throughput_out=rates.bytes_out,
        msg_rate_redeliver=rates.messages_redelivered,
        message_ack_rate=rates.messages_acknowledged,
        msg_rate_expired=members.of_subscription(subscription).entries_expired,
        consumer_name=consumer.name,
        available_permits=max(0, consumer.permits),
        unacked_messages=consumer.unacked_messages,
        blocked_consumer_on_unacked_msgs=consumer.blocked,
        address=connection.peer,
        connected_since=time_text(consumer.connected_ms),
        type=TYPE_NAMES[subscription.kind],
        msg_backlog=subscription.backlog_entries,
    )
    connection.send(frames.command(pb.Command.CONSUMER_STATS_RESPONSE, consumer_stats_response=answer))


async def unsubscribe(service: Broker, connection: Connection, body: pb.Unsubscribe, resource: Resource) -> None:
    topic, subscription, consumer = _held(connection, body.consumer_id)
    if len(subscription.consumers) > 1 and not body.force:
        raise SubscriptionInUse(f"subscription {subscription.name!r} has other consumers: close them before unsubscribing")
    connection.endpoints.drop_consumer(body.consumer_id)
    topic.consumers.detach(subscription, consumer)
    assert connection.principal is not None
    await delete_subscription(service, connection.principal, topic, subscription)
    connection.send(frames.success(body.request_id))


async def close_consumer(service: Broker, connection: Connection, body: pb.CloseConsumer, resource: Resource) -> None:
    """Always answers SUCCESS; unacknowledged messages of the consumer go to the others."""
    attached = connection.endpoints.drop_consumer(body.consumer_id)
    if attached is not None:
        topic, subscription, consumer = attached
        topic.consumers.detach(subscription, consumer)
    connection.send(frames.success(body.request_id))


def _held(connection: Connection, consumer_id: int) -> tuple[Topic, Subscription, Consumer]:
    try:
        return connection.endpoints.consumers[consumer_id]
    except KeyError:
        raise ConsumerNotFound(f"consumer {consumer_id} is not open on this connection: subscribe again") from None
