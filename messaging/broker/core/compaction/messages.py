"""What compaction looks at in a stored entry: the key of each message, and whether the message is a tombstone. Pure.

A tombstone is a message without content: it removes its key. Entries that cannot be looked into (an encrypted batch, one that does
not decompress, metadata that is not valid) are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from messaging.limits.sizes import BATCH_MESSAGES_MAX
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import compress, parts, unpack
from messaging.protocol.frames import ProtocolError, Stored, parse_stored
from messaging.protocol.send_commands import message_count

COMPACTED_OUT = pb.SingleMetadata(payload_size=0, compacted_out=True).SerializeToString()
_LEFT_OUT = len(COMPACTED_OUT).to_bytes(4, "big") + COMPACTED_OUT


class KeyedMessage(NamedTuple):
    """`key` None: it has none. `empty`: a tombstone. `left_out`: an earlier compaction has removed its content."""

    key: bytes | None
    empty: bool
    left_out: bool = False


class EntryChunk(NamedTuple):
    """`message` is what the producer calls the message that the entry is a chunk of."""

    message: str | bytes
    chunk_id: int
    chunks: int


class EntryContent(NamedTuple):
    """`messages` of an entry, in order; None: it cannot be looked into."""

    messages: Sequence[KeyedMessage] | None
    chunk: EntryChunk | None = None
    size: int = -1  # messages of a batch; -1: not a batch


def look_into(frame: bytes | memoryview, bytes_max: int) -> EntryContent:
    """`frame` is an entry as it is stored: a whole SEND frame. `bytes_max`: of an unpacked batch."""
    try:
        stored = parse_stored(memoryview(frame)[_head_bytes(frame) :])
        metadata = stored.metadata
        if metadata.HasField("num_messages_in_batch"):
            if metadata.encryption_keys:
                return EntryContent(None, size=_plausible_size(metadata))
            return _batch(stored, bytes_max)
    except ProtocolError:
        return EntryContent(None)
    size = metadata.uncompressed_size if metadata.HasField("uncompressed_size") else len(stored.payload)
    message = KeyedMessage(_key(metadata), metadata.null_value or not size)
    chunk = None
    if metadata.HasField("chunk_id") and 0 <= metadata.chunk_id < metadata.num_chunks_from_msg and metadata.num_chunks_from_msg > 1:
        chunk = EntryChunk(metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg)
    return EntryContent((message,), chunk)


def _batch(stored: Stored, bytes_max: int) -> EntryContent:
    size = _plausible_size(stored.metadata)
    try:
        return EntryContent([_of_batch(one) for _, one, _ in parts(stored, unpack(stored, bytes_max))], size=size)
    except ProtocolError:
        return EntryContent(None, size=size)


def _plausible_size(metadata: pb.Metadata) -> int:
    """Nobody has checked what the producer says."""
    size = metadata.num_messages_in_batch
    return size if 1 <= size <= BATCH_MESSAGES_MAX else -1


def _of_batch(one: pb.SingleMetadata) -> KeyedMessage:
    return KeyedMessage(_key(one), one.null_value or not one.payload_size, one.compacted_out)


def _key(metadata: pb.Metadata | pb.SingleMetadata) -> bytes | None:
    if not metadata.HasField("partition_key"):
        return None
    key = metadata.partition_key  # protobuf gives bytes for what is not UTF-8
    return key.encode() if isinstance(key, str) else bytes(key)


def rewrite(frame: bytes | memoryview, bytes_max: int, keep: Callable[[int], bool]) -> bytes:
    """The same batch with the messages whose index `keep` does not name marked as compacted out, without their content. Indexes
    and the number of messages stay as they were. Raises `ProtocolError` as `look_into` would have noticed."""
    head_bytes = _head_bytes(frame)
    stored = parse_stored(memoryview(frame)[head_bytes:])
    pieces: list[bytes] = []
    for index, one, payload in parts(stored, unpack(stored, bytes_max)):
        if keep(index):
            head = one.SerializeToString()
            pieces += (len(head).to_bytes(4, "big"), head, payload)
        else:
            pieces.append(_LEFT_OUT)
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
