"""Which dead entries one move takes, and in which blocks it appends them. Pure.

A move takes up to `MOVE_BYTES`, and all chunks of a message that it takes any of: a message is moved as a whole or not at all. What
is larger than `MOVE_BYTES` is appended in several blocks, the *parts* of the move. All parts are planned before the first is
appended, so that after a crash the rest is appended as it would have been.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from messaging.broker.core.chunks import Chunk
from messaging.broker.core.dispatch.chunk_sets import CHUNKS_MAX
from messaging.storage.ledger_store import Position

MOVE_BYTES = 1 << 20  # of one block; a larger entry goes alone
MOVE_ENTRIES_MAX = 1_000
SEARCHED_MAX = CHUNKS_MAX  # dead entries that are looked through for the rest of a message: more chunks of one are not known


class Part(msgspec.Struct, frozen=True):
    """One block. `sequence_id`: of its first message. `continues`: the sequence id of a message whose chunks began in the part
    before, else -1."""

    entries: int
    sequence_id: int
    continues: int = -1


class Move(msgspec.Struct, frozen=True):
    """What is being moved, in the order in which it is appended. `after`: the last position of `target` before. `redeliveries`:
    how often each entry was asked for. Of a move in one block, `parts` and `redeliveries` are empty."""

    sequence_id: int
    entries: tuple[tuple[int, int], ...]
    target: str
    after: tuple[int, int]
    parts: tuple[Part, ...] = ()
    redeliveries: tuple[int, ...] = ()

    def entries_of(self, part: int) -> list[tuple[Position, int]]:
        """(position, redeliveries)"""
        start = sum(former.entries for former in self.parts[:part])
        stop = start + self.parts[part].entries
        return [
            (Position(*position), count)
            for position, count in zip(self.entries[start:stop], self.redeliveries[start:stop], strict=True)
        ]

    @property
    def all_parts(self) -> tuple[Part, ...]:
        return self.parts or (Part(len(self.entries), self.sequence_id),)


class FoundEntry(NamedTuple):
    """A dead entry. `size`: the memory that moving it takes; `messages`: at most so many are made of it."""

    position: Position
    size: int
    messages: int
    chunk: Chunk | None


class MoveEntries:
    """Is offered dead entries in order, until it is `full`."""

    def __init__(self) -> None:
        self.entries: list[FoundEntry] = []
        self._size = 0
        self._closed = False  # only chunks of the messages in `_begun` are taken from here on
        self._begun: dict[bytes, set[int]] = {}  # messages of which chunks are missing, and which are taken

    @property
    def full(self) -> bool:
        return self._closed and not self._begun

    def offer(self, entry: FoundEntry) -> None:
        chunk = entry.chunk
        if self.entries and (self._size + entry.size > MOVE_BYTES or len(self.entries) >= MOVE_ENTRIES_MAX):
            self._closed = True
        if self._closed and (chunk is None or chunk.message not in self._begun):
            return
        self.entries.append(entry)
        self._size += entry.size
        if chunk is not None:
            taken = self._begun.setdefault(chunk.message, set())
            taken.add(chunk.chunk_id)
            if len(taken) == chunk.chunks:
                del self._begun[chunk.message]

    def ordered(self) -> list[FoundEntry]:
        """The chunks of a message one after the other, where its first one is."""
        place: dict[bytes, int] = {}
        keys = []
        for index, entry in enumerate(self.entries):
            keys.append(place.setdefault(entry.chunk.message, index) if entry.chunk is not None else index)
        return [entry for _, entry in sorted(zip(keys, self.entries, strict=True), key=lambda pair: pair[0])]


def parts_of(entries: Iterable[FoundEntry], sequence_id: int) -> tuple[Part, ...]:
    """All chunks of a message have one sequence id, that of the first. A message takes as many as it could have messages."""
    parts: list[Part] = []
    size = count = 0
    message, own, first, continues = b"", -1, sequence_id, -1
    for entry in entries:
        if count and (size + entry.size > MOVE_BYTES or count >= MOVE_ENTRIES_MAX):
            parts.append(Part(count, first, continues))
            size = count = 0
            first = sequence_id
            continues = own if entry.chunk is not None and entry.chunk.message == message else -1
        if entry.chunk is None:
            message, own = b"", -1
        elif entry.chunk.message != message:
            message, own = entry.chunk.message, sequence_id
        size, count, sequence_id = size + entry.size, count + 1, sequence_id + entry.messages
    return (*parts, Part(count, first, continues)) if count else ()


def next_sequence_id(entries: Iterable[FoundEntry], sequence_id: int) -> int:
    return sequence_id + sum(entry.messages for entry in entries)
