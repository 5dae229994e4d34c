"""The interface of ledger storage: what every `LedgerStore` promises, and what its callers may rely on.

A *ledger* is an append-only sequence of *entries*, numbered from 0. A *block* is a run of consecutive entries that were appended
together: for us, what one socket read brought for one topic. An entry's bytes are opaque here. A *position* is (ledger id, entry
id).

Guarantees (of every implementation; one contract suite checks them):

- G1  `done` callbacks of one writer run in entry order. After the first failure no later append of that writer succeeds.
- G2  An append whose `done` got None survives a crash and `seal` by anyone, and is readable until the ledger is deleted.
- G3  An append whose `done` got an error has an *unknown* outcome until `seal` returns; then it is in the ledger if and only
      if its entry id <= `LedgerInfo.last_entry`.
- G4  After `Fenced` no `done` of that writer gets None, nor after `take_over` by a newer fence has returned.
- G5  A block is never divided or joined: it becomes durable as one, and is read back as it was appended, header included. So a
      block can be one add of a log that numbers adds, such as BookKeeper's.

Readers may rely on the order of entry ids, not on their being dense: a ledger with the property `SPARSE` may have gaps between
blocks, as one does that holds what a compaction left of others, under the original ids.

No method blocks the event loop. Nothing but `StoreError` escapes.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class Position(NamedTuple):
    """Where an entry is. Ordered. `Position(-1, -1)` stands before everything."""

    ledger_id: int
    entry_id: int


EARLIEST = Position(-1, -1)
LATEST = Position(2**63 - 1, 2**63 - 1)


SPARSE = "sparse"  # a property for `LedgerStore.create`, with any value: the writer may leave ids out
ENTRY_ID_MAX = (1 << 62) - 1
WHOLE = "whole"  # the range of all topics there are


class Fence(NamedTuple):
    """The right to change what is stored of a range: `scope` names the range, `epoch` rises with each new owner. Every mutating
    call carries it, and is refused with `Fenced` unless it is the newest of its scope. `MetaStore.acquire` gives fences out."""

    scope: str
    epoch: int


@dataclass(slots=True)
class Block:
    """Consecutive entries of one ledger, as appended.

    `data` holds the entries back to back; entry `first_entry + i` is ``data[end_offsets[i-1]:end_offsets[i]]`` (0 for i = 0).
    `header` is the caller's (see `messaging/storage/block_header.py`). Both are immutable once appended.
    """

    ledger_id: int
    first_entry: int
    header: bytes
    data: bytes | memoryview
    end_offsets: array[int]  # typecode "I": end offset in `data` of each entry, in bytes

    @property
    def count(self) -> int:
        return len(self.end_offsets)

    @property
    def last_entry(self) -> int:
        return self.first_entry + len(self.end_offsets) - 1


@dataclass(slots=True)
class LedgerInfo:
    """`last_entry` is -1 for an empty ledger; `length_bytes` counts entries' bytes, not overhead."""

    ledger_id: int
    last_entry: int
    length_bytes: int
    sealed: bool
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        """Of a sparse ledger, at most so many."""
        return self.last_entry + 1


class StoreStatistics(NamedTuple):
    """What a store did since it started, and what it holds now."""

    syncs: int  # times that commits were forced to disk
    sync_s: float  # seconds spent in that
    written_bytes: int  # by commits, overhead included
    files: int | None  # None: not known, as of all that another server keeps
    stored_bytes: int | None  # of all files, whether their entries still live or not
    degraded_ledgers: int = 0  # that are being written, with fewer copies than they should have


class StoreError(Exception):
    """Root of what a store raises. `retryable` says whether the same call may succeed later."""

    retryable = False

    def __init__(self, message: str, ledger_id: int = -1) -> None:
        super().__init__(message)
        self.ledger_id = ledger_id


class Fenced(StoreError):
    """A newer epoch owns the scope, or the ledger was sealed by another."""


class LedgerClosed(StoreError):
    """This writer takes no more appends: it was closed, sealed, or an earlier append failed."""


class LedgerExists(StoreError):
    pass


class NoSuchLedger(StoreError):
    pass


class NoSuchEntry(StoreError):
    """Past the last confirmed entry."""


class EntryTooLarge(StoreError):
    pass


class AppendFailed(StoreError):
    """The outcome is unknown until `seal` says (G3)."""


class DiskFull(AppendFailed):
    """Refused before anything was written: space for cursors, metadata and reclaim is kept. Retry when space returns."""

    retryable = True


class Unavailable(StoreError):
    retryable = True


class Unreachable(Unavailable):
    """Its server does not answer as it should, which may pass by itself."""


class Corrupt(StoreError):
    """Stored entries are lost: their bytes do not match their checksum, or are not there any more.

    `entry_id` is the first entry concerned, `resume_entry` the one to go on with: all between the two are lost for certain."""

    def __init__(self, message: str, ledger_id: int, entry_id: int, resume_entry: int | None = None) -> None:
        super().__init__(message, ledger_id)
        self.entry_id = entry_id
        self.resume_entry = max(entry_id + 1, resume_entry or 0)


