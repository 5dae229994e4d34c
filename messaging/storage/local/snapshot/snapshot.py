"""The snapshot of the index: all that opening a log would learn from the footers up to some segment, in one file.

    magic 8 | crc u32 | content (msgpack, `Content`)

It is computed from the snapshot before it and newer footers, never from what the running store remembers: that may know of bytes
that a power loss takes back. If a snapshot is missing, damaged or belongs to another log, footers are read instead.

While a snapshot lists a ledger, a later DELETED record of that ledger must stay in the log: segments after `Content.covered` are
neither removed nor rewritten (see `snapshot_writer.py`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from crc32c import crc32c

from messaging.storage.local.device.disk import Disk, read_file
from messaging.storage.local.format.summary import pack, unpack
from messaging.storage.local.ledger_state import LedgerState, Phase
from messaging.storage.local.pausing import CHUNK, Pause

NAME = "index"
FORMAT_VERSION = 1
_HEAD = struct.Struct("<8sI")
_MAGIC = b"MGNTIDX\n"


class BadSnapshot(Exception):
    """A file with a snapshot's name that cannot be used."""


class SegmentCounts(msgspec.Struct, array_like=True):
    """Counts of a covered segment, sufficient to choose what to reclaim; the reclaimer checks again before it acts."""

    number: int
    generation: int
    live_bytes: int
    overhead_bytes: int
    events: int = 0  # earlier versions did not store it


class Content(msgspec.Struct, array_like=True):
    format: int
    store_id: int
    covered: int  # the newest segment whose footer is included; all earlier ones are too
    columns: list[bytes]  # `COLUMNS`, one number per ledger
    properties: list[dict[str, str]]
    segments: list[SegmentCounts]
    tombstones: dict[int, tuple[int, int]]
    deletions_pending: dict[int, tuple[int, int]]  # see `LedgerTable` for both

    @property
    def ledgers(self) -> int:
        ledger_ids, *_ = self.columns
        return len(ledger_ids) // 8


# Ledger id, last entry, length in bytes; the segments of its CREATED and SEALED records, the last one with blocks of it; the index
# of its properties.
COLUMNS = "QqQQQQQ"
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Content)


def encode(
    store_id: int,
    covered: int,
    ledgers: Iterable[LedgerState],
    segments: list[SegmentCounts],
    tombstones: dict[int, tuple[int, int]],
    deletions_pending: dict[int, tuple[int, int]],
    pause: Pause,
) -> bytes:
    """Encodes the whole file. `ledgers` is the state according to the footers up to `covered`."""
    columns = [array(typecode) for typecode in COLUMNS]
    ledger_ids, last_entries, length_bytes, created_segments, sealed_segments, last_segments, places_of_properties = columns
    places: dict[int, int] = {}  # index of properties by object identity: equal properties are one object
    properties: list[dict[str, str]] = []
    for states in _chunks(ledgers):
        for state in states:
            if id(state.properties) not in places:
                places[id(state.properties)] = len(properties)
                properties.append(state.properties)
        ledger_ids.extend([state.ledger_id for state in states])
        last_entries.extend([state.last_entry for state in states])
        length_bytes.extend([state.length_bytes for state in states])
        created_segments.extend([state.created_segment for state in states])
        sealed_segments.extend([state.sealed_segment for state in states])
        last_segments.extend([state.last_segment for state in states])
        places_of_properties.extend([places[id(state.properties)] for state in states])
        pause()
    packed = [pack(column) for column in columns]
    content = Content(FORMAT_VERSION, store_id, covered, packed, properties, segments, tombstones, deletions_pending)
    return encode_content(content)


def encode_content(content: Content) -> bytes:
    body = _encoder.encode(content)
    return _HEAD.pack(_MAGIC, crc32c(body)) + body


def read(disk: Disk, directory: Path, store_id: int) -> Content | None:
    """Reads the snapshot in `directory`; None if there is none. Raises `BadSnapshot`."""
    if NAME not in disk.names(directory):
        return None
    path = directory / NAME
    try:
        data = memoryview(read_file(disk, path))
    except OSError as error:
        raise BadSnapshot(f"{path} cannot be read: {error}") from error
    if len(data) < _HEAD.size or _HEAD.unpack_from(data) != (_MAGIC, crc32c(data[_HEAD.size :])):
        raise BadSnapshot(f"{path} does not match its checksum")
    try:
        content = _decoder.decode(data[_HEAD.size :])
    except msgspec.DecodeError as error:
        raise BadSnapshot(f"{path} cannot be read: {error}") from error
    if len(content.columns) != len(COLUMNS) or len(set(map(len, content.columns))) != 1:
        raise BadSnapshot(f"{path} has columns that do not fit each other")
    if content.format != FORMAT_VERSION or content.store_id != store_id:
        raise BadSnapshot(f"{path} has format {content.format} and is of store {content.store_id:016x}")
    return content


def restore_ledgers(content: Content, states: dict[int, LedgerState], segments: Iterable[int], pause: Pause) -> None:
    """Adds the ledgers of `content` to `states`, which must be empty."""
    # All states share the same int objects for segment numbers: with a hundred thousand ledgers that saves megabytes.
    shared = {number: number for number in segments}
    columns = [unpack(column, typecode) for column, typecode in zip(content.columns, COLUMNS, strict=True)]
    properties = content.properties
    for start in range(0, content.ledgers, CHUNK):
        for ledger_id, last_entry, length_bytes, created, sealed, last, at in zip(
            *(column[start : start + CHUNK] for column in columns), strict=True
        ):
            created = shared.get(created, created)
            state = states[ledger_id] = LedgerState(ledger_id, properties[at], created, last_entry, length_bytes)
            state.phase = Phase.SEALED if sealed else Phase.OPEN
            state.sealed_segment = shared.get(sealed, sealed)
            state.last_segment = shared.get(last, last)
        pause()


def _chunks(states: Iterable[LedgerState]) -> Iterator[list[LedgerState]]:
    chunk: list[LedgerState] = []
    for state in states:
        chunk.append(state)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
