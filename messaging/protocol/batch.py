"""Unpacks a stored payload: bounded decompression, and the single messages of a batch.

The broker never opens a batch between producer and consumer; only the WebSocket API, peeking and tests do. A declared size is
never trusted for allocation: every decompressor stops at `bytes_max`.

LZ4 and Snappy blocks are decompressed in one call, because they cannot be decompressed in pieces; every codec releases the GIL
meanwhile (ADR 16).
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


UNPACKED_TIMES_MAX = 4  # the limit of an unpacked payload, in largest messages: clients bound batches by their packed size


# A frame declares the window needed to decompress it, whatever its contents: 32 MiB at most here (zstd's default: 128 MiB).
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 25}


def implausible(sequence_id: int, highest: int, count: int, stored: bytes, message_bytes_max: int) -> str | None:
    """The reason why a SEND with these numbers is refused; None if they are plausible. `stored` is what follows its command.

    Each message of a batch takes at least `BATCHED_MESSAGE_BYTES_MIN` bytes uncompressed, so the declared count is accepted up to
    the unpacked size that the broker permits. The payload is never unpacked on the way of a message."""
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
    """One message: its index in the batch (-1: not batched), its metadata, its bytes."""

    batch_index: int
    batch_size: int
    properties: dict[str, str]
    partition_key: str | None
    key_b64_encoded: bool
    event_time_ms: int
    sequence_id: int
    payload: bytes
    null_value: bool


def decompress(compression: int, payload: bytes, uncompressed_size: int, bytes_max: int) -> bytes:
    """Raises `ProtocolError` if the bytes are not valid for the codec, or would exceed `bytes_max`."""
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
    except Exception as error:  # each codec has its own error class
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
    """The size of the unpacked payload that the producer declared. Raises `ProtocolError` if it exceeds `bytes_max`."""
    metadata = stored.metadata
    if metadata.compression == pb.NONE or metadata.encryption_keys:
        return 0
    if not 0 <= metadata.uncompressed_size <= bytes_max:
        raise ProtocolError(f"a message declares {metadata.uncompressed_size} bytes; at most {bytes_max} are allowed")
    return metadata.uncompressed_size


def unpack(stored: Stored, bytes_max: int) -> bytes:
    """Decompresses the payload; returns an encrypted one unchanged. Raises `ProtocolError`."""
    metadata = stored.metadata
    if metadata.encryption_keys:
        return stored.payload
    return decompress(metadata.compression, stored.payload, metadata.uncompressed_size, bytes_max)


def batch_size(stored: Stored, data: bytes) -> int:
    """The number of messages in an entry whose unpacked payload is `data`; 0 if it is not a batch or is encrypted. Raises
    `ProtocolError` if so many messages cannot fit."""
    metadata = stored.metadata
    if metadata.encryption_keys or not metadata.HasField("num_messages_in_batch"):
        return 0
    size = metadata.num_messages_in_batch
    if not 1 <= size <= min(BATCH_MESSAGES_MAX, len(data) // BATCHED_MESSAGE_BYTES_MIN):
        raise ProtocolError(f"a batch of {len(data)} bytes declares {size} messages")
    return size


def singles(stored: Stored, data: bytes) -> Iterator[Single]:
    """Yields the messages of one entry in order. `data`: its unpacked payload; an encrypted one is yielded as one message,
    unchanged. Raises `ProtocolError` if the next message is malformed."""
    metadata = stored.metadata
    size = batch_size(stored, data)
    if not size:
        yield _whole(metadata, data)
        return
    for index, single, payload in parts(stored, data):
        yield Single(
            index,
            size,
            _properties(single),
            as_text(single.partition_key) if single.HasField("partition_key") else None,
            single.partition_key_b64_encoded,
            single.event_time,
            single.sequence_id if single.HasField("sequence_id") else metadata.sequence_id + index,
            payload,
            single.null_value,
        )


def parts(stored: Stored, data: bytes) -> Iterator[tuple[int, pb.SingleMetadata, bytes]]:
    """Yields (index, metadata, payload) of the messages of a batch; `data`: its unpacked payload. Raises `ProtocolError` if
    the next one is malformed."""
    for index, (single, _, stop) in enumerate(bounds(stored, data)):
        yield index, single, data[stop - single.payload_size : stop]


def bounds(stored: Stored, data: bytes) -> Iterator[tuple[pb.SingleMetadata, int, int]]:
    """Yields the metadata of the messages of a batch, and where in `data` each begins and ends, metadata included. Like `parts`."""
    size = batch_size(stored, data)
    parse, stop = pb.SingleMetadata.FromString, 0
    for index in range(size):
        start = stop
        length = int.from_bytes(data[start : start + 4], "big")
        head = data[start + 4 : start + 4 + length]
        if length != len(head):
            raise ProtocolError(f"message {index} of a batch of {size} is cut short")
        try:
            single = parse(head)
        except DecodeError:
            raise ProtocolError(f"the metadata of message {index} of a batch of {size} is not valid protobuf") from None
        payload_size = single.payload_size
        stop = start + 4 + length + payload_size
        if payload_size < 0 or stop > len(data) or not (payload_size or single.HasField("payload_size")):
            raise ProtocolError(
                f"message {index} of a batch of {size} declares a payload of {payload_size} bytes, which exceeds the batch"
            )
        yield single, start, stop


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
        metadata.null_value,
    )
