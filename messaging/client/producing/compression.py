"""Stage: the whole entry is compressed. Pure."""

from __future__ import annotations

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import compress


def compressed(codec: pb.Compression, payload: bytes, metadata: pb.Metadata) -> bytes:
    """Returns the bytes to send and says in `metadata` what they are. Bytes that become no smaller stay as they are."""
    if codec == pb.NONE or not payload:
        return payload
    smaller = compress(codec, payload)
    if len(smaller) >= len(payload):
        return payload
    metadata.compression = codec
    metadata.uncompressed_size = len(payload)
    return smaller
