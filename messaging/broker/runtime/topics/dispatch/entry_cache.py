"""The newest entries of every topic, kept in memory under one budget, so that consumers that keep up never wait for the disk.

One FIFO over all topics: the oldest block is evicted first, whatever its topic. A block is cached as it was appended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.storage.ledger_store import Position

STALE_MAX = 1_000  # places of blocks that are gone, among at least as many others


class EntryCache:
    """The cached blocks of one topic, oldest first, without a gap up to the last confirmed entry (or empty).

    Most topics are idle: an empty cache takes two words and no list."""

    __slots__ = ("_blocks", "_gone")

    def __init__(self) -> None:
        self._blocks: list[EntryBlock] | tuple[EntryBlock, ...] = ()  # allocated while the cache is not empty
        self._gone = 0  # evicted blocks at the front of the list

    def add(self, block: EntryBlock, cache: EntryCaches) -> None:
        if isinstance(self._blocks, list):
            self._blocks.append(block)
        else:
            self._blocks = [block]
        cache.added(self, block.memory_bytes)

    def find(self, position: Position) -> EntryBlock | None:
        """The block that holds `position`, or None if it was evicted."""
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

    @property
    def first(self) -> Position | None:
        """From here on everything is cached; None: it is empty."""
        return self._blocks[self._gone].first if self._blocks else None

    def evict_oldest(self) -> int:
        """Returns the number of bytes freed; 0 if the cache was empty."""
        blocks = self._blocks
        if not isinstance(blocks, list):
            return 0
        size = blocks[self._gone].memory_bytes
        blocks[self._gone] = blocks[-1]  # frees the block; the empty slot is removed below
        self._gone += 1
        if self._gone == len(blocks):
            self._blocks = ()
            self._gone = 0
        elif self._gone > 64 and self._gone * 2 > len(blocks):
            del blocks[: self._gone]
            self._gone = 0
        return size


def _first(block: EntryBlock) -> Position:
    return block.first


class EntryCaches:
    """The caches of all topics, under one memory limiter. When memory is needed elsewhere, the oldest block of all topics is
    evicted first.
    """

    def __init__(self, memory_limiter: MemoryLimiter) -> None:
        self._account = memory_limiter.tail
        self._order: deque[EntryCache] = deque()
        self._stale = 0  # places in the order whose block went with its topic
        memory_limiter.caches.append(self._shrink)

    @property
    def places(self) -> int:
        """How long the order is."""
        return len(self._order)

    def added(self, cache: EntryCache, size: int) -> None:
        account = self._account
        self._order.append(cache)
        account.take("", size)
        if account.used_bytes > account.limit_bytes:
            self._shrink(account.used_bytes - account.limit_bytes)

    def clear(self, cache: EntryCache) -> None:
        """Of a topic that is closed: nothing is added to it any more."""
        while size := cache.evict_oldest():
            self._account.give("", size)
            self._stale += 1
        if self._stale > STALE_MAX and self._stale * 2 > len(self._order):
            self._order = deque(cached for cached in self._order if cached.first is not None)
            self._stale = 0

    def _shrink(self, size: int) -> None:
        while size > 0 and self._order:
            given = self._order.popleft().evict_oldest()
            if given:
                self._account.give("", given)
                size -= given
            else:
                self._stale -= 1
