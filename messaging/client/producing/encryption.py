"""Stage: the whole entry is encrypted, after it was compressed."""

from __future__ import annotations

from messaging.client.encryption import Encryptor
from messaging.protocol import pulsar_pb2 as pb


def encrypted(encryptor: Encryptor | None, payload: bytes, metadata: pb.Metadata) -> bytes:
    return payload if encryptor is None else encryptor.encrypt(payload, metadata)
