"""The newest entries of every topic, kept in memory under one budget, so that consumers that keep up never touch the disk.

One FIFO over all topics: whoever's block is oldest goes first, whatever the topic. What is kept are the read buffers themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from messaging.broker.core.entries import EntryBlock
from messaging.storage.seam import Position


class Tail:
    """The cached blocks of one topic, oldest first, without a gap up to the last confirmed entry (or empty)."""

    __slots__ = ("_blocks", "_cache", "_gone")

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._blocks: list[EntryBlock] = []
        self._gone = 0  # blocks at the front of the list that were evicted

    def add(self, block: EntryBlock) -> None:
        self._blocks.append(block)
        self._cache.added(self, block.cached_bytes)

    def find(self, position: Position) -> EntryBlock | None:
        """The block that holds `position`, if it is still here."""
        blocks = self._blocks
        if len(blocks) == self._gone:
            return None
        block = blocks[-1]
        if block.first > position:
            index = bisect_right(blocks, position, lo=self._gone, key=_first) - 1
            if index < self._gone:
                return None
            block = blocks[index]
        if block.ledger_id == position.ledger_id and block.first_entry <= position.entry_id <= block.last_entry:
            return block
        return None

    def evict_oldest(self) -> int:
        """Returns the bytes given back; 0 if nothing was here."""
        blocks = self._blocks
        if self._gone == len(blocks):
            return 0
        size = blocks[self._gone].cached_bytes
        blocks[self._gone] = blocks[-1]  # lets go of the block; the slot is cut off below
        self._gone += 1
        if self._gone == len(blocks):
            blocks.clear()
            self._gone = 0
        elif self._gone > 64 and self._gone * 2 > len(blocks):
            del blocks[: self._gone]
            self._gone = 0
        return size

    def clear(self) -> None:
        while self._gone < len(self._blocks):
            self._cache.used_bytes -= self.evict_oldest()


def _first(block: EntryBlock) -> Position:
    return block.first


class TailCache:
    """The budget. `used_bytes` counts what all tails keep; it passes `limit_bytes` by at most one block."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._order: deque[Tail] = deque()

    def added(self, tail: Tail, size: int) -> None:
        self._order.append(tail)
        self.used_bytes += size
        while self.used_bytes > self.limit_bytes and self._order:
            self.used_bytes -= self._order.popleft().evict_oldest()
