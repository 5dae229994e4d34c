"""The broker's header before a block's entries in storage: what it knew when it accepted them.

    version u8 = 1 | flags u8 | broker_time_ms u64 | message_count u32 | first_sequence i64 | last_sequence i64
    | name_length u16 | producer name (UTF-8) | extensions: (tag u8 | length u32 | bytes)*

All big-endian. `broker_time_ms` is the broker's clock at receipt, the only time that expiry and retention trust. `message_count`
sums the batch sizes of the entries. Readers skip extension tags that they do not know, so that key hashes, transactions
and origin clusters need no second format.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_FIXED = struct.Struct(">BBQIqqH")
_EXTENSION = struct.Struct(">BI")
VERSION = 1

# flags
MARKER = 0x01  # entries of the broker itself, never delivered
TRANSACTION = 0x02
REPLICATED = 0x04
CHUNKS = 0x08  # some entries are chunks of larger messages

# extension tags
DEAD_LETTER_MOVE = 2  # of dead letters: policy id / sequence id of the first message
DELIVER_AT = 1  # i64 for each entry: when it is to be delivered, milliseconds since 1970; 0: at once


Extensions = tuple[tuple[int, bytes], ...]  # (tag, value)


class BlockHeader(NamedTuple):
    broker_time_ms: int
    message_count: int
    first_sequence: int
    last_sequence: int
    producer: bytes
    flags: int = 0
    extensions: Extensions = ()

    def encode(self) -> bytes:
        fixed = _FIXED.pack(
            VERSION,
            self.flags,
            self.broker_time_ms,
            self.message_count,
            self.first_sequence,
            self.last_sequence,
            len(self.producer),
        )
        if not self.extensions:
            return fixed + self.producer
        tail = b"".join(_EXTENSION.pack(tag, len(value)) + value for tag, value in self.extensions)
        return fixed + self.producer + tail


def encode_plain(broker_time_ms: int, message_count: int, first_sequence: int, last_sequence: int, producer: bytes) -> bytes:
    """A header without flags and extensions, as nearly all are: the path of every block that is published."""
    return _FIXED.pack(VERSION, 0, broker_time_ms, message_count, first_sequence, last_sequence, len(producer)) + producer


def decode(data: bytes) -> BlockHeader:
    """Raises `ValueError` for a version or a length that cannot be."""
    try:
        return _decode(data)
    except struct.error as error:
        raise ValueError(f"a block header of {len(data)} bytes is cut short: {error}") from None


def _decode(data: bytes) -> BlockHeader:
    version, flags, broker_time_ms, message_count, first, last, name_length = _FIXED.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"block header version {version} is unknown; this release reads version {VERSION}")
    position = _FIXED.size + name_length
    if position > len(data):
        raise ValueError("block header is cut short inside the producer name")
    producer = bytes(data[_FIXED.size : position])
    extensions = []
    while position < len(data):
        tag, length = _EXTENSION.unpack_from(data, position)
        position += _EXTENSION.size
        if position + length > len(data):
            raise ValueError(f"block header is cut short inside extension {tag}")
        extensions.append((tag, bytes(data[position : position + length])))
        position += length
    return BlockHeader(broker_time_ms, message_count, first, last, producer, flags, tuple(extensions))
