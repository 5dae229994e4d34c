"""What compaction looks at in a stored entry: the key of each message, and whether the message is a tombstone. Pure.

A tombstone is a message without content: it removes its key. Entries that cannot be looked into (an encrypted batch, one that does
not decompress, metadata that is not valid) are kept as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from messaging.limits.sizes import BATCH_MESSAGES_MAX
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import bounds, compress, unpack
from messaging.protocol.frames import ProtocolError, Stored, parse_metadata, parse_stored
from messaging.protocol.send_commands import message_count

COMPACTED_OUT = pb.SingleMetadata(payload_size=0, compacted_out=True).SerializeToString()
_LEFT_OUT = len(COMPACTED_OUT).to_bytes(4, "big") + COMPACTED_OUT

# What a message is: one with content, a tombstone, or one whose content an earlier compaction has removed.
VALUE, TOMBSTONE, LEFT_OUT = range(3)


class EntryChunk(NamedTuple):
    """`message` is what the producer calls the message that the entry is a chunk of."""

    message: str | bytes
    chunk_id: int
    chunks: int


class EntryContent(NamedTuple):
    """An entry has `numbers` messages, by its metadata. `keys` and `kinds` of them, in order; a key is None where there is none.
    `keys` None: the entry cannot be looked into."""

    numbers: int
    keys: Sequence[bytes | None] | None
    kinds: Sequence[int] = ()
    chunk: EntryChunk | None = None


def look_into(frame: bytes | memoryview, bytes_max: int) -> EntryContent:
    """`frame` is an entry as it is stored: a whole SEND frame. `bytes_max`: of an unpacked batch."""
    try:
        stored = parse_stored(memoryview(frame)[_head_bytes(frame) :])
    except ProtocolError:
        return EntryContent(1, None)
    metadata = stored.metadata
    if metadata.HasField("num_messages_in_batch"):
        size = _plausible_size(metadata)
        try:
            return EntryContent(1, None) if size < 0 else _batch(stored, size, bytes_max)
        except ProtocolError:
            return EntryContent(size, None)
    size = metadata.uncompressed_size if metadata.HasField("uncompressed_size") else len(stored.payload)
    chunk = None
    if metadata.HasField("chunk_id") and 0 <= metadata.chunk_id < metadata.num_chunks_from_msg and metadata.num_chunks_from_msg > 1:
        chunk = EntryChunk(metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg)
    key = _bytes(metadata.partition_key) if metadata.HasField("partition_key") else None
    return EntryContent(1, (key,), (TOMBSTONE if metadata.null_value or not size else VALUE,), chunk)


def _batch(stored: Stored, size: int, bytes_max: int) -> EntryContent:
    if stored.metadata.encryption_keys:
        return EntryContent(size, None)
    keys: list[bytes | None] = []
    kinds = bytearray()
    for single, _, _ in bounds(stored, unpack(stored, bytes_max)):
        # no field is asked for that is usually not there: this runs once for each message
        key = single.partition_key
        keys.append(_bytes(key) if key or single.HasField("partition_key") else None)
        kinds.append(LEFT_OUT if single.compacted_out else TOMBSTONE if single.null_value or not single.payload_size else VALUE)
    return EntryContent(size, keys, kinds)


def batch_size_of(frame: bytes | memoryview) -> int:
    """The messages of a batch, as plausible metadata says it; -1: the entry is not a batch."""
    try:
        metadata = parse_metadata(memoryview(frame)[_head_bytes(frame) :])
    except ProtocolError:
        return -1
    return _plausible_size(metadata) if metadata.HasField("num_messages_in_batch") else -1


def _plausible_size(metadata: pb.Metadata) -> int:
    """Nobody has checked what the producer says."""
    size = metadata.num_messages_in_batch
    return size if 1 <= size <= BATCH_MESSAGES_MAX else -1


def _bytes(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else bytes(key)  # protobuf gives bytes for what is not UTF-8


def rewrite(frame: bytes | memoryview, bytes_max: int, stays: Sequence[bool]) -> bytes:
    """The same batch with the messages that do not stay marked as compacted out, without their content. Indexes and the number of
    messages stay as they were. Raises `ProtocolError` for what `look_into` cannot look into."""
    head_bytes = _head_bytes(frame)
    stored = parse_stored(memoryview(frame)[head_bytes:])
    pieces: list[bytes] = []
    changed = False
    data = unpack(stored, bytes_max)
    for kept, (single, start, stop) in zip(stays, bounds(stored, data), strict=True):
        pieces.append(data[start:stop] if kept else _LEFT_OUT)
        changed |= not (kept or single.compacted_out)
    if not changed:
        return bytes(frame)
    content = b"".join(pieces)
    metadata = stored.metadata
    metadata.uncompressed_size = len(content)
    body = metadata.SerializeToString()
    covered = len(body).to_bytes(4, "big") + body + compress(metadata.compression, content)
    rest = bytes(frame[4:head_bytes]) + b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") + covered
    return len(rest).to_bytes(4, "big") + rest


def messages_in(frame: bytes) -> int:
    """As its SEND command announced them; 1 if it does not say."""
    return message_count(frame[8 : _head_bytes(frame)])


def _head_bytes(frame: bytes | memoryview) -> int:
    """Size of what precedes the stored payload: two lengths and the SEND command."""
    return 8 + int.from_bytes(frame[4:8], "big")
