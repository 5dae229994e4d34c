"""Encoded changes of a cursor: what the cursor log stores and `Cursor.apply` applies to another copy. Pure.

Each is a kind (u8) and a body; positions are i64 i64. Encoding raises `struct.error` or `OverflowError` for numbers that do not
fit.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence

from pyroaring import BitMap

from messaging.storage.ledger_store import Position

POSITION = struct.Struct(">qq")
LEDGER = struct.Struct(">q")
RANGE = struct.Struct(">qqq")
RANGE_FROM = 4  # entries that follow one another: more of them take more bytes than their range


class Delta:
    """Kinds, and what follows the kind."""

    ENTRIES = 1  # ledger i64, entries u32* in the byte order of the machine
    UP_TO = 2  # position
    BATCH = 3  # position, words u64*
    RESET = 4  # position
    RANGE = 5  # ledger, first and last entry: i64 each


_ENTRIES = bytes((Delta.ENTRIES,))
_ENTRIES_HEAD = 1 + LEDGER.size


def of_entries(ledger_id: int, entries: BitMap) -> bytes:
    """As a range where that is shorter. There is at least one."""
    first, last, count = entries.min(), entries.max(), len(entries)
    if count > RANGE_FROM and last - first + 1 == count:
        return of_range(ledger_id, first, last)
    return _ENTRIES + LEDGER.pack(ledger_id) + entries.to_array().tobytes()


def of_range(ledger_id: int, first: int, last: int) -> bytes:
    return bytes((Delta.RANGE,)) + RANGE.pack(ledger_id, first, last)


def of_position(kind: int, position: Position) -> bytes:
    return bytes((kind,)) + POSITION.pack(*position)


def of_batch(position: Position, words: Sequence[int]) -> bytes:
    return of_position(Delta.BATCH, position) + struct.pack(f">{len(words)}Q", *words)


def entries_of(body: bytes) -> tuple[int, list[int]]:
    """Of `ENTRIES`: the ledger and the entries. Raises `struct.error`, `ValueError`."""
    entries = array("I")
    entries.frombytes(body[LEDGER.size :])
    return LEDGER.unpack_from(body)[0], entries.tolist()


def batch_of(body: bytes) -> tuple[Position, tuple[int, ...]]:
    """Of `BATCH`: the entry and its words. Raises `struct.error`."""
    position = Position(*POSITION.unpack_from(body))
    return position, struct.unpack(f">{(len(body) - POSITION.size) // 8}Q", body[POSITION.size :])


def merged(deltas: Iterable[bytes]) -> Iterator[bytes]:
    """The same deltas, with neighbours that acknowledge entries of one ledger merged: a replay of 100,000 acknowledgements is
    then a few calls."""
    run: list[bytes] = []
    for delta in deltas:
        joins = delta[:1] == _ENTRIES and (not run or run[0][:_ENTRIES_HEAD] == delta[:_ENTRIES_HEAD])
        if run and not joins:
            yield run[0] + b"".join(delta[_ENTRIES_HEAD:] for delta in run[1:])
            run = []
        if delta[:1] == _ENTRIES:
            run.append(delta)
        else:
            yield delta
    if run:
        yield run[0] + b"".join(delta[_ENTRIES_HEAD:] for delta in run[1:])
