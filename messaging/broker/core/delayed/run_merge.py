"""Merging runs into one, block by block. Pure; slow enough for a thread. Imported only where runs are merged (it loads numpy)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from messaging.broker.core.delayed.run_format import (
    Entries,
    bitmaps_of,
    decode_block,
    encode_block,
    joined,
)
from messaging.broker.core.delayed.run_jobs import BLOCK_ENTRIES, Directory
from messaging.broker.core.delayed.time_slots import ENTRY_BITS


class RunMerge:
    """Feed each source, from its first block on, whenever it is `hungry`; `take` what is ready in between. Entries due up to
    `after_ms`, and those of ledgers before `first_ledger_id`, are left out."""

    def __init__(self, sources: int, after_ms: int, first_ledger_id: int) -> None:
        self._after_ms = after_ms
        self._lowest = np.uint64(max(0, first_ledger_id) << ENTRY_BITS)
        self._held = [joined([]) for _ in range(sources)]
        self._ended = [False] * sources
        self._ready: list[Entries] = []
        self._ready_count = 0
        self._starts = array("q")
        self._bitmaps: dict[int, BitMap] = {}
        self._entries = 0

    @property
    def hungry(self) -> list[int]:
        """Sources of which nothing is held."""
        return [index for index, rest in enumerate(self._held) if not len(rest.times) and not self._ended[index]]

    def feed(self, source: int, blocks: Sequence[bytes | memoryview]) -> None:
        """The next blocks of a source. Raises `ValueError`."""
        entries = joined([decode_block(block) for block in blocks])
        kept = (entries.times > self._after_ms) & (entries.positions >= self._lowest)
        self._held[source] = joined([self._held[source], Entries(entries.times[kept], entries.positions[kept])])

    def end_of(self, source: int) -> None:
        """It has no more blocks."""
        self._ended[source] = True

    def take(self) -> list[bytes]:
        """Whole blocks of the new run."""
        if not self.hungry:
            open_ones = [rest.times[-1] for rest, ended in zip(self._held, self._ended, strict=True) if not ended]
            limit = min(open_ones) if open_ones else None
            parts = []
            for index, rest in enumerate(self._held):
                stop = len(rest.times) if limit is None else int(np.searchsorted(rest.times, limit, "right"))
                parts.append(rest.part(0, stop))
                self._held[index] = rest.part(stop, len(rest.times))
            merged = joined(parts).sorted()
            self._ready.append(merged)
            self._ready_count += len(merged.times)
        return self._encode(self._ready_count - self._ready_count % BLOCK_ENTRIES)

    def end(self) -> tuple[list[bytes], Directory]:
        """The last blocks, once every source has ended and `take` was called, and the directory."""
        return self._encode(self._ready_count), Directory(self._entries, self._starts, self._bitmaps)

    def _encode(self, count: int) -> list[bytes]:
        if not count:
            return []
        ready = joined(self._ready)
        done, left = ready.part(0, count), ready.part(count, len(ready.times))
        self._ready, self._ready_count = [left], len(left.times)
        for ledger_id, entries in bitmaps_of(done.positions).items():
            bitmap = self._bitmaps.get(ledger_id)
            if bitmap is None:
                self._bitmaps[ledger_id] = entries
            else:
                bitmap |= entries
        blocks = []
        for first in range(0, count, BLOCK_ENTRIES):
            part = done.part(first, first + BLOCK_ENTRIES)
            self._starts.append(int(part.times[0]))
            blocks.append(encode_block(part))
        self._entries += count
        return blocks
