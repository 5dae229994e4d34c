"""What the metadata of chunks says, on their way in and of stored entries. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from messaging.broker.core.producers.producer_sequences import NO_PARTS, ChunkPart
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError, as_text, parse_metadata
from messaging.protocol.hot import CHUNK, SendFrame

DIGEST_BYTES = 16


class Chunk(NamedTuple):
    message: bytes  # a digest of the producer's name for it
    chunk_id: int
    chunks: int


def chunk_of(stored: bytes | memoryview) -> Chunk | None:
    """What an entry says; `stored`: from its checksum on. None for one that is no chunk, or does not say which one."""
    try:
        metadata = parse_metadata(stored)
    except ProtocolError:
        return None
    if not metadata.HasField("chunk_id") or not 0 <= metadata.chunk_id < metadata.num_chunks_from_msg:
        return None
    name = f"{as_text(metadata.producer_name)}\0{as_text(metadata.uuid)}"  # clients number messages, so uuids of two may be equal
    message = blake2b(name.encode(), digest_size=DIGEST_BYTES).digest()
    return Chunk(message, metadata.chunk_id, metadata.num_chunks_from_msg)


def chunk_parts(sent: list[SendFrame], data: bytes | memoryview) -> Mapping[SendFrame, ChunkPart]:
    """The chunks among `sent`, frames in `data`. What calls itself a chunk and does not say which one counts as a whole message."""
    parts = {}
    for frame in sent:
        if frame.flags & CHUNK:
            try:
                metadata = parse_metadata(memoryview(data)[frame.payload_start : frame.end])
            except ProtocolError:
                continue
            if metadata.HasField("chunk_id") and 0 <= metadata.chunk_id < metadata.num_chunks_from_msg:
                parts[frame] = ChunkPart(metadata.chunk_id, metadata.num_chunks_from_msg, _message(metadata))
    return parts or NO_PARTS


def _message(metadata: pb.Metadata) -> int:
    """A number for what all chunks of a message have in common as it was divided once: a client may divide it anew."""
    what = f"{metadata.uuid!r}/{metadata.num_chunks_from_msg}/{metadata.total_chunk_msg_size}"
    return zlib.crc32(what.encode())
