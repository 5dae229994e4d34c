"""What a consumer asks the broker for, as commands. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from messaging.client.consuming.options import KINDS, ConsumerOptions
from messaging.client.message import MessageId
from messaging.protocol import pulsar_pb2 as pb

_U64 = (1 << 64) - 1


def subscribe_request(
    consumer_id: int,
    topic: str,
    subscription: str,
    options: ConsumerOptions,
    schema: pb.Schema | None,
    start: MessageId | None,
    *,
    epoch: int,
    existing_only: bool,
) -> pb.Subscribe:
    """`start`: where a reader begins. `existing_only`: the topic is not made."""
    request = pb.Subscribe(
        topic=topic,
        subscription=subscription,
        sub_type=KINDS[options.kind],
        consumer_id=consumer_id,
        request_id=0,
        priority_level=options.priority,
        durable=options.durable,
        force_topic_creation=not existing_only,
        read_compacted=options.read_compacted,
        initial_position=pb.Subscribe.Earliest if options.initial == "earliest" else pb.Subscribe.Latest,
        consumer_epoch=epoch,
        metadata=_pairs(options.properties),
        subscription_properties=_pairs(options.subscription_properties),
    )
    if options.name is not None:
        request.consumer_name = options.name
    if schema is not None:
        request.schema.CopyFrom(schema)
    if options.kind == "key_shared":
        request.key_shared_meta.mode = pb.KeySharedMeta.AUTO_SPLIT
    if not options.durable and start is not None:
        _name(request.start_message_id, start)
    return request


def seek_request(consumer_id: int, target: MessageId | int) -> pb.Seek:
    """To a message, or to a time in ms since 1970."""
    request = pb.Seek(consumer_id=consumer_id, request_id=0)
    if isinstance(target, int):
        request.message_publish_time = target
    else:
        _name(request.message_id, target)
    return request


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _name(field: pb.MessageId, message_id: MessageId) -> None:
    field.ledger_id, field.entry_id = message_id.ledger_id & _U64, message_id.entry_id & _U64
    if message_id.batch_index >= 0:
        field.batch_index = message_id.batch_index


def _pairs(properties: Mapping[str, str]) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=key, value=value) for key, value in properties.items()]
