"""Entries by the time at which they are due, in memory. Pure.

Far times are kept as numbers in slots of four seconds; when a slot comes near, its entries are sorted into groups that are due
together, once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from pyroaring import BitMap

NEVER_MS = 2**63 - 1
SLOT_BITS = 12  # a slot of times is about four seconds
ENTRY_BITS = 32
ENTRY_MASK = (1 << ENTRY_BITS) - 1
SLOT_BYTES = 600  # memory of a slot in addition to its entries
ENTRY_BYTES = 11  # of an entry in a slot, and in the set of all
GROUP_BYTES = 500  # of a group of entries that are due at the same time, in addition to them
GROUPED_ENTRY_BYTES = 4
MOVED_MAX = 8_000  # entries of slots sorted into groups at a time: a few milliseconds


class Slot(NamedTuple):
    """Entries of one ledger: ``entries[i] >> ENTRY_BITS`` is the time in milliseconds after `start_ms`, the rest the entry id."""

    start_ms: int
    ledger_id: int
    entries: array[int]  # typecode "Q"


class Due(NamedTuple):
    """All entries due up to `until_ms`."""

    entries: dict[int, BitMap]
    until_ms: int


class TimeSlots:
    """`resolution_ms`: times are rounded up to a multiple of it, so that entries due at about the same time share a group. `count`:
    of entries in slots."""

    __slots__ = ("_group_order", "_groups", "_near_slot", "_slot_order", "_slots", "count", "memory_bytes", "resolution_ms")

    def __init__(self, resolution_ms: int = 1) -> None:
        self.resolution_ms = resolution_ms
        self.memory_bytes = 0
        self.count = 0
        self._slots: dict[int, dict[int, array[int]]] = {}
        self._slot_order: list[int] = []  # a heap
        self._groups: dict[int, dict[int, BitMap]] = {}  # time -> ledger -> entries
        self._group_order: list[int] = []  # a heap
        self._near_slot = 0  # entries of earlier slots go to groups at once

    def add(self, ledger_id: int, entry_id: int, at_ms: int) -> None:
        slot = at_ms >> SLOT_BITS
        if slot < self._near_slot:
            self._add_to_group(ledger_id, entry_id, at_ms)
            return
        numbers = self._numbers(slot, ledger_id)
        numbers.append((at_ms & ((1 << SLOT_BITS) - 1)) << ENTRY_BITS | entry_id)
        self.memory_bytes += ENTRY_BYTES
        self.count += 1

    def next_ms(self) -> int | None:
        """Nothing is due before; None if there is nothing."""
        group = self._group_order[0] if self._group_order else None
        slot = self._slot_order[0] << SLOT_BITS if self._slot_order else None
        return min(group, slot) if group is not None and slot is not None else group if slot is None else slot

    def take_due(self, until_ms: int) -> Due:
        """Removes what is due up to `until_ms`, or less: see `Due.until_ms`."""
        left = MOVED_MAX
        while self._slot_order and self._slot_order[0] << SLOT_BITS <= until_ms:
            left = self._move_slot(left)
            if left <= 0:
                until_ms = min(until_ms, (self._slot_order[0] << SLOT_BITS) - 1) if self._slot_order else until_ms
                break
        due: dict[int, BitMap] = {}
        while self._group_order and self._group_order[0] <= until_ms:
            for ledger_id, entries in self._groups.pop(heappop(self._group_order)).items():
                self.memory_bytes -= GROUP_BYTES + GROUPED_ENTRY_BYTES * len(entries)
                if ledger_id in due:
                    due[ledger_id] |= entries
                else:
                    due[ledger_id] = entries
        if not self._slots and not self._groups:
            self._near_slot = 0
        return Due(due, until_ms)

    def slots_within(self, from_ms: int, until_ms: int) -> list[Slot]:
        """Copies of the slots of which something may be due from `from_ms` to before `until_ms`."""
        return [
            Slot(slot << SLOT_BITS, ledger_id, numbers[:])
            for slot, ledgers in self._slots.items()
            if slot << SLOT_BITS < until_ms and (slot + 1) << SLOT_BITS > from_ms
            for ledger_id, numbers in ledgers.items()
        ]

    def groups_within(self, from_ms: int, until_ms: int) -> list[tuple[int, int, BitMap]]:
        """The groups that are due then: (time, ledger, entries)."""
        return [
            (at_ms, ledger_id, entries.copy())
            for at_ms, ledgers in self._groups.items()
            if from_ms <= at_ms < until_ms
            for ledger_id, entries in ledgers.items()
        ]

    def count_from(self, after_ms: int) -> int:
        """Of the entries that `take_far` would remove."""
        far = (ledgers for slot, ledgers in self._slots.items() if slot << SLOT_BITS >= after_ms)
        return sum(len(numbers) for ledgers in far for numbers in ledgers.values())

    def take_far(self, after_ms: int) -> list[Slot]:
        """Removes the slots that begin at `after_ms` or later."""
        far = [slot for slot in self._slots if slot << SLOT_BITS >= after_ms]
        slots = [Slot(slot << SLOT_BITS, *of_ledger) for slot in far for of_ledger in self._slots.pop(slot).items()]
        if far:
            self._slot_order = list(self._slots)
            heapify(self._slot_order)
        for taken in slots:
            self._counted(-len(taken.entries), -1)
        return slots

    def put_back(self, slots: Iterable[Slot]) -> None:
        for start_ms, ledger_id, entries in slots:
            self._numbers(start_ms >> SLOT_BITS, ledger_id).extend(entries)
            self._counted(len(entries), 0)

    def _counted(self, entries: int, slots: int) -> None:
        self.count += entries
        self.memory_bytes += ENTRY_BYTES * entries + SLOT_BYTES * slots

    def _numbers(self, slot: int, ledger_id: int) -> array[int]:
        ledgers = self._slots.get(slot)
        if ledgers is None:
            ledgers = self._slots[slot] = {}
            heappush(self._slot_order, slot)
        numbers = ledgers.get(ledger_id)
        if numbers is None:
            numbers = ledgers[ledger_id] = array("Q")
            self.memory_bytes += SLOT_BYTES
        return numbers

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
            self._counted(-len(moved), 0)
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
