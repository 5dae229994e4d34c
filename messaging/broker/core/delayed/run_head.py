"""The decoded block of a run from which entries are released. Pure. Imported where runs are read only, because it loads numpy."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from messaging.broker.core.delayed.run_format import Entries, bitmaps_of, decode_block


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

    def take(self, until_ms: int, entries_max: int) -> dict[int, BitMap]:
        stop = int(np.searchsorted(self._entries.times, until_ms, "right"))
        first, self._next = self._next, max(self._next, min(stop, self._next + entries_max))
        return bitmaps_of(self._entries.positions[first : self._next])
