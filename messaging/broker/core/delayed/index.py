"""When each delayed entry of a topic is due. One index serves all subscriptions of the topic. Pure.

`DelayedIndex` is the interface; `MemoryIndex` keeps everything in memory, `RunIndex` (`run_index.py`) most of it in storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from pyroaring import BitMap

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.time_slots import MOVED_MAX, NEVER_MS, Due, TimeSlots

__all__ = ["MOVED_MAX", "NEVER_MS", "DelayedIndex", "Due", "MemoryIndex"]


class DelayedIndex(Protocol):
    resolution_ms: int  # times may be rounded up to a multiple of it

    @property
    def pending(self) -> EntrySets:
        """The entries that are in it. Whoever asks changes nothing."""

    @property
    def memory_bytes(self) -> int: ...

    @property
    def full(self) -> bool:
        """Whether it cannot take more now, however much memory there is."""

    def add_block(self, ledger_id: int, first_entry: int, times: Sequence[int]) -> None:
        """Consecutive entries that were never added, each with a delivery time."""

    def add(self, ledger_id: int, times: Iterable[tuple[int, int]]) -> None:
        """`times`: entry ids with their delivery times, milliseconds since 1970. Adding one again changes nothing."""

    def next_ms(self) -> int | None:
        """When to call `take_due` next: nothing is due before; None if there is nothing."""

    def take_due(self, until_ms: int) -> Due:
        """Removes what is due up to `until_ms`. What is too much for one turn comes with the next call: `Due.until_ms` is less
        then."""

    def forget_ledgers_before(self, ledger_id: int) -> None:
        """They are deleted."""


class MemoryIndex:
    """Everything in memory."""

    full = False

    def __init__(self, resolution_ms: int = 1) -> None:
        self._slots = TimeSlots(resolution_ms)
        self.pending: EntrySets = {}

    @property
    def resolution_ms(self) -> int:
        return self._slots.resolution_ms

    @resolution_ms.setter
    def resolution_ms(self, value: int) -> None:
        self._slots.resolution_ms = value

    @property
    def memory_bytes(self) -> int:
        return self._slots.memory_bytes

    def add_block(self, ledger_id: int, first_entry: int, times: Sequence[int]) -> None:
        self.add(ledger_id, enumerate(times, first_entry))

    def add(self, ledger_id: int, times: Iterable[tuple[int, int]]) -> None:
        known = self.pending.setdefault(ledger_id, BitMap())
        for entry_id, at_ms in times:
            if entry_id not in known:
                known.add(entry_id)
                self._slots.add(ledger_id, entry_id, at_ms)
        if not known:
            del self.pending[ledger_id]

    def next_ms(self) -> int | None:
        return self._slots.next_ms()

    def take_due(self, until_ms: int) -> Due:
        due = self._slots.take_due(until_ms)
        return Due(entry_sets.take(self.pending, due.entries), due.until_ms)

    def forget_ledgers_before(self, ledger_id: int) -> None:
        for gone in [earlier for earlier in self.pending if earlier < ledger_id]:
            del self.pending[gone]