def check_block(data: Buffer, end_offsets: array[int], entry_bytes_max: int, ledger_id: int) -> None:
    """Refuses a block with an entry that is too large, or whose offsets do not fit its data."""
    size = len(data)
    if not end_offsets or end_offsets[-1] != size:
        raise ValueError(f"a block's last stop must be the length of its data ({size})")
    if size > entry_bytes_max:
        begin = 0
        for stop in end_offsets:
            if stop - begin > entry_bytes_max:
                raise EntryTooLarge(f"an entry of {stop - begin} bytes; at most {entry_bytes_max} are stored", ledger_id)
            begin = stop


def check_skip(entry_id: int, next_entry: int, properties: Mapping[str, str], ledger_id: int) -> None:
    """Refuses ids that cannot be left out."""
    if SPARSE not in properties:
        raise ValueError(f"ledger {ledger_id} is not sparse: its next entry is {next_entry}, not {entry_id}")
    if not next_entry <= entry_id <= ENTRY_ID_MAX:
        raise ValueError(f"ledger {ledger_id}: entry {entry_id} is not between {next_entry} and {ENTRY_ID_MAX}")


Done = Callable[[StoreError | None], None]


class LedgerWriter(Protocol):
    """The one live writer of a ledger; lives on one event loop."""

    ledger_id: int
    last_confirmed: int  # highest durable entry id, -1 for none
    next_entry: int  # the id that the next append begins with
    length_bytes: int  # bytes of all entries appended
    pending_bytes: int  # appended and not yet confirmed

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        """Appends one block and returns its first entry id, at once.

        `data` must not change until `done` was called, which happens on the loop, later than this call returns, exactly once.
        Raises `EntryTooLarge`, `LedgerClosed` or `Fenced` where the block is refused outright; `done` is then not called.
        """

    def skip_to(self, entry_id: int) -> None:
        """The next append begins with this id: free ids before it are left out for good. Raises `ValueError` if it is taken, or the
        ledger is not sparse."""

    async def close(self) -> LedgerInfo:
        """Seals at the last confirmed entry. Waits for what is pending first."""


class LedgerReader(Protocol):
    ledger_id: int

    async def read(self, first: int, *, entries_max: int, bytes_max: int) -> list[Block]:
        """Blocks from the one that holds `first` on, up to the last confirmed entry.

        The first block may begin before `first` (blocks are returned whole), or behind it where a sparse ledger has none there. At
        least one block comes back, even if larger than `bytes_max`; no other begins after `entries_max` entries from `first` on.
        Checksums were verified, and that nothing is missing but what was left out. Raises `NoSuchEntry`, `NoSuchLedger`, `Corrupt`,
        `Unavailable`.
        """

    async def aclose(self) -> None: ...


READ_BYTES = 1 << 20  # of a read where nothing speaks for more


class LedgerStore(Protocol):
    entry_bytes_max: int
    read_bytes: int  # how large a read should be of who goes on to the next one: larger where each waits for other machines
    failed: StoreError | None  # why nothing is taken any more, for good; only a new start repairs it

    @property
    def epoch(self) -> int:
        """Of this start, higher than those of all starts before. Fences that are given out from here on have at least this one."""

    async def start(self) -> None:
        """Opens or recovers the store. Nothing can be changed before `take_over`."""

    async def take_over(self, fence: Fence) -> None:
        """From here on `fence` is the newest of its scope. When this returns, nothing that carries an older one succeeds any more,
        and what writers of older ones had appended is confirmed or refused. Idempotent. Raises `Fenced` if a newer one is known."""

    async def stop(self) -> None:
        """Finishes pending appends and closes. After it, no call is allowed."""

    async def create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> LedgerWriter:
        """A new, empty ledger of the fence's scope. Raises `LedgerExists`, `Fenced`, `Unavailable`, `DiskFull`."""

    async def seal(self, fence: Fence, ledger_id: int) -> LedgerInfo:
        """Ends a ledger for good: afterwards no append to it is ever confirmed, and `last_entry` is final and covers every
        confirmed entry. Idempotent; callable after a crash at any point. Raises `NoSuchLedger`, `Fenced`, `Unavailable`,
        `DiskFull`."""

    async def open(self, ledger_id: int) -> LedgerReader:
        """Reads a sealed ledger, or this process's own open one. Never fences. Raises `NoSuchLedger`."""

    def forecast(self, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> int | Awaitable[int]:
        """How many entries a read of about this size brings from `first` on, up to where a block ends; 0 where that cannot be told
        without reading, and for sparse ledgers. A `read` of just so many, with the same `bytes_max`, brings just them, unless some
        are damaged: so where the next one begins is known before this one is done. A store that has to ask somebody else answers
        later."""

    async def delete(self, fence: Fence, ledger_id: int) -> None:
        """Forgets a ledger; space comes back later. Idempotent. The caller took it out of the topic's list first."""

    async def info(self, ledger_id: int) -> LedgerInfo: ...

    async def ledgers(self) -> list[LedgerInfo]:
        """Every ledger in the store, for audits."""

    async def ledger_ids(self, scope: str) -> list[int]:
        """The id of every ledger that was made under a fence of this scope, in no order: cheap even for hundreds of thousands. One
        that is just being made or deleted may be among them or not."""

    def statistics(self) -> StoreStatistics: ...
