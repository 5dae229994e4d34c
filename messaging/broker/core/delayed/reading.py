"""The read position of a subscription that delays messages: it passes over what is pending, without a look into the log. Pure."""

from __future__ import annotations

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ranges_of
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.dispatch.sources import ReadPosition
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList

WINDOW = 1 << 20  # entries looked at in one step


class DelayedReading(ReadPosition):
    __slots__ = ("_pending",)

    def __init__(self, cursor: Cursor, ledger_list: LedgerList, pending: EntrySets, position: Position) -> None:
        super().__init__(cursor, ledger_list)
        self._pending = pending
        self.position = position

    def next_position(self) -> Position | None:
        position = super().next_position()
        while position is not None:
            ledger_id, entry = position
            pending = self._pending.get(ledger_id)
            if not pending:
                return position
            entry = self._next_open(ledger_id, pending, entry)
            if entry >= 0:
                self.position = Position(ledger_id, entry)
                return self.position
            last = Position(ledger_id, self._ledger_list.deliverable_in(ledger_id))
            self.position = self._ledger_list.next_after(last)
            position = super().next_position()
        return None

    def _next_open(self, ledger_id: int, pending: BitMap, entry: int) -> int:
        """The first entry from `entry` on that is neither pending nor acknowledged; -1 if there is none that may be delivered."""
        acknowledged = self._cursor.individual_acks.get(ledger_id)
        if entry not in pending and (acknowledged is None or entry not in acknowledged):
            return entry
        last = self._ledger_list.deliverable_in(ledger_id)
        for first in range(entry, last + 1, WINDOW):
            left = BitMap(range(first, min(first + WINDOW, last + 1))) - pending
            if acknowledged is not None:
                left -= acknowledged
            if left:
                return int(left.min())
        return -1

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        ranges = super().unacked_ranges(ledger_id, first, last)
        pending = self._pending.get(ledger_id)
        if not pending or not pending.range_cardinality(first, last + 1):
            return ranges
        left = BitMap()
        for start, stop in ranges:
            left.add_range(start, stop + 1)
        return list(ranges_of(left - pending))
