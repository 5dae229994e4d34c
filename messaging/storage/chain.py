"""The chain of ledgers of one topic, as numbers: which positions exist, which comes next, how many lie between two.

Ledger ids rise along the chain. A ledger may be empty. The last one may be open; its last entry rises as appends are confirmed, so
that everything here speaks of confirmed entries only. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from messaging.storage.seam import EARLIEST, Position


class Chain:
    __slots__ = ("ids", "lasts")

    def __init__(self, ledgers: list[tuple[int, int]] | None = None) -> None:
        """`ledgers`: (ledger id, last confirmed entry or -1), ids rising."""
        self.ids: list[int] = [ledger_id for ledger_id, _ in ledgers or ()]
        self.lasts: list[int] = [last for _, last in ledgers or ()]

    def add(self, ledger_id: int) -> None:
        self.ids.append(ledger_id)
        self.lasts.append(-1)

    def confirm(self, ledger_id: int, last_entry: int) -> None:
        """The open ledger now holds entries up to `last_entry`. Nearly always the last one of the chain."""
        index = len(self.ids) - 1
        while self.ids[index] != ledger_id:
            index -= 1
        self.lasts[index] = last_entry

    def drop_first(self) -> int:
        """Forgets the oldest ledger and returns its id."""
        del self.lasts[0]
        return self.ids.pop(0)

    @property
    def last(self) -> Position:
        """The last confirmed entry, or `EARLIEST` where there is none."""
        for index in range(len(self.ids) - 1, -1, -1):
            if self.lasts[index] >= 0:
                return Position(self.ids[index], self.lasts[index])
        return EARLIEST

    @property
    def first(self) -> Position:
        """The first position there is or will be; (0, 0) while there is no ledger."""
        for index, ledger_id in enumerate(self.ids):
            if self.lasts[index] >= 0 or index == len(self.ids) - 1:
                return Position(ledger_id, 0)
        return Position(0, 0)

    @property
    def entries(self) -> int:
        return sum(self.lasts) + len(self.lasts)

    def holds(self, position: Position) -> bool:
        index = bisect_left(self.ids, position.ledger_id)
        return index < len(self.ids) and self.ids[index] == position.ledger_id and 0 <= position.entry_id <= self.lasts[index]

    def next_after(self, position: Position) -> Position:
        """The position that follows: an entry that exists, or the one that the next append to the last ledger will make."""
        index = bisect_left(self.ids, position.ledger_id)
        if index == len(self.ids):
            return Position(position.ledger_id, position.entry_id + 1)
        if self.ids[index] == position.ledger_id:
            if position.entry_id < self.lasts[index] or index == len(self.ids) - 1:
                return Position(position.ledger_id, position.entry_id + 1)
            index += 1
        while index < len(self.ids) - 1 and self.lasts[index] < 0:
            index += 1
        return Position(self.ids[index], 0)

    def settle(self, position: Position) -> Position:
        """`position` itself, or where reading goes on if its ledger ended before it (or is gone)."""
        if self.holds(position) or not self.ids:
            return position
        return self.next_after(Position(position.ledger_id, max(position.entry_id - 1, -1)))

    def before(self, position: Position) -> Position:
        """The entry that precedes `position`; `EARLIEST` where there is none."""
        index = bisect_left(self.ids, position.ledger_id)
        if index < len(self.ids) and self.ids[index] == position.ledger_id and position.entry_id > 0 and self.lasts[index] >= 0:
            return Position(position.ledger_id, min(position.entry_id - 1, self.lasts[index]))
        for earlier in range(index - 1, -1, -1):
            if self.lasts[earlier] >= 0:
                return Position(self.ids[earlier], self.lasts[earlier])
        return EARLIEST

    def last_of(self, ledger_id: int) -> int:
        """The last confirmed entry of a ledger of the chain; -1 for one that is empty or not in it."""
        index = bisect_left(self.ids, ledger_id)
        return self.lasts[index] if index < len(self.ids) and self.ids[index] == ledger_id else -1

    def ends(self, ledger_id: int) -> bool:
        """Whether no entry will be added to this ledger any more: another follows it in the chain."""
        return bool(self.ids) and ledger_id < self.ids[-1]

    def count_up_to(self, position: Position) -> int:
        """Entries of the chain at or before `position`."""
        index = bisect_right(self.ids, position.ledger_id) - 1
        if index < 0:
            return 0
        whole = sum(self.lasts[:index]) + index
        inside = min(position.entry_id, self.lasts[index]) if self.ids[index] == position.ledger_id else self.lasts[index]
        return whole + inside + 1

    def at_index(self, index: int) -> Position:
        """The entry number `index`, counted from 0 over the whole chain. Raises `IndexError` past the end."""
        for ledger_id, last in zip(self.ids, self.lasts, strict=True):
            if index <= last:
                return Position(ledger_id, index)
            index -= last + 1
        raise IndexError(index)
