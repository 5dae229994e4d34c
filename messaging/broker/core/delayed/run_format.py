"""The blocks and the directory of a run, as bytes. Pure; slow enough for a thread. Imported only where runs are written or read,
because it loads numpy.

Block, little-endian:   version u8 = 1 | entries u32 | first time i64 | lowest position u64 | widths of times and positions u8 u8
                        | size of each column u32* | columns
Directory:              version u8 = 1 | entries u64 | blocks u32 | first time of each i64* | ledgers u32
                        | (ledger i64, length u32, roaring)*

A position is ``ledger id << 32 | entry id``. Entries are in the order of their times. Times are stored as differences to the one
before, positions as differences to the lowest, both byte by byte: one column for each byte that some number has, compressed where
that makes it smaller.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from messaging.broker.core.delayed.run_jobs import BLOCK_ENTRIES, Directory, RunBytes
from messaging.broker.core.delayed.time_slots import ENTRY_BITS, ENTRY_MASK, Slot

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

VERSION = 1
LEVEL = 1
ADDED_MAX = 1 << 16  # entries that are added to a bitmap at a time
STRETCH = 1 << 22  # entries of a bitmap that are worked on at a time, because it holds Python's lock
_BLOCK = struct.Struct("<BIqQBB")
_DIRECTORY = struct.Struct("<BQI")
_COUNT = struct.Struct("<I")
_LEDGER = struct.Struct("<qI")

Times = NDArray[np.int64]
Positions = NDArray[np.uint64]


class Entries(NamedTuple):
    """As many times (milliseconds since 1970) as positions."""

    times: Times
    positions: Positions

    def sorted(self) -> Entries:
        order = np.argsort(self.times)
        return Entries(self.times[order], self.positions[order])

    def part(self, first: int, stop: int) -> Entries:
        return Entries(self.times[first:stop], self.positions[first:stop])


def joined(parts: list[Entries]) -> Entries:
    if not parts:
        return Entries(np.empty(0, np.int64), np.empty(0, np.uint64))
    return Entries(np.concatenate([part.times for part in parts]), np.concatenate([part.positions for part in parts]))


def of_arrays(times: array[int], positions: array[int]) -> Entries:
    """Typecodes "q" and "Q"."""
    return Entries(np.array(times, np.int64), np.array(positions, np.uint64))


def of_slot(slot: Slot) -> Entries:
    numbers = np.array(slot.entries, np.uint64)
    times = (numbers >> np.uint64(ENTRY_BITS)).astype(np.int64) + slot.start_ms
    return Entries(times, (numbers & np.uint64(ENTRY_MASK)) | np.uint64(slot.ledger_id << ENTRY_BITS))


def bitmaps_of(positions: Positions) -> dict[int, BitMap]:
    """The entries of each ledger."""
    if not len(positions):
        return {}
    ordered = np.sort(positions)
    ledgers = ordered >> np.uint64(ENTRY_BITS)
    entries = (ordered & np.uint64(ENTRY_MASK)).astype(np.uint32)
    edges = [0, *(np.flatnonzero(ledgers[1:] != ledgers[:-1]) + 1).tolist(), len(ordered)]
    return {int(ledgers[first]): _bitmap(entries[first:stop]) for first, stop in pairwise(edges)}


def _bitmap(entries: NDArray[np.uint32]) -> BitMap:
    """`entries`: sorted. Many are added in parts, between which others may have Python's lock."""
    bitmap = BitMap()
    for at in range(0, len(entries), ADDED_MAX):
        bitmap.update(array("I", entries[at : at + ADDED_MAX].tobytes()))
    return bitmap


# --- blocks


def _columns(numbers: NDArray[np.uint64]) -> list[bytes]:
    width = max(1, (int(numbers.max()).bit_length() + 7) // 8)
    octets = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)
    columns = []
    for index in range(width):
        column = octets[:, index].tobytes()
        packed = zstd.compress(column, LEVEL)
        columns.append(packed if len(packed) < len(column) else column)
    return columns


def encode_block(entries: Entries) -> bytes:
    """`entries`: sorted, at least one."""
    first_ms, lowest = int(entries.times[0]), int(entries.positions.min())
    differences = np.diff(entries.times, prepend=entries.times[:1]).astype(np.uint64)
    times, positions = _columns(differences), _columns(entries.positions - np.uint64(lowest))
    head = _BLOCK.pack(VERSION, len(entries.times), first_ms, lowest, len(times), len(positions))
    columns = times + positions
    return b"".join((head, *(_COUNT.pack(len(column)) for column in columns), *columns))


