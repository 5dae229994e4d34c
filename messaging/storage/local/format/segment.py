"""Segment files: names, the header page, and the seal, which locates the footer.

    page 0, offset 0     magic 8 | format u32 | recycled u32 | store id u64 | number u64 | generation u64 | crc u32
    page 0, offset 2048  magic 8 | data stop u64 | footer offset u64 | footer bytes u64 | crc u32      (once the segment is sealed)
    offset 4096          commits

The seal has a sector of its own, so that writing it cannot damage the header. `number` is the segment's position in the log;
`generation` counts how often the reclaimer rewrote it.
"""

from __future__ import annotations

import errno
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.format.records import seed_of

PAGE_BYTES = 4096
SEAL_OFFSET = 2048
FORMAT_VERSION = 2

_HEAD = struct.Struct("<8sIIQQQ")
_SEAL = struct.Struct("<8sQQQ")
_CRC = struct.Struct("<I")
_HEAD_MAGIC = b"MGNTSEG\n"
_SEAL_MAGIC = b"MGNTEND\n"
_NAME = re.compile(r"segment-(\d{10})-(\d{4,})\.log")


class SegmentName(NamedTuple):
    number: int
    generation: int


class LogPosition(NamedTuple):
    """A place in the log."""

    segment: int
    offset: int


@dataclass(slots=True)
class Segment:
    """One file of the log. `data_stop` is the end of its commits; `footer_bytes` is 0 until the segment is sealed."""

    number: int
    generation: int
    path: Path
    seed: int
    size_bytes: int
    recycled: bool = False
    data_stop: int = PAGE_BYTES
    footer_offset: int = 0
    footer_bytes: int = 0
    live_bytes: int = 0  # bytes of blocks of existing ledgers
    live_events: int = 0  # number of ledger records that must be kept
    events: int = 0  # number of ledger records in the sealed segment, whether needed or not; 0 if unknown
    index_released: bool = True  # no in-memory ledger index points into it any more
    overhead_bytes: int = 0  # bytes of a sealed segment that are not blocks

    @property
    def name(self) -> SegmentName:
        return SegmentName(self.number, self.generation)

    @property
    def data_bytes(self) -> int:
        return self.data_stop - PAGE_BYTES

    @property
    def sealed(self) -> bool:
        return self.footer_bytes > 0


def name_of(number: int, generation: int) -> str:
    return f"segment-{number:010d}-{generation:04d}.log"


def parse_name(name: str) -> SegmentName | None:
    """None: not the name of a segment's file."""
    match = _NAME.fullmatch(name)
    return SegmentName(int(match[1]), int(match[2])) if match else None


def header_page(store_id: int, number: int, generation: int, *, recycled: bool) -> bytes:
    """The whole header page, with an empty seal."""
    head = _HEAD.pack(_HEAD_MAGIC, FORMAT_VERSION, int(recycled), store_id, number, generation)
    return (head + _CRC.pack(crc32c(head))).ljust(PAGE_BYTES, b"\0")


def seal_bytes(segment: Segment) -> bytes:
    seal = _SEAL.pack(_SEAL_MAGIC, segment.data_stop, segment.footer_offset, segment.footer_bytes)
    return seal + _CRC.pack(crc32c(seal, segment.seed))


class BadSegment(Exception):
    """The header page of a file with a segment's name does not belong to this log."""


class UnknownSegmentFormat(BadSegment):
    """The segment was written by another release."""


class DamagedHeaderPage(BadSegment):
    """The header page is unreadable; the segment may still belong to this log."""


def read_segment(file: DiskFile, path: Path, store_id: int) -> Segment:
    """Raises `BadSegment` and `OSError`."""
    try:
        page = file.read(PAGE_BYTES, 0)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise DamagedHeaderPage(f"the header page of {path} cannot be read: {error}") from error
    named = parse_name(path.name)
    if named is None or len(page) < PAGE_BYTES:
        raise DamagedHeaderPage(f"{path} is shorter than its header page")
    magic, version, recycled, found_store, number, generation = _HEAD.unpack_from(page)
    (crc,) = _CRC.unpack_from(page, _HEAD.size)
    if magic != _HEAD_MAGIC or crc != crc32c(page[: _HEAD.size]):
        raise DamagedHeaderPage(f"the header page of {path} does not match its checksum")
    if version != FORMAT_VERSION:
        raise UnknownSegmentFormat(
            f"{path} has format {version}; this release reads version {FORMAT_VERSION}: use the release that wrote it"
        )
    if found_store != store_id or (number, generation) != named:
        raise BadSegment(f"{path} belongs to another store or place ({found_store:x}, {number}, {generation})")
    segment = Segment(number, generation, path, seed_of(store_id, number, generation), file.size(), bool(recycled))
    _read_seal(page, segment)
    return segment


def _read_seal(page: bytes, segment: Segment) -> None:
    """An invalid seal counts as none, also one that points outside the file: the segment is replayed instead."""
    magic, data_stop, footer_offset, footer_bytes = _SEAL.unpack_from(page, SEAL_OFFSET)
    (crc,) = _CRC.unpack_from(page, SEAL_OFFSET + _SEAL.size)
    if magic != _SEAL_MAGIC or crc != crc32c(page[SEAL_OFFSET : SEAL_OFFSET + _SEAL.size], segment.seed):
        return
    if PAGE_BYTES <= data_stop <= footer_offset and footer_offset + footer_bytes <= segment.size_bytes:
        segment.data_stop, segment.footer_offset, segment.footer_bytes = data_stop, footer_offset, footer_bytes


def store_id_of(page: bytes) -> int | None:
    """The store id in a valid header page. Raises `UnknownSegmentFormat`."""
    if len(page) < PAGE_BYTES or _CRC.unpack_from(page, _HEAD.size)[0] != crc32c(page[: _HEAD.size]):
        return None
    magic, version, _, store_id, number, _ = _HEAD.unpack_from(page)
    if magic != _HEAD_MAGIC:
        return None
    if version != FORMAT_VERSION:
        raise UnknownSegmentFormat(f"segment {number} has format {version}; this release reads version {FORMAT_VERSION}")
    return int(store_id)
