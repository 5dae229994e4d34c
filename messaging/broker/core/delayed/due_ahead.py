"""Delayed messages that are read before they are due, and kept until they are sent. Pure.

What comes due within one second may lie anywhere in the log, each entry in a block of its own. The index knows it early: so the
entries are read in the order of the log while there is time, and nothing but they is kept. When they are due, those of a ledger are
sent as one `GatheredBlock`.

Each entry is in one place at most: wanted, asked for, or held. What is in none of them is read when it is sent, as any other.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate

from pyroaring import BitMap

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.due_reads import DueRead, take_read
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.gathered_block import GatheredBlock
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position

HELD_BYTES_MAX = 32 << 20  # of one topic
ENTRY_BYTES = 150  # of an entry that is held, in addition to its data
GATHERED_MAX = 1024  # entries of one block
FORGOTTEN_MAX = 16_384  # entries in one turn: two milliseconds


class _Held:
    """Entries of one ledger."""

    __slots__ = ("data", "entries", "oldest_ms")

    def __init__(self) -> None:
        self.data: dict[int, bytes] = {}
        self.entries = BitMap()  # the keys of `data`
        self.oldest_ms = 1 << 62  # when the broker stored the oldest


class DueAhead:
    def __init__(self, bytes_max: int = HELD_BYTES_MAX) -> None:
        self.memory_bytes = 0
        self.reads_under_way = 0
        self.waiting: dict[object, None] = {}  # those that asked for what is being read
        self._bytes_max = bytes_max
        self._wanted: EntrySets = {}
        self._asked: EntrySets = {}
        self._held: dict[int, _Held] = {}
        self._until: deque[tuple[int, EntrySets]] = deque()  # what was wanted together, and how long it is kept

    # --- reading

    def want(self, entries: Mapping[int, BitMap], until_ms: int) -> None:
        """They are kept up to `until_ms`, which never goes back."""
        new = {}
        for ledger_id, some in entries.items():
            left = some - self._asked.get(ledger_id, BitMap()) - self._wanted.get(ledger_id, BitMap())
            kept = self._held.get(ledger_id)
            if kept is not None:
                left -= kept.entries
            if left:
                new[ledger_id] = left
                entry_sets.add(self._wanted, ledger_id, left)
        if new:
            self._until.append((until_ms, new))

    @property
    def held_entries(self) -> int:
        return sum(len(kept.data) for kept in self._held.values())

    @property
    def has_room(self) -> bool:
        return self.memory_bytes < self._bytes_max

    def next_read(self, entry_bytes: Callable[[int], int]) -> DueRead | None:
        """What to read now. `entry_bytes`: of a ledger, on average."""
        if not self._wanted or not self.has_room:
            return None
        ledger_id = min(self._wanted)
        read = take_read(self._wanted, ledger_id, entry_bytes(ledger_id))
        entry_sets.add(self._asked, ledger_id, read.wanted)
        self.reads_under_way += 1
        return read

    def arrived(self, read: DueRead, blocks: Iterable[EntryBlock], reached: int) -> None:
        """A read has brought everything up to entry `reached`; `blocks` hold what is wanted of that. The rest is read again; what
        has to be looked at when it is sent (batches, chunks) is left to that."""
        ledger_id = read.ledger_id
        wanted = self._ended(read)
        kept = self._held.get(ledger_id) or _Held()
        for block in blocks:
            if block.chunked or block.marker or not block.uniform:
                continue
            data, begin = block.data, block.first_entry
            for entry in wanted & BitMap(range(begin, block.last_entry + 1)):
                index = entry - begin
                stored = kept.data[entry] = bytes(data[block.start_of(index) : block.end_offsets[index]])
                self.memory_bytes += ENTRY_BYTES + len(stored)
                kept.oldest_ms = min(kept.oldest_ms, block.broker_time_ms)
                kept.entries.add(entry)
        if kept.entries:
            self._held[ledger_id] = kept
        if reached >= read.first:
            wanted.remove_range(0, reached + 1)
            entry_sets.add(self._wanted, ledger_id, wanted)

    def failed(self, read: DueRead) -> None:
        """Its entries are read when they are sent."""
        self._ended(read)

    def _ended(self, read: DueRead) -> BitMap:
        """Returns what is still wanted of it."""
        self.reads_under_way -= 1
        return entry_sets.take(self._asked, {read.ledger_id: read.wanted}).get(read.ledger_id, BitMap())

    # --- sending

    def waits(self, position: Position, who: object) -> bool:
        """Whether it is being read, or will be after what is being read: `who` is among `waiting` then."""
        ledger_id, entry = position
        soon = self.reads_under_way > 0 and self.has_room and entry in self._wanted.get(ledger_id, ())
        expected = soon or entry in self._asked.get(ledger_id, ())
        if expected:
            self.waiting[who] = None
        return expected

    def find(self, position: Position, due: BitMap, stored_from_ms: int = 0) -> GatheredBlock | None:
        """A block of `due` entries from `position` on, without one missing in between; None: it is not here, or was perhaps stored
        before `stored_from_ms`."""
        ledger_id, first = position
        kept = self._held.get(ledger_id)
        if kept is None or first not in kept.entries or kept.oldest_ms < stored_from_ms:
            return None
        ids = array("I")
        data = kept.data
        for entry in due.iter_equal_or_larger(first):
            if entry not in data or len(ids) == GATHERED_MAX:
                break
            ids.append(entry)
        parts = list(map(data.__getitem__, ids))
        return GatheredBlock(ledger_id, ids, b"".join(parts), array("I", accumulate(map(len, parts))), kept.oldest_ms)

    # --- forgetting

    def forget(self, now_ms: int) -> bool:
        """What was kept long enough, or a part of it. Returns whether there is more."""
        left = FORGOTTEN_MAX
        while self._until and self._until[0][0] <= now_ms:
            if left <= 0:
                return True
            entries = self._until[0][1]
            part = entry_sets.take_first(entries, left)
            left -= sum(map(len, part.values()))
            self._drop(part)
            if not entries:
                self._until.popleft()
        return False

    def clear(self) -> None:
        """Of what is being read nothing is kept either."""
        self._until.clear()
        self._wanted.clear()
        self._asked.clear()
        self._held.clear()
        self.memory_bytes = 0

    def _drop(self, entries: EntrySets) -> None:
        entry_sets.take(self._wanted, entries)
        entry_sets.take(self._asked, entries)
        for ledger_id, some in entries.items():
            kept = self._held.get(ledger_id)
            if kept is None:
                continue
            for entry in some & kept.entries:
                self.memory_bytes -= ENTRY_BYTES + len(kept.data.pop(entry))
            kept.entries -= some
            if not kept.entries:
                del self._held[ledger_id]
