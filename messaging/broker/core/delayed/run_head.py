"""The decoded block of a run from which entries are released. Pure. Imported where runs are read only, because it loads numpy."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from messaging.broker.core.delayed.run_format import Entries, bitmaps_of, decode_block, joined
from messaging.broker.core.delayed.run_jobs import Head


class RunHead:
    __slots__ = ("_entries", "_next")

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._next = 0

    @classmethod
    def of_block(cls, data: bytes | memoryview) -> RunHead:
        """Raises `ValueError`."""
        return cls(decode_block(data))

    @property
    def left(self) -> int:
        return len(self._entries.times) - self._next

    def next_ms(self) -> int:
        """Of the next entry, of which there is one."""
        return int(self._entries.times[self._next])

    @property
    def last_ms(self) -> int:
        return int(self._entries.times[-1])

    def extend(self, other: Head) -> None:
        """`other` is what follows."""
        assert isinstance(other, RunHead)
        self._entries = joined([self._entries.part(self._next, len(self._entries.times)), other._entries])
        self._next = 0

    def between(self, after_ms: int, until_ms: int) -> dict[int, BitMap]:
        """The entries that are due after `after_ms` and up to `until_ms`."""
        first, stop = np.searchsorted(self._entries.times, (after_ms, until_ms), "right")
        return bitmaps_of(self._entries.positions[max(self._next, int(first)) : int(stop)])

    def take(self, until_ms: int, entries_max: int) -> dict[int, BitMap]:
        stop = int(np.searchsorted(self._entries.times, until_ms, "right"))
        first, self._next = self._next, max(self._next, min(stop, self._next + entries_max))
        return bitmaps_of(self._entries.positions[first : self._next])
