"""When each delayed entry of a topic is due. One index serves all subscriptions of the topic. Pure.

`DelayedIndex` is the interface; `MemoryIndex` keeps everything in memory. An entry may be added again, because each subscription
that passes over it does so, and because a topic that is loaded again finds its delayed entries by reading them again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from pyroaring import BitMap

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets

NEVER_MS = 2**63 - 1
SLOT_BITS = 12  # a slot of times is about four seconds
ENTRY_BITS = 32
ENTRY_MASK = (1 << ENTRY_BITS) - 1
SLOT_BYTES = 600  # memory of a slot in addition to its entries
ENTRY_BYTES = 11  # of an entry in a slot, and in the set of all
GROUP_BYTES = 500  # of a group of entries that are due at the same time, in addition to them
GROUPED_ENTRY_BYTES = 4
MOVED_MAX = 20_000  # entries of slots sorted into groups at a time: a few milliseconds


class Due(NamedTuple):
    """What an index released: all entries due up to `until_ms` that were in it."""

    entries: dict[int, BitMap]
    until_ms: int


class DelayedIndex(Protocol):
    @property
    def memory_bytes(self) -> int: ...

    def add(self, ledger_id: int, times: Iterable[tuple[int, int]]) -> None:
        """`times`: entry ids with their delivery times, milliseconds since 1970. Adding one again changes nothing."""

    def next_ms(self) -> int | None:
        """When to call `take_due` next: nothing is due before; None if there is nothing."""

    def take_due(self, until_ms: int) -> Due:
        """Removes what is due up to `until_ms`. What is too much for one turn comes with the next call: `Due.until_ms` is less
        then."""

    def clear(self) -> None: ...


class MemoryIndex:
    """Far times are kept as numbers in slots of four seconds; when a slot comes near, its entries are sorted into groups that are
    due together, once. `resolution_ms`: times are rounded up to a multiple of it, so that entries due at about the same time share
    a group."""

    def __init__(self, resolution_ms: int = 1) -> None:
        self.resolution_ms = resolution_ms
        self.memory_bytes = 0
        self._slots: dict[int, dict[int, array[int]]] = {}  # slot -> ledger -> (time within the slot, entry) in one number each
        self._slot_order: list[int] = []  # a heap
        self._groups: dict[int, dict[int, BitMap]] = {}  # time -> ledger -> entries
        self._group_order: list[int] = []  # a heap
        self._near_slot = 0  # entries of earlier slots go to groups at once
        self._known: EntrySets = {}  # everything in it: each entry once

    def add(self, ledger_id: int, times: Iterable[tuple[int, int]]) -> None:
        known = self._known.setdefault(ledger_id, BitMap())
        for entry_id, at_ms in times:
            if entry_id in known:
                continue
            known.add(entry_id)
            slot = at_ms >> SLOT_BITS
            if slot < self._near_slot:
                self._add_to_group(ledger_id, entry_id, at_ms)
            else:
                self._add_to_slot(slot, ledger_id, entry_id, at_ms)

    def next_ms(self) -> int | None:
        group = self._group_order[0] if self._group_order else None
        slot = self._slot_order[0] << SLOT_BITS if self._slot_order else None
        return min(group, slot) if group is not None and slot is not None else group if slot is None else slot

    def take_due(self, until_ms: int) -> Due:
        left = MOVED_MAX
        while self._slot_order and self._slot_order[0] << SLOT_BITS <= until_ms:
            left = self._move_slot(left)
            if left <= 0:
                until_ms = min(until_ms, (self._slot_order[0] << SLOT_BITS) - 1) if self._slot_order else until_ms
                break
        found: dict[int, BitMap] = {}
        while self._group_order and self._group_order[0] <= until_ms:
            for ledger_id, entries in self._groups.pop(heappop(self._group_order)).items():
                self.memory_bytes -= GROUP_BYTES + GROUPED_ENTRY_BYTES * len(entries)
                if ledger_id in found:
                    found[ledger_id] |= entries
                else:
                    found[ledger_id] = entries
        entry_sets.take(self._known, found)
        if not self._known:
            self._near_slot = 0
        return Due(found, until_ms)

    def clear(self) -> None:
        self._slots.clear()
        self._slot_order.clear()
        self._groups.clear()
        self._group_order.clear()
        self._known.clear()
        self._near_slot = 0
        self.memory_bytes = 0

    def _add_to_slot(self, slot: int, ledger_id: int, entry_id: int, at_ms: int) -> None:
        ledgers = self._slots.get(slot)
        if ledgers is None:
            ledgers = self._slots[slot] = {}
            heappush(self._slot_order, slot)
        numbers = ledgers.get(ledger_id)
        if numbers is None:
            numbers = ledgers[ledger_id] = array("Q")
            self.memory_bytes += SLOT_BYTES
        numbers.append((at_ms & ((1 << SLOT_BITS) - 1)) << ENTRY_BITS | entry_id)
        self.memory_bytes += ENTRY_BYTES

    def _add_to_group(self, ledger_id: int, entry_id: int, at_ms: int) -> None:
        at_ms = min(-(-at_ms // self.resolution_ms) * self.resolution_ms, NEVER_MS)
        ledgers = self._groups.get(at_ms)
        if ledgers is None:
            ledgers = self._groups[at_ms] = {}
            heappush(self._group_order, at_ms)
        entries = ledgers.get(ledger_id)
        if entries is None:
            entries = ledgers[ledger_id] = BitMap()
            self.memory_bytes += GROUP_BYTES
        before = len(entries)
        entries.add(entry_id)
        self.memory_bytes += GROUPED_ENTRY_BYTES * (len(entries) - before)

    def _move_slot(self, entries_max: int) -> int:
        """Sorts the first slot into groups, `entries_max` of its entries at most. Returns how many more may follow."""
        slot = self._slot_order[0]
        ledgers, start = self._slots[slot], slot << SLOT_BITS
        while ledgers and entries_max > 0:
            ledger_id, numbers = next(iter(ledgers.items()))
            moved = numbers[-entries_max:]
            del numbers[-entries_max:]
            self.memory_bytes -= ENTRY_BYTES * len(moved)
            entries_max -= len(moved)
            for number in moved:
                self._add_to_group(ledger_id, number & ENTRY_MASK, start + (number >> ENTRY_BITS))
            if not numbers:
                del ledgers[ledger_id]
                self.memory_bytes -= SLOT_BYTES
        if not ledgers:
            del self._slots[slot]
            heappop(self._slot_order)
            self._near_slot = max(self._near_slot, slot + 1)
        return entries_max
