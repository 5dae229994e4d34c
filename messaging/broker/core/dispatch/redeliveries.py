"""Entries to be redelivered before anything new: a bitmap per ledger, and how often each was redelivered. Pure.

Where the subscription has a dead-letter policy, entries that were redelivered too often are set aside in `dead`: they are sent to
nobody, and are moved to another topic (`core/dead_letters.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ranges_of
from messaging.broker.core.cursor import Cursor
from messaging.storage.ledger_store import EARLIEST, Position


class Redeliveries:
    """An `EntrySource`. Nothing in it is acknowledged."""

    __slots__ = ("_cursor", "count_max", "counts", "dead", "entries")
    sequential = False

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.entries: dict[int, BitMap] = {}
        self.count_max: int | None = None  # of the dead-letter policy
        self.dead: dict[int, BitMap] = {}
        self.counts: dict[Position, int] = {}  # explicit requests; a disconnect raises nothing (Pulsar's rule)

    def next_position(self) -> Position | None:
        """The lowest position."""
        if not self.entries:
            return None
        ledger_id = min(self.entries)
        return Position(ledger_id, self.entries[ledger_id].min())

    def last_position(self) -> Position:
        """The highest position; `EARLIEST` if there is none."""
        return max((Position(ledger_id, entries.max()) for ledger_id, entries in self.entries.items()), default=EARLIEST)

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
        if self.count_max is not None:
            bitmap -= self._set_aside(ledger_id, bitmap, self.count_max)
        self._keep(ledger_id, bitmap)

    def _set_aside(self, ledger_id: int, entries: BitMap, count_max: int) -> BitMap:
        """Those that were redelivered more often than `count_max` are dead from now on."""
        counts = self.counts
        dead = BitMap([entry for entry in entries if counts.get(Position(ledger_id, entry), 0) > count_max]) if counts else BitMap()
        if dead:
            self.dead[ledger_id] = self.dead.get(ledger_id, BitMap()) | dead
        return dead

    def limit_counts(self, count_max: int | None) -> None:
        """The dead-letter policy changed. None: there is none, and what waited to be moved is sent again."""
        self.count_max = count_max
        returned, self.dead = self.dead, {}
        for ledger_id, entries in returned.items():
            self.add(ledger_id, entries)
        for ledger_id in list(self.entries) if count_max is not None else ():
            self.add(ledger_id, BitMap())

    def forget_counts(self) -> None:
        """All consumers left. A dead-letter policy keeps counting over that."""
        if self.count_max is None:
            self.counts.clear()

    def first_dead(self, count: int) -> list[Position]:
        """The lowest entries that are to be moved."""
        found: list[Position] = []
        for ledger_id in sorted(self.dead):
            found += [Position(ledger_id, entry) for entry in self.dead[ledger_id][: count - len(found)]]
            if len(found) >= count:
                break
        return found

    def is_dead(self, position: Position) -> bool:
        return position.entry_id in self.dead.get(position.ledger_id, ())

    @property
    def waiting_entries(self) -> int:
        """How many are to be sent again."""
        return sum(map(len, self.entries.values()))

    @property
    def dead_entries(self) -> int:
        return sum(map(len, self.dead.values()))

    def count(self, ledger_id: int, entries: BitMap) -> None:
        """The client asked for these again."""
        for entry in entries:
            position = Position(ledger_id, entry)
            self.counts[position] = self.counts.get(position, 0) + 1

    def counts_of(self, ledger_id: int, entries: Iterable[int]) -> list[int] | None:
        """Redelivery counts of `entries`; None where all are 0."""
        if not self.counts:
            return None
        found = [self.counts.get(Position(ledger_id, entry), 0) for entry in entries]
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

    def take(self, ledger_id: int, entries: BitMap) -> None:
        """These are on their way, or need not be sent."""
        bitmap = self.entries.get(ledger_id)
        if bitmap is not None:
            self._keep(ledger_id, bitmap - entries)

    def acknowledged(self, ledger_id: int, entries: BitMap) -> None:
        self.take(ledger_id, entries)
        if self.dead:
            self._drop_dead(ledger_id, entries)
        if self.counts:
            for entry in entries:
                self.counts.pop(Position(ledger_id, entry), None)

    def acknowledged_range(self, ledger_id: int, first: int, last: int) -> None:
        self.advance(ledger_id, first, last + 1)
        if self.dead:
            self._drop_dead(ledger_id, BitMap(range(first, last + 1)))
        if self.counts:
            for position in [held for held in self.counts if held.ledger_id == ledger_id and first <= held.entry_id <= last]:
                del self.counts[position]

    def acknowledged_up_to(self, mark: Position) -> None:
        for ledger_id in [held for held in self.entries if held <= mark.ledger_id]:
            self.advance(ledger_id, 0, 1 << 32 if ledger_id < mark.ledger_id else mark.entry_id + 1)
        for ledger_id in [held for held in self.dead if held <= mark.ledger_id]:
            gone = self.dead[ledger_id] if ledger_id < mark.ledger_id else BitMap(range(mark.entry_id + 1))
            self._drop_dead(ledger_id, gone)
        for position in [held for held in self.counts if held <= mark]:
            del self.counts[position]

    def clear(self) -> None:
        """Everything is sent again. A dead-letter policy keeps counting, which tells what is dead as soon as it comes back."""
        self.entries.clear()
        self.dead.clear()
        self.forget_counts()

    def _drop_dead(self, ledger_id: int, entries: BitMap) -> None:
        left = self.dead.get(ledger_id, BitMap()) - entries
        if left:
            self.dead[ledger_id] = left
        else:
            self.dead.pop(ledger_id, None)

    def _keep(self, ledger_id: int, bitmap: BitMap) -> None:
        if bitmap:
            self.entries[ledger_id] = bitmap
        else:
            self.entries.pop(ledger_id, None)
