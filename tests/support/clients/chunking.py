"""Chunks as clients send them: one SEND each, all with the sequence id of their message."""

from __future__ import annotations

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb


def chunk_frame(
    sequence_id: int,
    payload: bytes,
    chunk_id: int,
    chunks: int,
    *,
    uuid: str = "",
    total_bytes: int = 0,
    producer_id: int = 1,
    key: str = "",
    producer: str = "raw",
) -> bytes:
    metadata = pb.Metadata(
        producer_name=producer,
        sequence_id=sequence_id,
        publish_time=1_000 + sequence_id,
        uuid=uuid or f"raw-{sequence_id}",
        chunk_id=chunk_id,
        num_chunks_from_msg=chunks,
        total_chunk_msg_size=total_bytes or chunks * len(payload),
    )
    if key:
        metadata.partition_key = key
    return frames.build_send(producer_id, sequence_id, metadata, payload, is_chunk=True)


def chunk_frames(sequence_id: int, payload: bytes, chunk_bytes: int) -> list[bytes]:
    """A whole message, divided."""
    pieces = [payload[start : start + chunk_bytes] for start in range(0, len(payload), chunk_bytes)]
    return [chunk_frame(sequence_id, piece, index, len(pieces), total_bytes=len(payload)) for index, piece in enumerate(pieces)]
