"""Admin RPC: one stored message of a backlog, as Pulsar's tools read it."""

from __future__ import annotations

import base64
import json

from messaging.adminrpc.subscriptions import PeekAnswer, SubscriptionPeek
from messaging.broker.runtime.admin.naming import plain_topic, stored_topic_name
from messaging.broker.runtime.admin.positions import nth_unacknowledged
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import InvalidValue, NotFound, NotReady
from messaging.fairness.in_thread import in_thread
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import UNPACKED_TIMES_MAX, unpack, unpacked_bytes
from messaging.protocol.frames import ProtocolError, Stored, as_text
from messaging.storage.ledger_store import Position
from messaging.times import time_text


async def peek(broker: Broker, request: SubscriptionPeek) -> PeekAnswer:
    """The n-th unacknowledged entry, counted from 1. Of a subscription that does not exist yet none is acknowledged, as in Pulsar,
    where this creates it; here reading creates nothing."""
    await stored_topic_name(broker, request.topic, "peeking into")
    topic = await plain_topic(broker, request.topic)
    subscription = topic.subscriptions.find(request.subscription)
    if request.position < 1:
        raise InvalidValue("the position must be at least 1")
    if subscription is not None:
        position = nth_unacknowledged(subscription, request.position)
    else:
        exists = request.position <= topic.ledger_list.entries
        position = topic.ledger_list.at_index(request.position - 1) if exists else None
    stored = await topic.entries.entry_at(position) if position is not None else None
    if position is None or stored is None:
        raise NotFound(f"subscription {request.subscription!r} has no unacknowledged entry number {request.position}")
    return await shown_entry(broker, topic, position, stored)


async def shown_entry(broker: Broker, topic: Topic, position: Position, stored: Stored) -> PeekAnswer:
    """A stored entry, unpacked, with Pulsar's headers. Raises `NotReady` where there is no memory for it now."""
    headers = {"X-Pulsar-Message-ID": f"{position.ledger_id}:{position.entry_id}", **_headers(stored)}
    try:
        payload = await _unpacked(broker, topic, stored)
    except ProtocolError as error:
        payload = stored.payload
        headers |= {"X-Magnetar-Unreadable": str(error), **_compression(stored.metadata)}
    return PeekAnswer(
        ledger_id=position.ledger_id,
        entry_id=position.entry_id,
        payload=base64.b64encode(payload).decode(),
        headers=headers,
    )


async def _unpacked(broker: Broker, topic: Topic, stored: Stored) -> bytes:
    """The payload decompressed, on a thread, charged before it is made; an encrypted one as it is. Raises `ProtocolError`, and
    `NotReady` where there is no memory for it now."""
    size = unpacked_bytes(stored, broker.settings.message_bytes_max * UNPACKED_TIMES_MAX)
    account, tenant = broker.memory_limiter.egress, topic.name.tenant
    if size and not account.allows(tenant, size):
        raise NotReady(f"there is not enough memory for the {size} bytes of this message: try again in a moment")
    account.take(tenant, size)
    try:
        return await in_thread(unpack, stored, size)
    finally:
        account.give(tenant, size)


def _compression(metadata: pb.Metadata) -> dict[str, str]:
    """For a payload that comes as it is stored."""
    return {
        "X-Pulsar-compression": pb.Compression.Name(metadata.compression),
        "X-Pulsar-uncompressed-size": str(metadata.uncompressed_size),
    }


def _headers(stored: Stored) -> dict[str, str]:
    """Pulsar's headers for a peeked entry; a batch is left for the client to split."""
    metadata = stored.metadata
    headers = {"X-Pulsar-publish-time": time_text(metadata.publish_time), "X-Pulsar-producer-name": as_text(metadata.producer_name)}
    headers["X-Pulsar-sequence-id"] = str(metadata.sequence_id)
    if metadata.event_time:
        headers["X-Pulsar-event-time"] = time_text(metadata.event_time)
    if metadata.HasField("partition_key"):
        headers["X-Pulsar-partition-key"] = as_text(metadata.partition_key)
        headers["X-Pulsar-partition-key-b64-encoded"] = str(metadata.partition_key_b64_encoded).lower()
    if metadata.HasField("num_messages_in_batch"):
        headers["X-Pulsar-num-batch-message"] = str(metadata.num_messages_in_batch)
        headers["X-Pulsar-batch-size"] = str(len(stored.payload))
    if metadata.null_value:
        headers["X-Pulsar-null-value"] = "true"
    properties = {as_text(pair.key): as_text(pair.value) for pair in metadata.properties}
    headers["X-Pulsar-PROPERTY"] = json.dumps(properties)
    headers["X-Pulsar-Is-Encrypted"] = str(bool(metadata.encryption_keys)).lower()
    headers["X-Pulsar-txn-uncommitted"] = "false"
    if properties:
        headers.update({f"X-Pulsar-PROPERTY-{key}": value for key, value in properties.items()})
    if metadata.encryption_keys:
        headers |= _compression(metadata)
    return headers
