"""Entries to be redelivered before anything new: a bitmap per ledger, and how often each was redelivered. Pure."""

from __future__ import annotations

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ranges_of
from messaging.broker.core.cursor import Cursor
from messaging.storage.ledger_store import Position


class Redeliveries:
    """An `EntrySource`. Nothing in it is acknowledged."""

    __slots__ = ("_cursor", "counts", "entries")
    sequential = False

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.entries: dict[int, BitMap] = {}
        self.counts: dict[Position, int] = {}  # explicit requests; a disconnect raises nothing (Pulsar's rule)

    def next_position(self) -> Position | None:
        """The lowest."""
        if not self.entries:
            return None
        ledger_id = min(self.entries)
        return Position(ledger_id, self.entries[ledger_id].min())

    def add(self, ledger_id: int, entries: BitMap) -> None:
        """Entries of a ledger came back; those that were acknowledged in the meantime stay out."""
        cursor = self._cursor
        bitmap = self.entries.get(ledger_id, BitMap()) | entries
        if cursor.mark_delete.ledger_id == ledger_id:
            bitmap.remove_range(0, cursor.mark_delete.entry_id + 1)
        elif cursor.mark_delete.ledger_id > ledger_id:
            bitmap = BitMap()
        individual_acks = cursor.individual_acks.get(ledger_id)
        if individual_acks is not None:
            bitmap -= individual_acks
        self._keep(ledger_id, bitmap)

    def count(self, ledger_id: int, entries: BitMap) -> None:
        """The client asked for these again."""
        for entry in entries:
            position = Position(ledger_id, entry)
            self.counts[position] = self.counts.get(position, 0) + 1

    def counts_of(self, ledger_id: int, first: int, last: int) -> list[int] | None:
        """Redelivery counts of entries `first` to before `last`; None where all are 0."""
        if not self.counts:
            return None
        found = [self.counts.get(Position(ledger_id, entry), 0) for entry in range(first, last)]
        return found if any(found) else None

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges (first, last) to send again within entries `first`..`last`."""
        return list(ranges_of(self.entries[ledger_id] & BitMap(range(first, last + 1))))

    def advance(self, ledger_id: int, first: int, stop: int) -> None:
        """Entries `first` to before `stop` are on their way."""
        bitmap = self.entries.get(ledger_id)
        if bitmap is not None:
            bitmap.remove_range(first, stop)
            self._keep(ledger_id, bitmap)

    def acknowledged(self, ledger_id: int, entries: BitMap) -> None:
        bitmap = self.entries.get(ledger_id)
        if bitmap is not None:
            self._keep(ledger_id, bitmap - entries)
        if self.counts:
            for entry in entries:
                self.counts.pop(Position(ledger_id, entry), None)

    def acknowledged_range(self, ledger_id: int, first: int, last: int) -> None:
        self.advance(ledger_id, first, last + 1)
        if self.counts:
            for position in [held for held in self.counts if held.ledger_id == ledger_id and first <= held.entry_id <= last]:
                del self.counts[position]

    def acknowledged_up_to(self, mark: Position) -> None:
        for ledger_id in [held for held in self.entries if held <= mark.ledger_id]:
            self.advance(ledger_id, 0, 1 << 32 if ledger_id < mark.ledger_id else mark.entry_id + 1)
        for position in [held for held in self.counts if held <= mark]:
            del self.counts[position]

    def clear(self) -> None:
        self.entries.clear()
        self.counts.clear()

    def _keep(self, ledger_id: int, bitmap: BitMap) -> None:
        if bitmap:
            self.entries[ledger_id] = bitmap
        else:
            self.entries.pop(ledger_id, None)
