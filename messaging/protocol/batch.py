"""Unpacks a stored payload: bounded decompression, and the single messages of a batch.

The broker never opens a batch between producer and consumer; only the WebSocket API, peeking and tests do. A declared size is
never trusted for allocation: every decompressor stops at `bytes_max`.

LZ4 and Snappy blocks are decompressed in one call, because they cannot be decompressed in pieces; every codec releases the GIL
meanwhile (ADR 30).
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cramjam
import lz4.block
from google.protobuf.message import DecodeError

from messaging.limits.binary import BINARY
from messaging.limits.model import violation
from messaging.limits.sizes import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_BYTES_MIN
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError, Stored, as_text, parse_stored

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


UNPACKED_TIMES_MAX = 4  # what a payload may unpack to, in largest messages: clients bound batches by what they are packed


# A frame names the window that opening it takes, whatever it holds: 32 MiB, where its default is 128.
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 25}


def implausible(sequence_id: int, highest: int, count: int, stored: bytes, message_bytes_max: int) -> str | None:
    """Why a SEND with these numbers cannot be taken; None if it can. `stored` is what follows its command.

    Messages of a batch take `BATCHED_MESSAGE_BYTES_MIN` bytes each before it is compressed: what it declares to hold then is
    believed up to what the broker would open, which it never does on the way of a message."""
    for name, value in (("sequence_id", sequence_id), ("highest_sequence_id", highest), ("num_messages", count)):
        wrong = violation(name, value, BINARY[f"Send.{name}"])
        if wrong is not None:
            return wrong
    least = count * BATCHED_MESSAGE_BYTES_MIN
    if count == 1 or least <= len(stored):
        return None
    try:
        metadata, payload = parse_stored(stored)
    except ProtocolError as error:
        return str(error)
    size = (
        len(payload) if metadata.compression == pb.NONE else min(metadata.uncompressed_size, UNPACKED_TIMES_MAX * message_bytes_max)
    )
    if least <= size:
        return None
    return f"num_messages is {count}; {size} bytes hold at most {size // BATCHED_MESSAGE_BYTES_MIN}"


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
    """Raises `ProtocolError` where the bytes are not what they claim, or would exceed `bytes_max`."""
    if compression == pb.NONE:
        return payload
    if not 0 <= uncompressed_size <= bytes_max:
        raise ProtocolError(f"a message declares {uncompressed_size} bytes; at most {bytes_max} are allowed")
    try:
        if compression == pb.LZ4:
            data = bytes(lz4.block.decompress(payload, uncompressed_size=uncompressed_size))
        elif compression == pb.ZLIB:
            data = zlib.decompressobj().decompress(payload, uncompressed_size + 1)
        elif compression == pb.ZSTD:
            data = bytes(zstd.ZstdDecompressor(options=_ZSTD_OPTIONS).decompress(payload, uncompressed_size + 1))
        elif compression == pb.SNAPPY:
            if cramjam.snappy.decompress_raw_len(payload) != uncompressed_size:
                raise ProtocolError("a snappy message does not have the size that it declares")
            data = bytes(cramjam.snappy.decompress_raw(payload))
        else:
            raise ProtocolError(f"compression type {compression} is not known")
    except ProtocolError:
        raise
    except Exception as error:  # each codec has an error class of its own
        raise ProtocolError(f"a message cannot be decompressed: {error}") from None
    if len(data) != uncompressed_size:
        raise ProtocolError(f"a compressed message holds {len(data)} bytes or more and declares {uncompressed_size}")
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


def unpacked_bytes(stored: Stored, bytes_max: int) -> int:
    """What `unpack` makes beside the payload, as its producer declared it. Raises `ProtocolError` for more than `bytes_max`."""
    metadata = stored.metadata
    if metadata.compression == pb.NONE or metadata.encryption_keys:
        return 0
    if not 0 <= metadata.uncompressed_size <= bytes_max:
        raise ProtocolError(f"a message declares {metadata.uncompressed_size} bytes; at most {bytes_max} are allowed")
    return metadata.uncompressed_size


def unpack(stored: Stored, bytes_max: int) -> bytes:
    """The payload decompressed; as it is where it is encrypted. Raises `ProtocolError`."""
    metadata = stored.metadata
    if metadata.encryption_keys:
        return stored.payload
    return decompress(metadata.compression, stored.payload, metadata.uncompressed_size, bytes_max)


def batch_size(stored: Stored, data: bytes) -> int:
    """The messages of an entry whose unpacked payload is `data`; 0 where it is no batch, or one that is encrypted. Raises
    `ProtocolError` for a number of messages that so many bytes cannot hold."""
    metadata = stored.metadata
    if metadata.encryption_keys or not metadata.HasField("num_messages_in_batch"):
        return 0
    size = metadata.num_messages_in_batch
    if not 1 <= size <= min(BATCH_MESSAGES_MAX, len(data) // BATCHED_MESSAGE_BYTES_MIN):
        raise ProtocolError(f"a batch of {len(data)} bytes declares {size} messages")
    return size


def singles(stored: Stored, data: bytes) -> Iterator[Single]:
    """The messages of one entry in order, made as they are asked for. `data`: its payload unpacked; an encrypted one comes back as
    one message, unopened. Raises `ProtocolError` where the next one is not what it declares."""
    metadata = stored.metadata
    size = batch_size(stored, data)
    if not size:
        yield _whole(metadata, data)
        return
    position = 0
    for index in range(size):
        length = int.from_bytes(data[position : position + 4], "big")
        head = data[position + 4 : position + 4 + length]
        if length != len(head):
            raise ProtocolError(f"message {index} of a batch of {size} is cut short")
        try:
            one = pb.SingleMetadata.FromString(head)
        except DecodeError:
            raise ProtocolError(f"the metadata of message {index} of a batch of {size} is not valid protobuf") from None
        start = position + 4 + length
        position = start + one.payload_size
        if not one.HasField("payload_size") or one.payload_size < 0 or position > len(data):
            raise ProtocolError(
                f"message {index} of a batch of {size} declares a payload of {one.payload_size} bytes, which exceeds the batch"
            )
        yield Single(
            index,
            size,
            _properties(one),
            as_text(one.partition_key) if one.HasField("partition_key") else None,
            one.partition_key_b64_encoded,
            one.event_time,
            one.sequence_id if one.HasField("sequence_id") else metadata.sequence_id + index,
            data[start:position],
        )


def _properties(metadata: pb.Metadata | pb.SingleMetadata) -> dict[str, str]:
    return {as_text(pair.key): as_text(pair.value) for pair in metadata.properties}


def _whole(metadata: pb.Metadata, payload: bytes) -> Single:
    return Single(
        -1,
        1,
        _properties(metadata),
        as_text(metadata.partition_key) if metadata.HasField("partition_key") else None,
        metadata.partition_key_b64_encoded,
        metadata.event_time,
        metadata.sequence_id,
        payload,
    )
