"""Entries of a Key_Shared subscription that wait for their consumer: it could not take them when they were read, or they came back.
They are sent before anything new, in order. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ranges_of
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.redeliveries import Redeliveries
from messaging.storage.ledger_store import Position

EntriesByLedger = dict[int, BitMap]


class WaitingEntries:
    """An `EntrySource`. `redeliveries` has all of them, whomever they are for; what is acknowledged meanwhile is gone from it. So
    an entry waits if it is in there and in the bitmap of its owner. `settle` brings those up to date; `able` are the consumers
    that can be sent something."""

    __slots__ = ("_able", "_by_owner", "_redeliveries", "_settle", "unknown")
    sequential = False

    def __init__(self, redeliveries: Redeliveries, settle: Callable[[], None], able: Callable[[], Iterable[Consumer]]) -> None:
        self._redeliveries = redeliveries
        self._settle = settle
        self._able = able
        self._by_owner: dict[Consumer | None, EntriesByLedger] = {}

        self.unknown: EntriesByLedger = {}  # whose keys are not known: they are read before anything is sent

    def __len__(self) -> int:
        return sum(map(len, self._redeliveries.entries.values()))

    @property
    def set_aside(self) -> int:
        """Entries whose owners are known."""
        waiting = self._redeliveries.entries
        return len(self) - sum(
            len(unknown & waiting[ledger_id]) for ledger_id, unknown in self.unknown.items() if ledger_id in waiting
        )

    def known(self, ledger_id: int) -> BitMap:
        waiting = self._redeliveries.entries.get(ledger_id, BitMap())
        return waiting - self.unknown[ledger_id] if ledger_id in self.unknown else waiting

    def add(self, owner: Consumer | None, ledger_id: int, entries: BitMap) -> None:
        """They are for `owner`; None: a slot that nobody asked for."""
        self.merge(self._by_owner.setdefault(owner, {}), ledger_id, entries)

    def merge(self, into: EntriesByLedger, ledger_id: int, entries: BitMap) -> None:
        """Adds to a bitmap, and takes out of it what is not waiting any more."""
        waiting = self._redeliveries.entries
        for gone in [passed for passed in into if passed not in waiting]:
            del into[gone]
        if ledger_id in waiting:
            into[ledger_id] = (into.get(ledger_id, BitMap()) | entries) & waiting[ledger_id]

    def sent(self, owner: Consumer, ledger_id: int, entries: BitMap) -> None:
        if ledger_id in self._redeliveries.entries:
            self._redeliveries.take(ledger_id, entries)
            of_owner = self._by_owner.get(owner, {})
            if ledger_id in of_owner:
                of_owner[ledger_id] = of_owner[ledger_id] - entries

    def forget_owners(self) -> None:
        self._by_owner.clear()

    def forget_keys(self) -> None:
        self._by_owner.clear()
        self.unknown = {ledger_id: entries.copy() for ledger_id, entries in self._redeliveries.entries.items()}

    def learnt(self, ledger_id: int, first: int, stop: int) -> None:
        """The keys of entries from `first` to before `stop` are known now."""
        if ledger_id in self.unknown:
            self.unknown[ledger_id].remove_range(first, stop)

    def is_unknown(self, ledger_id: int, entry: int) -> bool:
        return entry in self.unknown.get(ledger_id, ())

    def next_position(self) -> Position | None:
        """The lowest whose key is not known, because others of its key must not be sent before it, or else the lowest that can be
        sent now."""
        if not self._redeliveries.entries:
            return None
        self._settle()
        unknown = self._lowest_unknown() if self.unknown else None
        return min(self._lowest(), default=None) if unknown is None else unknown

    def can_send_known(self) -> bool:
        return next(self._lowest(), None) is not None

    def _lowest_unknown(self) -> Position | None:
        waiting = self._redeliveries.entries
        for ledger_id in sorted(self.unknown):
            entries = self.unknown[ledger_id] & waiting.get(ledger_id, BitMap())
            if entries:
                return Position(ledger_id, entries.min())
            del self.unknown[ledger_id]
        return None

    def _lowest(self) -> Iterator[Position]:
        waiting = self._redeliveries.entries
        for consumer in self._able():
            of_consumer = self._by_owner.get(consumer)
            if of_consumer is None:
                continue
            for ledger_id in sorted(of_consumer):
                entries = of_consumer[ledger_id] & waiting[ledger_id] if ledger_id in waiting else None
                if entries:
                    yield Position(ledger_id, entries.min())
                    break
                del of_consumer[ledger_id]
            if not of_consumer:
                del self._by_owner[consumer]

    def unacked_ranges(self, ledger_id: int, first: int, last: int) -> list[tuple[int, int]]:
        """Those that can be sent now."""
        if self.is_unknown(ledger_id, first):
            unacked = self.unknown[ledger_id]
        else:
            unacked = BitMap()
            for consumer in self._able():
                unacked |= self._by_owner.get(consumer, {}).get(ledger_id, BitMap())
        return list(ranges_of(unacked & self._redeliveries.entries.get(ledger_id, BitMap()) & BitMap(range(first, last + 1))))

    def advance(self, ledger_id: int, first: int, stop: int) -> None:
        """Nothing: what was sent is known from `sent`, and what could not be sent stays."""
