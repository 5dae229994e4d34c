"""What the index of delayed messages keeps in memory of its parts, and the jobs that it asks for. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pyroaring import BitMap

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.time_slots import NEVER_MS, Slot
from messaging.storage.meta_store import DelayedRun

AHEAD_MS = 45_000  # a block of a run is read so long before its time, and what lies scattered over the log
HEAD_BLOCKS_MAX = 16  # of one run in memory: 2 MiB


BLOCK_ENTRIES = 8192  # of a run


class Head(Protocol):
    """Decoded blocks: see `run_head.py`."""

    @property
    def left(self) -> int: ...
    @property
    def last_ms(self) -> int: ...
    def next_ms(self) -> int: ...
    def between(self, after_ms: int, until_ms: int) -> dict[int, BitMap]: ...
    def extend(self, other: Head) -> None: ...
    def take(self, until_ms: int, entries_max: int) -> dict[int, BitMap]: ...


class DueEntry(NamedTuple):
    """An entry and its delivery time, milliseconds since 1970."""

    at_ms: int
    ledger_id: int
    entry_id: int


class Directory(NamedTuple):
    """What is stored of a run beside its blocks."""

    entries: int
    starts: array[int]  # typecode "q": the first time of each block
    bitmaps: dict[int, BitMap]  # of the entries of each ledger


class RunBytes(NamedTuple):
    """A run that is not stored yet."""

    blocks: list[bytes]
    directory: Directory


class TimedEntries:
    """Entries in the order in which they came; a position is ``ledger id << 32 | entry id``."""

    __slots__ = ("first_ms", "positions", "times")

    def __init__(self) -> None:
        self.times: array[int] = array("q")
        self.positions: array[int] = array("Q")
        self.first_ms = NEVER_MS


class StoredRun:
    """`starts`: the first time of each of its blocks. `left`: entries that are not released, at most. `head`: what of the
    `loaded_blocks` before `next_block` is not released."""

    __slots__ = ("busy", "directory_entries", "head", "left", "loaded_blocks", "loading", "next_block", "record", "starts")

    def __init__(self, record: DelayedRun, starts: array[int], entries: int) -> None:
        self.record = record
        self.starts = starts
        self.left = entries
        self.directory_entries = entries  # in its bitmaps as they are stored
        self.next_block = record.first_block
        self.loaded_blocks: list[list[int]] = []  # of each that is in the head, its number and how many entries are left of it
        self.head: Head | None = None
        self.loading = False
        self.busy = False  # it is being merged, or its directory is written

    @property
    def first_block(self) -> int:
        """The first of which something is left."""
        return self.loaded_blocks[0][0] if self.loaded_blocks else self.next_block

    @property
    def done(self) -> bool:
        return self.head is None and self.next_block >= len(self.starts)

    def load_ms(self) -> int | None:
        """When to read its next block; None: not before something of it is released."""
        if self.loading or self.next_block >= len(self.starts) or len(self.loaded_blocks) >= HEAD_BLOCKS_MAX:
            return None
        return self.starts[self.next_block] - AHEAD_MS

    def loaded(self, block: int, head: Head | None) -> None:
        self.next_block = block + 1
        if head is not None:
            self.loaded_blocks.append([block, head.left])
            if self.head is None:
                self.head = head
            else:
                self.head.extend(head)

    def took(self, count: int) -> None:
        """So many entries of the head were released."""
        self.left -= count
        while count:
            first = self.loaded_blocks[0]
            part = min(count, first[1])
            first[1] -= part
            count -= part
            if not first[1]:
                del self.loaded_blocks[0]
        if not self.loaded_blocks:
            self.head = None

    def next_ms(self) -> int:
        """It is not `done`."""
        return self.head.next_ms() if self.head is not None else self.starts[self.next_block]


@dataclass(slots=True, eq=False)
class Load:
    """Read and decode block `block` of `run`."""

    run: StoredRun
    block: int


@dataclass(slots=True, eq=False)
class Seal:
    """Write a run of these."""

    chunks: list[TimedEntries]
    slots: list[Slot]
    count: int
    slots_ms: int = NEVER_MS  # the time of the first of them
    moved: set[int] = field(default_factory=set)  # chunks that came due meanwhile


@dataclass(slots=True, eq=False)
class Merge:
    """Write a run of what these have left; none if that is nothing. Entries due up to `after_ms` were released."""

    runs: list[StoredRun]
    after_ms: int


@dataclass(slots=True, eq=False)
class Rewrite:
    """Write the directory of `run` again, without what was released."""

    run: StoredRun


@dataclass(slots=True, eq=False)
class Drop:
    """Everything in these was released."""

    runs: list[StoredRun]


Job = Load | Seal | Merge | Rewrite | Drop


def known_until(runs: Iterable[StoredRun]) -> int:
    """Of what is due earlier nothing is in storage alone."""
    return min((run.starts[run.next_block] for run in runs if run.next_block < len(run.starts)), default=NEVER_MS)


def between(runs: Iterable[StoredRun], after_ms: int, until_ms: int) -> EntrySets:
    """What of the blocks in memory is due after `after_ms` and up to `until_ms`."""
    due: EntrySets = {}
    for run in runs:
        if run.head is not None and run.head.next_ms() <= until_ms:
            for ledger_id, entries in run.head.between(after_ms, until_ms).items():
                entry_sets.add(due, ledger_id, entries)
    return due