def decode_block(data: bytes | memoryview) -> Entries:
    """Raises `ValueError`."""
    try:
        version, count, first_ms, lowest, time_width, position_width = _BLOCK.unpack_from(data)
        known = version == VERSION and 0 < count <= BLOCK_ENTRIES and 0 < time_width <= 8 and 0 < position_width <= 8
        if not known:
            raise ValueError(f"a block of {count} delayed entries in version {version} is none that this release writes")
        widths = time_width + position_width
        sizes = struct.unpack_from(f"<{widths}I", data, _BLOCK.size)
        numbers = np.zeros((2, count, 8), np.uint8)
        at = _BLOCK.size + 4 * widths
        for index, size in enumerate(sizes):
            column = bytes(data[at : at + size])
            at += size
            if size != count:
                column = zstd.decompress(column)
            kind, place = (0, index) if index < time_width else (1, index - time_width)
            if len(column) != count:
                raise ValueError(f"a block of {count} delayed entries has a column of {len(column)}")
            numbers[kind, :, place] = np.frombuffer(column, np.uint8)
    except (struct.error, zstd.ZstdError) as error:
        raise ValueError(f"a block of delayed entries is damaged: {error}") from None
    whole = numbers.view("<u8").reshape(2, count)
    times = np.cumsum(whole[0].astype(np.int64)) + first_ms
    return Entries(times, whole[1].astype(np.uint64) + np.uint64(lowest))


# --- directories


def encode_directory(directory: Directory) -> bytes:
    parts = [_DIRECTORY.pack(VERSION, directory.entries, len(directory.starts))]
    parts.append(np.array(directory.starts, "<i8").tobytes())
    parts.append(_COUNT.pack(len(directory.bitmaps)))
    for ledger_id, bitmap in directory.bitmaps.items():
        data = _optimized(bitmap).serialize()
        parts += (_LEDGER.pack(ledger_id, len(data)), data)
    return b"".join(parts)


def _optimized(bitmap: BitMap) -> BitMap:
    """With its runs as such, found a stretch at a time: for 16 million entries at once that takes 17 ms."""
    if len(bitmap) <= STRETCH:
        bitmap.run_optimize()
        return bitmap
    optimized = BitMap()
    for first in range(bitmap.min() // STRETCH * STRETCH, bitmap.max() + 1, STRETCH):
        part = bitmap & BitMap(range(first, min(first + STRETCH, 1 << ENTRY_BITS)))
        part.run_optimize()
        optimized |= part
    return optimized


def decode_directory(data: bytes) -> Directory:
    """Raises `ValueError`."""
    try:
        version, entries, blocks = _DIRECTORY.unpack_from(data)
        if version != VERSION:
            raise ValueError(f"a directory of delayed entries has version {version}; this release reads version {VERSION}")
        at = _DIRECTORY.size
        starts = array("q", np.frombuffer(data, "<i8", blocks, at).tolist())
        at += 8 * blocks
        (ledgers,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        bitmaps = {}
        for _ in range(ledgers):
            ledger_id, length = _LEDGER.unpack_from(data, at)
            at += _LEDGER.size
            if at + length > len(data):
                raise ValueError("a directory of delayed entries is cut short")
            bitmaps[ledger_id] = BitMap.deserialize(data[at : at + length])
            at += length
    except struct.error as error:
        raise ValueError(f"a directory of delayed entries is cut short: {error}") from None
    return Directory(entries, starts, bitmaps)


# --- whole runs


def encode_run(parts: Iterable[Entries]) -> RunBytes:
    """`parts`: in any order, at least one entry."""
    entries = joined(list(parts)).sorted()
    blocks, starts = [], array("q")
    for part in in_blocks(entries):
        starts.append(int(part.times[0]))
        blocks.append(encode_block(part))
    return RunBytes(blocks, Directory(len(entries.times), starts, bitmaps_of(entries.positions)))


def in_blocks(entries: Entries) -> Iterator[Entries]:
    for first in range(0, len(entries.times), BLOCK_ENTRIES):
        yield entries.part(first, first + BLOCK_ENTRIES)
