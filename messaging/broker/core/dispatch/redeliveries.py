"""Entries to be redelivered before anything new: a bitmap per ledger, and how often each was redelivered. Pure.

What a method costs follows the entries it is given, or the number of ledgers: never how many wait or are counted.

Where the subscription has a dead-letter policy, entries that were redelivered too often are set aside in `dead`: they are sent to
nobody, and are moved to another topic (`core/dead_letters/dead_entries.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from pyroaring import BitMap

from messaging.broker.core.bitmaps import BITMAP_BYTES, ENTRY_IDS, bitmap_bytes, ranges_of
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.dispatch.redelivery_counts import RedeliveryCounts
from messaging.storage.ledger_store import EARLIEST, Position

FORMER_LEDGERS_MAX = 64  # that are still known, beside as many as there are ledgers with entries
COUNTED_ENTRY_BYTES = 2  # memory of a count at most, each time that it is raised


class Redeliveries:
    """An `EntrySource`. Nothing in it is acknowledged."""

    __slots__ = ("_cursor", "_lowest", "count_max", "counts", "dead", "entries", "may_keep", "uncounted")
    sequential = False

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.entries: dict[int, BitMap] = {}
        self._lowest: list[int] = []  # a heap of the ledgers in `entries`, and of some that were
        self.count_max: int | None = None  # of the dead-letter policy
        self.dead: dict[int, BitMap] = {}
        self.counts = RedeliveryCounts()  # of explicit requests; a disconnect raises nothing (Pulsar's rule)
        self.uncounted = 0  # of those, the ones for which there was no memory
        self.may_keep: Callable[[int], bool] = lambda size: True

    def next_position(self) -> Position | None:
        """The lowest position."""
        if not self.entries:
            return None
        lowest = self._lowest
        while lowest[0] not in self.entries:
            heappop(lowest)
        return Position(lowest[0], self.entries[lowest[0]].min())

    def last_position(self) -> Position:
        """The highest position; `EARLIEST` if there is none."""
        return max((Position(ledger_id, entries.max()) for ledger_id, entries in self.entries.items()), default=EARLIEST)

    def add(self, ledger_id: int, entries: BitMap) -> None:
        """Entries of a ledger came back; those that were acknowledged in the meantime stay out."""
        cursor = self._cursor
        mark = cursor.mark_delete
        if mark.ledger_id > ledger_id:
            return
        returned = entries.copy()
        if mark.ledger_id == ledger_id:
            returned.remove_range(0, mark.entry_id + 1)
        individual_acks = cursor.individual_acks.get(ledger_id)
        if individual_acks is not None:
            returned -= individual_acks
        if self.count_max is not None and self.counts:
            returned -= self._set_aside(ledger_id, returned, self.count_max)
        self.send_again(ledger_id, returned)

    def send_again(self, ledger_id: int, entries: BitMap) -> None:
        """These are not acknowledged, and nobody holds them."""
        waiting = self.entries.get(ledger_id)
        if waiting is not None:
            waiting |= entries
        elif entries:
            self.entries[ledger_id] = entries.copy()
            if len(self._lowest) > FORMER_LEDGERS_MAX + 2 * len(self.entries):
                self._lowest = sorted(self.entries)  # a heap
            else:
                heappush(self._lowest, ledger_id)

    def _set_aside(self, ledger_id: int, entries: BitMap, count_max: int) -> BitMap:
        """Those that were redelivered more often than `count_max` are dead from now on."""
        dead = self.counts.above(ledger_id, entries, count_max)
        if dead:
            self.dead[ledger_id] = self.dead.get(ledger_id, BitMap()) | dead
        return dead

    def limit_counts(self, count_max: int | None) -> None:
        """The dead-letter policy changed. None: there is none, and what waited to be moved is sent again."""
        self.count_max = count_max
        returned, self.dead = self.dead, {}
        for ledger_id, entries in returned.items():
            self.add(ledger_id, entries)
        if count_max is not None:
            for ledger_id, entries in list(self.entries.items()):
                self.take(ledger_id, self._set_aside(ledger_id, entries, count_max))

    def forget_counts(self) -> None:
        """All consumers left. A dead-letter policy keeps counting over that."""
        if self.count_max is None:
            self.counts.clear()

    def first_dead(self, count: int) -> list[Position]:
        """The lowest entries that are to be moved."""
        positions: list[Position] = []
        for ledger_id in sorted(self.dead):
            positions += [Position(ledger_id, entry) for entry in self.dead[ledger_id][: count - len(positions)]]
            if len(positions) >= count:
                break
        return positions

    def is_dead(self, position: Position) -> bool:
        return position.entry_id in self.dead.get(position.ledger_id, ())

    @property
    def waiting_entries(self) -> int:
        """How many are to be sent again."""
        return sum(map(len, self.entries.values()))

    @property
    def dead_entries(self) -> int:
        return sum(map(len, self.dead.values()))

    @property
    def memory_bytes(self) -> int:
        waiting = sum(bitmap_bytes(entries) for by_ledger in (self.entries, self.dead) for entries in by_ledger.values())
        return waiting + self.counts.memory_bytes

    def count(self, ledger_id: int, entries: BitMap) -> None:
        """The client asked for these again. Without memory for their counts they are sent again all the same, with the counts that
        they have."""
        if self.may_keep(BITMAP_BYTES + COUNTED_ENTRY_BYTES * len(entries)):
            self.counts.raise_by_one(ledger_id, entries)
        else:
            self.uncounted += len(entries)

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges (first, last) to send again within entries `first`..`last`."""
        return list(ranges_of(self.entries[ledger_id] & BitMap(range(first, last + 1))))

    def advance(self, ledger_id: int, first: int, stop: int) -> None:
        """Entries `first` to before `stop` are on their way."""
        waiting = self.entries.get(ledger_id)
        if waiting is not None:
            waiting.remove_range(first, stop)
            if not waiting:
                del self.entries[ledger_id]

    def take(self, ledger_id: int, entries: BitMap) -> None:
        """These are on their way, or need not be sent."""
        waiting = self.entries.get(ledger_id)
        if waiting is not None:
            waiting -= entries
            if not waiting:
                del self.entries[ledger_id]

    def acknowledged(self, ledger_id: int, entries: BitMap) -> None:
        self.take(ledger_id, entries)
        if self.dead:
            self._drop_dead(ledger_id, entries)
        self.counts.forget(ledger_id, entries)

    def acknowledged_range(self, ledger_id: int, first: int, last: int) -> None:
        self.advance(ledger_id, first, last + 1)
        if self.dead:
            self._drop_dead(ledger_id, BitMap(range(first, last + 1)))
        self.counts.forget_range(ledger_id, first, last)

    def acknowledged_up_to(self, mark: Position) -> None:
        for ledger_id in [passed for passed in self.entries if passed <= mark.ledger_id]:
            self.advance(ledger_id, 0, ENTRY_IDS if ledger_id < mark.ledger_id else mark.entry_id + 1)
        for ledger_id in [passed for passed in self.dead if passed <= mark.ledger_id]:
            gone = self.dead[ledger_id] if ledger_id < mark.ledger_id else BitMap(range(mark.entry_id + 1))
            self._drop_dead(ledger_id, gone)
        self.counts.forget_up_to(mark)

    def clear(self) -> None:
        """Everything is sent again. A dead-letter policy keeps counting, which tells what is dead as soon as it comes back."""
        self.entries.clear()
        self._lowest.clear()
        self.dead.clear()
        self.forget_counts()

    def _drop_dead(self, ledger_id: int, entries: BitMap) -> None:
        left = self.dead.get(ledger_id, BitMap()) - entries
        if left:
            self.dead[ledger_id] = left
        else:
            self.dead.pop(ledger_id, None)
