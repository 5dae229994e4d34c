"""Sources of the entries that a subscription sends next. They are asked in order, and the first that has an entry is used. Pure."""

from __future__ import annotations

from typing import Protocol

from messaging.broker.core.cursors.cursor import Cursor
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList


class EntrySource(Protocol):
    """`sequential`: its entries follow one another, so that reading ahead of them is worth while."""

    @property
    def sequential(self) -> bool: ...

    def next_position(self) -> Position | None:
        """Where its next entry is; None if it has none now."""

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        """Its ranges (first, last) within entries `first`..`last` of a ledger, without what is acknowledged."""

    def advance(self, ledger_id: int, first: int, stop: int) -> None:
        """Its entries from `first` to before `stop` are sent, or need not be."""


class ReadPosition:
    """The entries that were never sent since the last rewind, in order."""

    __slots__ = ("_cursor", "_ledger_list", "position")
    sequential = True

    def __init__(self, cursor: Cursor, ledger_list: LedgerList) -> None:
        self._cursor = cursor
        self._ledger_list = ledger_list
        self.position = ledger_list.next_after(cursor.mark_delete)

    def next_position(self) -> Position | None:
        ledger_list, position = self._ledger_list, self.position
        ledger_id, entry_id = position
        if ledger_id == ledger_list.last_id and entry_id >= 0 and ledger_list.withheld_from is None:
            return position if entry_id <= ledger_list.last_entry else None  # as nearly always; this is asked for each block
        self.position = position = ledger_list.resolve(position)
        return position if ledger_list.may_deliver(position) else None

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        return self._cursor.unacked_ranges(ledger_id, first, last)

    def advance(self, ledger_id: int, first: int, stop: int) -> None:
        self.position = self._ledger_list.next_after(Position(ledger_id, stop - 1))

    def rewind(self) -> None:
        """Reading continues right after the mark-delete position."""
        self.position = self._ledger_list.next_after(self._cursor.mark_delete)

    def skip_past(self, mark: Position) -> None:
        """Everything up to `mark` is acknowledged. Reading never goes back by this."""
        self.position = max(self.position, self._ledger_list.next_after(mark))

    def skip_lost(self, ledger_id: int, stop: int) -> bool:
        """Whether entries before `stop` that storage cannot give are of a compacted ledger, and were skipped."""
        return False
