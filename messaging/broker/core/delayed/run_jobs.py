"""What the index of delayed messages keeps in memory of its parts, and the jobs that it asks for. Pure."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pyroaring import BitMap

from messaging.broker.core.delayed.time_slots import NEVER_MS, Slot
from messaging.storage.meta_store import DelayedRun


class Head(Protocol):
    """A decoded block: see `run_head.py`."""

    @property
    def left(self) -> int: ...
    def next_ms(self) -> int: ...
    def take(self, until_ms: int, entries_max: int) -> dict[int, BitMap]: ...


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
    """`starts`: the first time of each of its blocks. `left`: entries that are not released, at most."""

    __slots__ = ("busy", "directory_entries", "head", "left", "loading", "next_block", "record", "starts")

    def __init__(self, record: DelayedRun, starts: array[int], entries: int) -> None:
        self.record = record
        self.starts = starts
        self.left = entries
        self.directory_entries = entries  # in its bitmaps as they are stored
        self.next_block = record.first_block
        self.head: Head | None = None
        self.loading = False
        self.busy = False  # it is being merged, or its directory is written

    @property
    def first_block(self) -> int:
        """The first of which something is left."""
        return self.next_block if self.head is None else self.next_block - 1

    @property
    def done(self) -> bool:
        return self.head is None and self.next_block >= len(self.starts)

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
