"""Stage: messages become the bytes of an entry. Pure.

A batch is, for each of its messages: ``u32 size of SingleMetadata | SingleMetadata | payload``. The metadata are written byte by
byte, because this runs once a message; a test compares them with those of Protocol Buffers.

    2 partition key   3 payload size   5 event time   6 key is base64   7 ordering key   8 sequence id   9 no value   1 properties
"""

from __future__ import annotations

import base64

from messaging.client.message import Key, OutgoingMessage
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.hot import varint


def key_text(key: Key) -> str:
    """As it is stored: the bytes of a key that is no text in base64."""
    return key if isinstance(key, str) else base64.b64encode(key or b"").decode("ascii")


def single_metadata(message: OutgoingMessage, sequence_id: int) -> bytes:
    out = b""
    if message.properties:
        parts = []
        for name, value in message.properties.items():
            key, text = name.encode(), value.encode()
            pair = b"\x0a" + varint(len(key)) + key + b"\x12" + varint(len(text)) + text
            parts.append(b"\x0a" + varint(len(pair)) + pair)
        out = b"".join(parts)
    key_given = message.key is not None
    if key_given:
        text = key_text(message.key).encode()
        out += b"\x12" + varint(len(text)) + text
    out += b"\x18" + varint(len(message.payload or b""))
    if message.event_time_ms is not None:
        out += b"\x28" + varint(message.event_time_ms)
    if key_given and not isinstance(message.key, str):
        out += b"\x30\x01"
    if message.ordering_key is not None:
        out += b"\x3a" + varint(len(message.ordering_key)) + message.ordering_key
    out += b"\x40" + varint(sequence_id)
    if message.payload is None:
        out += b"\x48\x01"
    return out


def batch_payload(messages: list[OutgoingMessage], sequence_ids: list[int]) -> bytes:
    parts = []
    for message, sequence_id in zip(messages, sequence_ids, strict=True):
        single = single_metadata(message, sequence_id)
        parts.append(len(single).to_bytes(4, "big"))
        parts.append(single)
        parts.append(message.payload or b"")
    return b"".join(parts)


def describe_single(metadata: pb.Metadata, message: OutgoingMessage) -> None:
    """Says in the metadata of an entry what its only message is."""
    for name, value in message.properties.items():
        metadata.properties.add(key=name, value=value)
    describe_key(metadata, message)
    if message.event_time_ms is not None:
        metadata.event_time = message.event_time_ms
    if message.deliver_at_ms is not None:
        metadata.deliver_at_time = message.deliver_at_ms
    if message.payload is None:
        metadata.null_value = True


def describe_key(metadata: pb.Metadata, message: OutgoingMessage) -> None:
    """Also for a batch: that of its first message, by which the broker dispatches the entry."""
    if message.key is not None:
        metadata.partition_key = key_text(message.key)
        if not isinstance(message.key, str):
            metadata.partition_key_b64_encoded = True
    if message.ordering_key is not None:
        metadata.ordering_key = message.ordering_key
