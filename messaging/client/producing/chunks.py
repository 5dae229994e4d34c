"""Stage: a message too large for the broker becomes several entries, which consumers put together again. Pure.

The payload is compressed as a whole and encrypted chunk by chunk, as by Pulsar's clients. All chunks have the sequence id of the
message; the receipt of the last is that of the message.
"""

from __future__ import annotations

from messaging.client.encryption import Encryptor
from messaging.client.producing.batches import Outgoing
from messaging.client.producing.encryption import encrypted
from messaging.client.producing.pending import Operation
from messaging.errors import MessageTooLarge
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send

# What a chunk's own numbers, and the tag and nonce of encryption, add to the metadata.
MARGIN_BYTES = 128
CHUNKS_MAX = 10_000
KEY_BYTES = 1200  # of an encrypted data key, with its name: RSA keys of up to 8192 bits


def chunk_operations(
    producer_id: int,
    message_bytes_max: int,
    metadata: pb.Metadata,
    payload: bytes,
    encryptor: Encryptor | None,
    outgoing: Outgoing,
    now_s: float,
) -> list[Operation]:
    """`payload`: compressed. Raises `MessageTooLarge` if the metadata alone leave no room."""
    uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
    margin = metadata.ByteSize() + len(uuid) + MARGIN_BYTES + (KEY_BYTES if encryptor is not None else 0)
    chunk_bytes = message_bytes_max - margin
    if chunk_bytes < 1:
        raise MessageTooLarge(
            f"key and properties of a message take {margin} bytes; the broker takes {message_bytes_max} with them"
        )
    count = -(-len(payload) // chunk_bytes)
    if count > CHUNKS_MAX:
        raise MessageTooLarge(f"a message of {len(payload)} bytes takes {count} chunks; at most {CHUNKS_MAX} are sent")
    metadata.uuid = uuid
    metadata.num_chunks_from_msg = count
    metadata.total_chunk_msg_size = len(payload)
    operations = []
    for number in range(count):
        metadata.chunk_id = number
        part = encrypted(encryptor, payload[number * chunk_bytes : (number + 1) * chunk_bytes], metadata)
        frame = build_send(producer_id, metadata.sequence_id, metadata, part, is_chunk=True)
        last = number == count - 1
        messages = (outgoing,) if last else ()
        operations.append(Operation(metadata.sequence_id, frame, messages, now_s, chunk=number, chunks=count))
    return operations
