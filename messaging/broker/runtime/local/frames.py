"""A single message as the SEND frame of the binary protocol."""

from __future__ import annotations

from messaging.broker.runtime.local.messages import EncryptionContext, OutgoingMessage
from messaging.limits.binary import BINARY
from messaging.limits.model import violation
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send


def message_frame(message: OutgoingMessage, producer_id: int, producer_name: str, sequence_id: int, now_ms: int) -> bytes:
    """Raises `ValueError` for what a message cannot hold."""
    wrong = violation("sequence_id", sequence_id, BINARY["Send.sequence_id"])
    if wrong is not None:
        raise ValueError(wrong)
    metadata = pb.Metadata(producer_name=producer_name, sequence_id=sequence_id, publish_time=now_ms)
    for key, value in message.properties.items():
        metadata.properties.add(key=key, value=value)
    if message.key is not None:
        metadata.partition_key = message.key
    if message.event_time_ms:
        metadata.event_time = message.event_time_ms
    if message.null_value:
        metadata.null_value = True
    if message.encryption is not None:
        _encrypt(metadata, message.encryption)
    if message.deliver_at_ms:
        metadata.deliver_at_time = message.deliver_at_ms
    return build_send(producer_id, sequence_id, metadata, message.payload)


def _encrypt(metadata: pb.Metadata, encryption: EncryptionContext) -> None:
    for name, key in encryption.keys.items():
        pairs = [pb.KeyValue(key=label, value=value) for label, value in key.metadata.items()]
        metadata.encryption_keys.add(key=name, value=key.value, metadata=pairs)
    metadata.encryption_param = encryption.param
    if encryption.compression != "NONE":
        metadata.compression = pb.Compression.Value(encryption.compression)  # type: ignore[assignment]
        metadata.uncompressed_size = encryption.uncompressed_bytes
