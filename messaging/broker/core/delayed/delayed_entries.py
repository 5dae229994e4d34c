"""The delayed entries of one subscription that are due and that its reading had passed: the second source of what is sent. Pure.

Each unacknowledged entry before the read position is in exactly one place: a consumer holds it, it is to be sent again, it is
pending in the index of the topic, or it is due here. So it is delivered once, however often its time is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ranges_of
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList

Ranges = list[tuple[int, int]]


class Reader(Protocol):
    """What a subscription has read."""

    cursor: Cursor
    ledger_list: LedgerList

    consumers: dict[Consumer, None]

    @property
    def read_position(self) -> Position: ...

    def not_to_be_sent(self, ledger_id: int, entries: BitMap) -> None:
        """Those of these that were set aside, and that nobody was sent, are not to be sent now."""

    def in_hand(self, ledger_id: int) -> BitMap:
        """The entries that a consumer holds or that are to be sent again."""


class DelayedEntries:
    """An `EntrySource`. It may still hold what was acknowledged meanwhile, and what retention then deleted: that is left out when
    it is asked."""

    __slots__ = ("_reader", "counted_bytes", "due", "pending")
    sequential = False

    def __init__(self, reader: Reader, pending: EntrySets) -> None:
        self._reader = reader
        self.pending = pending  # of the topic's index
        self.due: EntrySets = {}
        self.counted_bytes = 0  # of `memory_bytes`, by its topic

    # --- as a source

    def next_position(self) -> Position | None:
        """The lowest that is due."""
        while self.due:
            ledger_id = min(self.due)
            lowest = Position(ledger_id, self.due[ledger_id].min())
            if self._reader.ledger_list.holds(lowest):
                return lowest
            del self.due[ledger_id]  # the ledger is gone
        return None

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> Ranges:
        due = self.due.get(ledger_id)
        if due is None:
            return []
        asked = due & BitMap(range(first, last + 1))
        return list(ranges_of(entry_sets.unacknowledged(ledger_id, asked, self._reader.cursor)))

    def advance(self, ledger_id: int, first: int, stop: int) -> None:
        entry_sets.remove_range(self.due, ledger_id, first, stop)

    # --- what changes it

    def release(self, due: Mapping[int, BitMap], again: EntrySets) -> bool:
        """`due` are due. Of these, `again` were pending before, and may have been sent in between. Returns whether any is to be
        sent from here. The index may know ledgers that are deleted, which a seek makes unacknowledged again."""
        reader = self._reader
        for ledger_id, entries in due.items():
            if reader.ledger_list.dropped(ledger_id):
                continue
            passed = entry_sets.before(ledger_id, entries, reader.read_position)
            if not passed:
                continue
            left = entry_sets.unacknowledged(ledger_id, passed, reader.cursor)
            if ledger_id in again:
                left -= reader.in_hand(ledger_id)
            entry_sets.add(self.due, ledger_id, left)
        return bool(self.due)

    def waits_again(self, ledger_id: int, entries: Sequence[int]) -> None:
        """These were found not to be due after all."""
        self._reader.not_to_be_sent(ledger_id, BitMap(entries))
        if ledger_id in self.due:
            entry_sets.take(self.due, {ledger_id: BitMap(entries)})

    def acknowledged_up_to(self, mark: Position) -> None:
        entry_sets.remove_up_to(self.due, mark)

    def clear(self) -> None:
        """Reading goes back: it comes to them again."""
        self.due.clear()

    # --- asking

    def needs(self, entries: Mapping[int, BitMap]) -> EntrySets:
        """Which of these its consumers will be sent from here once they are due."""
        reader, unacknowledged = self._reader, EntrySets()
        for ledger_id, some in entries.items() if reader.consumers else ():
            if not reader.ledger_list.dropped(ledger_id):
                passed = entry_sets.before(ledger_id, some, reader.read_position)
                entry_sets.add(unacknowledged, ledger_id, entry_sets.unacknowledged(ledger_id, passed, reader.cursor))
        return unacknowledged

    def waits(self, position: Position) -> bool:
        """Whether reading has passed this entry because it is pending."""
        return position < self._reader.read_position and position.entry_id in self.pending.get(position.ledger_id, ())

    @property
    def waiting_count(self) -> int:
        """Entries that reading has passed because they are not due, and that are not acknowledged."""
        count, cursor, stop = 0, self._reader.cursor, self._reader.read_position
        for ledger_id, entries in self.pending.items():
            if cursor.mark_delete.ledger_id <= ledger_id <= stop.ledger_id and not self._reader.ledger_list.dropped(ledger_id):
                count += entry_sets.unacknowledged_count(ledger_id, entries, cursor, stop)
        return count

    @property
    def memory_bytes(self) -> int:
        return entry_sets.memory_bytes(self.due)


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
