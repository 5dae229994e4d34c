"""The ledgers of one topic, in order, as numbers: which positions exist, which comes next, how many lie between two.

Ledger ids rise along the list. A ledger may be empty. The last one may be open; its last entry rises as appends are confirmed, so
everything here refers to confirmed entries only. Pure.

The list has two of a topic's three positions: `last`, the durable one, which receipts follow, and `deliverable`, which dispatch
follows. They differ only while `withheld_from` is set: by transactions, or for a log that confirms entries before others may read
them. The third, `Appender.written`, is the writer's. Always `deliverable` <= `last` <= `written`.

Nearly every topic has one ledger, and there may be 100,000 topics: the last ledger is stored as two numbers, the ended ones as two
tuples.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from messaging.storage.ledger_store import EARLIEST, LATEST, Position
from messaging.storage.meta_store import CompactedLedger


class LedgerList:
    __slots__ = ("_ended_ids", "_ended_lasts", "_former_entries", "compacted", "last_entry", "last_id", "withheld_from")

    def __init__(self, ledgers: list[tuple[int, int]] | None = None) -> None:
        """`ledgers`: (ledger id, last confirmed entry or -1), in rising order of ids."""
        ended = (ledgers or [])[:-1]
        self._ended_ids: tuple[int, ...] = tuple(ledger_id for ledger_id, _ in ended)
        self._ended_lasts: tuple[int, ...] = tuple(last for _, last in ended)
        self.last_id, self.last_entry = ledgers[-1] if ledgers else (-1, -1)  # -1: there is no ledger
        self.withheld_from: Position | None = None  # from here on, durable entries may not be delivered yet
        self.compacted: CompactedLedger | None = None  # what the last compaction left of the entries up to its horizon
        self._former_entries = self.entries  # that were not added since; below 0 if more of the added ones were dropped

    def add(self, ledger_id: int) -> None:
        if self.last_id >= 0:
            self._ended_ids += (self.last_id,)
            self._ended_lasts += (self.last_entry,)
        self.last_id, self.last_entry = ledger_id, -1

    def confirm(self, ledger_id: int, last_entry: int) -> None:
        """The last ledger now holds entries up to `last_entry`; for an ended ledger, corrects its last entry."""
        if ledger_id == self.last_id:
            self.last_entry = last_entry
        else:
            lasts = list(self._ended_lasts)
            lasts[self._ended_ids.index(ledger_id)] = last_entry
            self._ended_lasts = tuple(lasts)

    def drop_first(self) -> int:
        """Removes the oldest ledger and returns its id."""
        gone = self.first_id
        self.drop(gone)
        return gone

    def drop(self, ledger_id: int) -> None:
        """Removes a ledger: an ended one, or the only one. What follows it keeps its positions."""
        self._former_entries -= self.last_of(ledger_id) + 1
        if self._ended_ids:
            index = self._ended_ids.index(ledger_id)
            self._ended_ids = self._ended_ids[:index] + self._ended_ids[index + 1 :]
            self._ended_lasts = self._ended_lasts[:index] + self._ended_lasts[index + 1 :]
        else:
            self.last_id = self.last_entry = -1

    def dropped(self, ledger_id: int) -> bool:
        """Whether what was in this ledger is gone, if it was one of the topic's."""
        return 0 <= ledger_id < self.last_id and ledger_id not in self._ended_ids

    @property
    def ids(self) -> tuple[int, ...]:
        return (*self._ended_ids, self.last_id) if self.last_id >= 0 else ()

    @property
    def lasts(self) -> tuple[int, ...]:
        return (*self._ended_lasts, self.last_entry) if self.last_id >= 0 else ()

    @property
    def first_id(self) -> int:
        """The id of the oldest ledger; -1 if there is none."""
        return self._ended_ids[0] if self._ended_ids else self.last_id

    @property
    def last(self) -> Position:
        """The durable position: the last confirmed entry, or `EARLIEST` if there is none."""
        return Position(self.last_id, self.last_entry) if self.last_entry >= 0 else self._last_ended(len(self._ended_ids))

    @property
    def last_confirmed(self) -> Position:
        """`last` as administrators see it: in an empty topic entry -1 of its ledger; `EARLIEST` if there is none."""
        last = self.last
        return Position(self.last_id, -1) if last == EARLIEST else last

    @property
    def deliverable(self) -> Position:
        """The last entry that may be delivered, or `EARLIEST` if there is none."""
        return self.last if self.withheld_from is None else self.before(self.withheld_from)

    def deliverable_in(self, ledger_id: int) -> int:
        """The last entry of a ledger that may be delivered; -1 if there is none or it is not in the list."""
        withheld_from = self.withheld_from
        if withheld_from is None:
            return self.last_entry if ledger_id == self.last_id else self.last_of(ledger_id)
        if ledger_id > withheld_from.ledger_id:
            return -1
        last = self.last_of(ledger_id)
        return min(last, withheld_from.entry_id - 1) if ledger_id == withheld_from.ledger_id else last

    def may_deliver(self, position: Position) -> bool:
        return 0 <= position.entry_id <= self.deliverable_in(position.ledger_id)

    def _last_ended(self, index: int) -> Position:
        """The last entry of the ended ledgers before index `index`."""
        for earlier in range(index - 1, -1, -1):
            if self._ended_lasts[earlier] >= 0:
                return Position(self._ended_ids[earlier], self._ended_lasts[earlier])
        return EARLIEST

    @property
    def first(self) -> Position:
        """The first existing position, or the position of the first future entry; (0, 0) if there is no ledger."""
        return self._begin_from(0) if self.last_id >= 0 else Position(0, 0)

    def _begin_from(self, index: int) -> Position:
        """The beginning of the first non-empty ledger from index `index` on; if there is none, that of the last ledger."""
        for later in range(index, len(self._ended_ids)):
            if self._ended_lasts[later] >= 0:
                return Position(self._ended_ids[later], 0)
        return Position(self.last_id, 0)

    @property
    def entries(self) -> int:
        return sum(self._ended_lasts) + len(self._ended_lasts) + self.last_entry + 1

    @property
    def added_entries(self) -> int:
        """The number of entries confirmed since the list was made, also of ledgers that were dropped."""
        return self.entries - self._former_entries

    def holds(self, position: Position) -> bool:
        return 0 <= position.entry_id <= self.last_of(position.ledger_id)

    def next_after(self, position: Position) -> Position:
        """The position that follows: an existing entry, or the one that the next append to the last ledger will create."""
        ledger_id, entry_id = position
        if ledger_id >= self.last_id:
            return Position(ledger_id, entry_id + 1)
        index = bisect_left(self._ended_ids, ledger_id)
        if index < len(self._ended_ids) and self._ended_ids[index] == ledger_id:
            if entry_id < self._ended_lasts[index]:
                return Position(ledger_id, entry_id + 1)
            index += 1
        return self._begin_from(index)

    def resolve(self, position: Position) -> Position:
        """`position` itself, or the position where reading continues if its ledger ended before it (or was deleted)."""
        if self.last_id < 0 or self.holds(position):
            return position
        return self.next_after(Position(position.ledger_id, max(position.entry_id - 1, -1)))

    def before(self, position: Position) -> Position:
        """The entry before `position`; `EARLIEST` if there is none."""
        ledger_id, entry_id = position
        if ledger_id > self.last_id:
            return self.last
        last = self.last_of(ledger_id)
        if entry_id > 0 and last >= 0:
            return Position(ledger_id, min(entry_id - 1, last))
        return self._last_ended(bisect_left(self._ended_ids, ledger_id))

    def last_up_to(self, position: Position) -> Position:
        """The last entry at or before `position`; `EARLIEST` if there is none."""
        return self.before(Position(position.ledger_id, position.entry_id + 1))

    @property
    def horizon(self) -> Position:
        """Compacted reading takes everything up to here from the compacted ledger; `EARLIEST` if there is none."""
        return EARLIEST if self.compacted is None else self.compacted.horizon

    def compacts(self, ledger_id: int) -> bool:
        """Whether the compacted ledger may hold entries of this ledger."""
        return self.compacted is not None and self.compacted.base_ledger_id <= ledger_id <= self.compacted.last.ledger_id

    def outlived(self, position: Position) -> bool:
        """Whether a position is of a ledger that is gone, and the compacted ledger may hold entries around it."""
        return self.compacted is not None and position.ledger_id < self.first_id and position <= self.compacted.horizon

    def mark_at(self, position: Position) -> Position:
        """The mark-delete position that has everything up to `position` behind it."""
        return position if self.outlived(position) else self.last_up_to(position)

    @property
    def mark_at_end(self) -> Position:
        """The mark-delete position that has everything behind it, also where the ledgers up to the horizon are gone."""
        return max(self.last, self.horizon)

    def mark_for(self, start: Position) -> Position:
        """The mark-delete position that makes `start` the first entry read (`EARLIEST`, `LATEST`, or a position)."""
        return self.mark_at_end if start == LATEST else self.mark_before(start)

    def mark_before(self, position: Position) -> Position:
        """The mark-delete position that makes `position` the next one to read; `EARLIEST`: whatever is first."""
        if position == EARLIEST:
            return self.before(self.first)
        return Position(position.ledger_id, position.entry_id - 1) if self.outlived(position) else self.before(position)

    def ranges(self, after: Position, last: Position) -> list[tuple[int, int, int]]:
        """The entries after `after` up to `last` as (ledger id, first, last entry), in order."""
        return [
            (ledger_id, first, stop)
            for ledger_id, end in zip(self.ids, self.lasts, strict=True)
            if after.ledger_id <= ledger_id <= last.ledger_id
            and (first := after.entry_id + 1 if ledger_id == after.ledger_id else 0)
            <= (stop := min(end, last.entry_id) if ledger_id == last.ledger_id else end)
        ]

    def last_of(self, ledger_id: int) -> int:
        """The last confirmed entry of a ledger in the list; -1 if it is empty or not in the list."""
        if ledger_id == self.last_id:
            return self.last_entry
        index = bisect_left(self._ended_ids, ledger_id)
        return self._ended_lasts[index] if index < len(self._ended_ids) and self._ended_ids[index] == ledger_id else -1

    def ends(self, ledger_id: int) -> bool:
        """Whether this ledger gets no more entries, because another follows it in the list."""
        return ledger_id < self.last_id

    def count_up_to(self, position: Position) -> int:
        """The number of entries at or before `position`."""
        ledger_id, entry_id = position
        if ledger_id >= self.last_id:
            index, last = len(self._ended_ids), self.last_entry
        else:
            index = bisect_right(self._ended_ids, ledger_id) - 1
            if index < 0:
                return 0
            last = self._ended_lasts[index]
            if self._ended_ids[index] < ledger_id:
                entry_id = last
        if ledger_id > self.last_id:
            entry_id = last
        return sum(self._ended_lasts[:index]) + index + min(entry_id, last) + 1

    def at_index(self, index: int) -> Position:
        """The entry at `index`, counted from 0 over the whole list. Raises `IndexError` past the end."""
        for ledger_id, last in zip(self.ids, self.lasts, strict=True):
            if index <= last:
                return Position(ledger_id, index)
            index -= last + 1
        raise IndexError(index)
