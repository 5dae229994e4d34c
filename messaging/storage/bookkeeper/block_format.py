"""A block as the payload of one add.

    version u8 = 1 | count u32 | header_length u32 | first_entry i64 | after_entry i64 | end_bytes i64
    | end_offsets u32 * count | header | data

All big-endian but for `end_offsets`, which are little-endian. `after_entry` is the last entry of the block before: entries between
the two were left out. `end_bytes` counts the bytes of the ledger's entries up to the end of the block, so the last add tells where
a ledger ends and how long it is. Adds are numbered from 0 without gaps, and BookKeeper's digest covers all of it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from typing import NamedTuple

from messaging.storage.ledger_store import Block, Buffer

VERSION = 1
_FIXED = struct.Struct(">BIIqqq")
HEADER_BYTES_MAX = 256 << 10
OVERHEAD_BYTES = _FIXED.size


class StoredBlock(NamedTuple):
    """`number` is that of its add. `after_entry`, `end_bytes`: see above."""

    number: int
    block: Block
    after_entry: int
    end_bytes: int

    @property
    def size_bytes(self) -> int:
        """Of its entries."""
        return len(self.block.data)


def encoded_bytes(header: bytes, size: int, count: int) -> int:
    return _FIXED.size + 4 * count + len(header) + size


def encode(
    header: bytes, data: Buffer, end_offsets: array[int], first_entry: int, after_entry: int, end_bytes: int
) -> tuple[bytes, Buffer]:
    """What precedes the data, and the data, which is not copied."""
    fixed = _FIXED.pack(VERSION, len(end_offsets), len(header), first_entry, after_entry, end_bytes)
    return b"".join((fixed, _little_endian(end_offsets).tobytes(), header)), data


def decode(ledger_id: int, number: int, payload: bytes) -> StoredBlock:
    """Raises `ValueError` for what `encode` has not made."""
    try:
        version, count, header_length, first_entry, after_entry, end_bytes = _FIXED.unpack_from(payload)
    except struct.error:
        raise ValueError(f"{len(payload)} bytes are less than every block has") from None
    if version != VERSION:
        raise ValueError(f"the block has format {version}; this release reads format {VERSION}")
    offsets_end = _FIXED.size + 4 * count
    data_begin = offsets_end + header_length
    if not count or data_begin > len(payload):
        raise ValueError("the block contradicts itself")
    end_offsets = _little_endian(array("I", payload[_FIXED.size : offsets_end]))
    if end_offsets[-1] != len(payload) - data_begin or after_entry >= first_entry:
        raise ValueError("the block contradicts itself")
    block = Block(ledger_id, first_entry, payload[offsets_end:data_begin], memoryview(payload)[data_begin:], end_offsets)
    return StoredBlock(number, block, after_entry, end_bytes)


def _little_endian(offsets: array[int]) -> array[int]:
    if sys.byteorder == "big":
        offsets = array("I", offsets)
        offsets.byteswap()
    return offsets
