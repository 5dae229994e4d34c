"""The delayed entries of one subscription: those that reading passed over because they were not due, and those of them that are due
now, which are the second source of what is sent. Pure.

Each unacknowledged entry before the read position is in exactly one place: a consumer holds it, it is to be sent again, it waits
here, or it is due here. So it is delivered once, however often its time is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ranges_of
from messaging.broker.core.cursor import Cursor
from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position

Ranges = list[tuple[int, int]]


class DelayedEntries:
    """An `EntrySource`. It may still hold what was acknowledged meanwhile: that is left out when it is asked."""

    __slots__ = ("_cursor", "counted_bytes", "due", "waiting")
    sequential = False

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.waiting: EntrySets = {}
        self.due: EntrySets = {}
        self.counted_bytes = 0  # of `memory_bytes`, by its topic

    # --- as a source

    def next_position(self) -> Position | None:
        """The lowest that is due."""
        if not self.due:
            return None
        ledger_id = min(self.due)
        return Position(ledger_id, self.due[ledger_id].min())

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> Ranges:
        due = self.due.get(ledger_id)
        if due is None:
            return []
        return list(ranges_of(entry_sets.unacknowledged(ledger_id, due & BitMap(range(first, last + 1)), self._cursor)))

    def advance(self, ledger_id: int, first: int, stop: int) -> None:
        entry_sets.remove_range(self.due, ledger_id, first, stop)

    # --- what changes it

    def wait(self, ledger_id: int, entries: Sequence[int]) -> None:
        """Reading passed over these."""
        entry_sets.add(self.waiting, ledger_id, entries)

    def release(self, due: Mapping[int, BitMap]) -> bool:
        """Of those that wait, `due` are due. Returns whether any of them is to be sent."""
        for ledger_id, entries in entry_sets.take(self.waiting, due).items():
            entry_sets.add(self.due, ledger_id, entry_sets.unacknowledged(ledger_id, entries, self._cursor))
        return bool(self.due)

    def acknowledged_up_to(self, mark: Position) -> None:
        entry_sets.remove_up_to(self.waiting, mark)
        entry_sets.remove_up_to(self.due, mark)

    def clear(self) -> None:
        """Reading goes back: what it passes over again waits again."""
        self.waiting.clear()
        self.due.clear()

    # --- asking

    @property
    def waiting_count(self) -> int:
        """Entries that are not due and not acknowledged."""
        return sum(len(entry_sets.unacknowledged(ledger_id, held, self._cursor)) for ledger_id, held in self.waiting.items())

    @property
    def memory_bytes(self) -> int:
        return entry_sets.memory_bytes(self.waiting) + entry_sets.memory_bytes(self.due)


def not_due(block: EntryBlock, ranges: Ranges, cutoff_ms: int) -> list[tuple[int, int]]:
    """The entries of `ranges` that are due after `cutoff_ms`, with their times, in order."""
    times = block.deliver_at_ms
    if times is None:
        return []
    begin = block.first_entry
    return [
        (entry, times[entry - begin])
        for first, last in ranges
        for entry in range(first, last + 1)
        if times[entry - begin] > cutoff_ms
    ]


def without(ranges: Ranges, entries: Sequence[int]) -> Ranges:
    """`ranges` without single entries of them."""
    left = BitMap()
    for first, last in ranges:
        left.add_range(first, last + 1)
    return list(ranges_of(left - BitMap(entries)))
