"""What a MESSAGE command carries: where the entry is, and which messages of it."""

from __future__ import annotations

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.simulation.model import Chunk, Place
from tests.support.clients.raw_client import Received

LENGTH_BYTES = 4  # of the length before the metadata of one message in a batch


def place_of(message_id: pb.MessageId) -> Place | None:
    """None in the receipt of a duplicate: where the first one is, the broker does not know."""
    if message_id.ledger_id == frames.NO_ID:
        return None
    return message_id.ledger_id, message_id.entry_id


def texts_of(received: Received) -> tuple[Place, list[str]]:
    """Where it is, and the messages by their index; "" for one that its ack set says is done."""
    place = (received.body.message_id.ledger_id, received.body.message_id.entry_id)
    metadata, payload = frames.parse_stored(received.payload)
    if not metadata.HasField("num_messages_in_batch"):
        return place, [_id_of(payload)]
    texts, at = [], 0
    while at < len(payload):
        size = int.from_bytes(payload[at : at + LENGTH_BYTES], "big")
        head = pb.SingleMetadata.FromString(payload[at + LENGTH_BYTES : at + LENGTH_BYTES + size])
        at += LENGTH_BYTES + size
        texts.append(_id_of(payload[at : at + head.payload_size]))
        at += head.payload_size
    words = [word % 2**64 for word in received.body.ack_set]
    if words:
        texts = [text if words[index // 64] >> index % 64 & 1 else "" for index, text in enumerate(texts)]
    return place, texts


def chunk_of(received: Received) -> Chunk | None:
    metadata, _ = frames.parse_stored(received.payload)
    return Chunk(metadata.uuid, metadata.num_chunks_from_msg) if metadata.HasField("chunk_id") else None


def _id_of(payload: bytes) -> str:
    return payload.rstrip(b".").decode()
