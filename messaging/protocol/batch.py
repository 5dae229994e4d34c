"""Opening a stored payload: decompression under a bound, and the single messages of a batch.

The broker never opens a batch on the way of a message; the WebSocket API, peeking and the SDK's tests do. A declared size is never
trusted for allocation: every decompressor stops at `bytes_max`.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cramjam
import lz4.block
from google.protobuf.message import DecodeError

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import FrameError, Stored

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


class Single(NamedTuple):
    """One message: its place in the batch (-1: not batched), what was written about it, its bytes."""

    batch_index: int
    batch_size: int
    properties: dict[str, str]
    partition_key: str | None
    key_b64_encoded: bool
    event_time_ms: int
    sequence_id: int
    payload: bytes


def decompress(compression: int, payload: bytes, uncompressed_size: int, bytes_max: int) -> bytes:
    """Raises `FrameError` where the bytes are not what they claim, or would exceed `bytes_max`."""
    if compression == pb.NONE:
        return payload
    if not 0 <= uncompressed_size <= bytes_max:
        raise FrameError(f"a message declares {uncompressed_size} bytes; at most {bytes_max} are allowed")
    try:
        if compression == pb.LZ4:
            data = bytes(lz4.block.decompress(payload, uncompressed_size=uncompressed_size))
        elif compression == pb.ZLIB:
            data = zlib.decompressobj().decompress(payload, uncompressed_size + 1)
        elif compression == pb.ZSTD:
            data = bytes(zstd.ZstdDecompressor().decompress(payload, uncompressed_size + 1))
        elif compression == pb.SNAPPY:
            if cramjam.snappy.decompress_raw_len(payload) != uncompressed_size:
                raise FrameError("a snappy message does not have the size that it declares")
            data = bytes(cramjam.snappy.decompress_raw(payload))
        else:
            raise FrameError(f"compression type {compression} is not known")
    except FrameError:
        raise
    except Exception as error:  # each codec has an error class of its own
        raise FrameError(f"a compressed message cannot be opened: {error}") from None
    if len(data) != uncompressed_size:
        raise FrameError(f"a compressed message holds {len(data)} bytes or more and declares {uncompressed_size}")
    return data


def compress(compression: int, payload: bytes) -> bytes:
    if compression == pb.LZ4:
        return bytes(lz4.block.compress(payload, store_size=False))
    if compression == pb.ZLIB:
        return zlib.compress(payload)
    if compression == pb.ZSTD:
        return bytes(zstd.compress(payload))
    if compression == pb.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(payload))
    return payload


def singles(stored: Stored, bytes_max: int) -> Iterator[Single]:
    """The messages of one stored payload, in order. An encrypted payload comes back as one message, unopened."""
    metadata = stored.metadata
    if metadata.encryption_keys:
        yield _whole(metadata, stored.payload)
        return
    data = decompress(metadata.compression, stored.payload, metadata.uncompressed_size, bytes_max)
    if not metadata.HasField("num_messages_in_batch"):
        yield _whole(metadata, data)
        return
    position = 0
    size = metadata.num_messages_in_batch
    if size < 1:
        raise FrameError(f"a batch declares {size} messages")
    for index in range(size):
        length = int.from_bytes(data[position : position + 4], "big")
        head = data[position + 4 : position + 4 + length]
        if length != len(head):
            raise FrameError(f"message {index} of a batch of {size} is cut short")
        try:
            one = pb.SingleMetadata.FromString(head)
        except DecodeError:
            raise FrameError(f"the metadata of message {index} of a batch of {size} is not valid protobuf") from None
        start = position + 4 + length
        position = start + one.payload_size
        if not one.HasField("payload_size") or one.payload_size < 0 or position > len(data):
            raise FrameError(f"message {index} of a batch of {size} declares {one.payload_size} bytes that are not there")
        yield Single(
            index,
            size,
            {pair.key: pair.value for pair in one.properties},
            one.partition_key if one.HasField("partition_key") else None,
            one.partition_key_b64_encoded,
            one.event_time,
            one.sequence_id if one.HasField("sequence_id") else metadata.sequence_id + index,
            data[start:position],
        )


def _whole(metadata: pb.Metadata, payload: bytes) -> Single:
    return Single(
        -1,
        1,
        {pair.key: pair.value for pair in metadata.properties},
        metadata.partition_key if metadata.HasField("partition_key") else None,
        metadata.partition_key_b64_encoded,
        metadata.event_time,
        metadata.sequence_id,
        payload,
    )
