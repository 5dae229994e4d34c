"""What the metadata of chunks says; nothing else of a message is looked at on its way in. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

from messaging.broker.core.producer_sequences import NO_PARTS, ChunkPart
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError, parse_metadata
from messaging.protocol.hot import CHUNK, SendFrame


def chunk_parts(sent: list[SendFrame], data: bytes | memoryview) -> Mapping[SendFrame, ChunkPart]:
    """The chunks among `sent`, frames in `data`. What calls itself a chunk and does not say which one counts as a whole message."""
    found = {}
    for frame in sent:
        if frame.flags & CHUNK:
            try:
                metadata = parse_metadata(memoryview(data)[frame.payload_start : frame.end])
            except ProtocolError:
                continue
            if metadata.HasField("chunk_id") and 0 <= metadata.chunk_id < metadata.num_chunks_from_msg:
                found[frame] = ChunkPart(metadata.chunk_id, metadata.num_chunks_from_msg, _message(metadata))
    return found or NO_PARTS


def _message(metadata: pb.Metadata) -> int:
    """A number for what all chunks of a message have in common as it was divided once: a client may divide it anew."""
    what = f"{metadata.uuid!r}/{metadata.num_chunks_from_msg}/{metadata.total_chunk_msg_size}"
    return zlib.crc32(what.encode())
