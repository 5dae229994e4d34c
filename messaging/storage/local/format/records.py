"""The log, byte by byte. All numbers little-endian.

A segment file is one header page (see `segment.py`), then commits. A commit is a COMMIT record followed by its other records;
it is written in one piece and made durable by one sync. A record:

    crc u32             CRC-32C of all that follows, seeded with store, segment number and generation
    type u8 | flags u8 | reserved u16
    ledger id i64 | first entry i64 | count u32 | header length u32 | data length u32
    header              opaque bytes of the caller
    end offsets u32 * count   where each entry ends in data
    data

What the fields mean by type:

    COMMIT      header: sequence u64, epoch u64, segment u64, offset u64 (its own position), synced segment u64, synced offset
                u64 (everything before that position was durable when this was written), body bytes u64, records u32, reserved u32
    BLOCK       entries of a ledger. With the flag SPARSE, the header is: number of ids left out right before the first entry u64,
                then the caller's header
    CREATED     header: the ledger's properties (msgpack)
    SEALED      first entry: the ledger's final last entry; header: its length in bytes u64
    DELETED     the ledger was deleted
    CHECKPOINT  data: a summary (see `summary.py`) of the part of the segment before this commit
    FOOTER      data: a summary of the whole segment; follows the last commit; the header page says where

Because of the seed, bytes left in a recycled file, or sent by someone as a payload, never pass for a record.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable
from typing import NamedTuple

from crc32c import crc32c

from messaging.storage.ledger_store import Block

COMMIT, BLOCK, CREATED, SEALED, DELETED, CHECKPOINT, FOOTER = range(1, 8)

SPARSE = 1  # a flag

CRC = struct.Struct("<I")
BODY = struct.Struct("<BBHqqIII")  # all fixed fields after the checksum
COMMIT_HEADER = struct.Struct("<QQQQQQQII")
LENGTH = struct.Struct("<Q")
SKIPPED = struct.Struct("<Q")
FLAGS_OFFSET = 5  # in a record
FIXED_BYTES = CRC.size + BODY.size
COMMIT_BYTES = FIXED_BYTES + COMMIT_HEADER.size
# `crc32c` releases the GIL for larger data and must then wait to get it back, which takes longer than computing the checksum of
# anything but the largest messages.
KEEP_TURN = 0
_SEED = struct.Struct("<QQQ")
_SWAP = sys.byteorder == "big"


class Record(NamedTuple):
    """A record in a buffer. `header`, `end_offsets` and `data` are offsets in that buffer."""

    type: int
    ledger_id: int
    first_entry: int
    entries: int
    start: int
    header_start: int
    end_offsets_start: int
    data_start: int
    stop: int


class CommitHeader(NamedTuple):
    sequence: int
    epoch: int
    segment: int
    offset: int
    synced_segment: int
    synced_offset: int
    body_bytes: int
    records: int


def seed_of(store_id: int, segment: int, generation: int) -> int:
    return crc32c(_SEED.pack(store_id, segment, generation))


def checksum(body: bytes | memoryview, seed: int) -> int:
    """The checksum of a record; `body` is everything after the checksum field."""
    return crc32c(body, seed)


def encode(seed: int, type_: int, ledger_id: int, first_entry: int, header: bytes, data: bytes = b"") -> bytes:
    """Encodes a complete record without end offsets."""
    body = BODY.pack(type_, 0, 0, ledger_id, first_entry, 0, len(header), len(data)) + header + data
    return CRC.pack(crc32c(body, seed)) + body


def encode_commit(seed: int, header: CommitHeader) -> bytes:
    return encode(seed, COMMIT, -1, -1, COMMIT_HEADER.pack(*header, 0))


def parse(buffer: bytes | memoryview, start: int) -> Record | None:
    """Parses the record at `start` by its lengths, without checking its checksum. None if no record can begin there or it exceeds
    the buffer."""
    if start + FIXED_BYTES > len(buffer):
        return None
    type_, _, _, ledger_id, first, count, header_length, data_length = BODY.unpack_from(buffer, start + 4)
    if not COMMIT <= type_ <= FOOTER:
        return None
    header_start = start + FIXED_BYTES
    end_offsets_start = header_start + header_length
    data_start = end_offsets_start + 4 * count
    stop = data_start + data_length
    if stop > len(buffer):
        return None
    return Record(type_, ledger_id, first, count, start, header_start, end_offsets_start, data_start, stop)


def length_at(buffer: bytes | memoryview, start: int) -> int:
    """The length of the record at `start` according to its header; 0 if no record can begin there. The buffer must hold FIXED_BYTES
    from `start` on."""
    type_, _, _, _, _, count, header_length, data_length = BODY.unpack_from(buffer, start + 4)
    if not COMMIT <= type_ <= FOOTER:
        return 0
    return FIXED_BYTES + int(header_length) + 4 * int(count) + int(data_length)


def checksum_matches(view: memoryview, record: Record, seed: int) -> bool:
    (expected,) = CRC.unpack_from(view, record.start)
    return bool(crc32c(view[record.start + 4 : record.stop], seed, KEEP_TURN) == expected)


def commit_header(view: memoryview, record: Record) -> CommitHeader:
    return CommitHeader(*COMMIT_HEADER.unpack_from(view, record.header_start)[:-1])


def end_offsets_of(view: memoryview, record: Record) -> array[int]:
    end_offsets = array("I")
    end_offsets.frombytes(view[record.end_offsets_start : record.data_start])
    if _SWAP:
        end_offsets.byteswap()
    return end_offsets


def _swapped_bytes(end_offsets: array[int]) -> bytes:
    end_offsets = end_offsets[:]
    end_offsets.byteswap()
    return end_offsets.tobytes()


end_offsets_bytes: Callable[[array[int]], bytes] = _swapped_bytes if _SWAP else array.tobytes


def block_of(view: memoryview, record: Record, *, copy: bool) -> Block:
    data: bytes | memoryview = view[record.data_start : record.stop]
    header_start = record.header_start + SKIPPED.size if view[record.start + FLAGS_OFFSET] else record.header_start
    header = bytes(view[header_start : record.end_offsets_start])
    return Block(record.ledger_id, record.first_entry, header, bytes(data) if copy else data, end_offsets_of(view, record))


def skipped_before(view: memoryview, record: Record) -> int:
    """How many ids right before the first entry of a block were left out."""
    if not view[record.start + FLAGS_OFFSET]:
        return 0
    (skipped,) = SKIPPED.unpack_from(view, record.header_start)
    return int(skipped)
