"""Looks through the delayed messages of a topic that are not due yet, in the order in which they were stored.

What the index has is read alone. Where it may not know all, after a restart or for want of memory, everything is read, once: the
index knows it from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ranges_of
from messaging.broker.core.delayed.delayed_entries import not_due
from messaging.broker.core.delayed.topic_delays import TopicDelays
from messaging.broker.core.entries import EntryBlock, from_log
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.errors import StorageFailed
from messaging.storage.ledger_store import Block, Corrupt, Position, StoreError

READ_BYTES = 256 << 10
READ_ENTRIES = 2_048


class DelayedScan:
    """`position`: where to go on; None at the end. It ends early when it has looked at `entries_max` or has read `bytes_max`."""

    def __init__(self, topic: PersistentTopic, start: Position, entries_max: int, bytes_max: int) -> None:
        self.position: Position | None = start
        self.looked_at = 0
        self._topic = topic
        self._left_entries = entries_max
        self._left_bytes = bytes_max
        self._blocks: list[EntryBlock] = []
        self._first = start

    @property
    def _delays(self) -> TopicDelays:
        return self._topic.delayed.delays

    async def next_block(self) -> tuple[EntryBlock, BitMap] | None:
        """A block and the entries of it to look at; None: it ends here. Raises `StorageFailed`."""
        while True:
            if not self._blocks:
                self.position = self._following()
                if self.position is None or self._left_entries <= 0 or self._left_bytes <= 0:
                    return None
                await self._read(self.position)
                continue
            block = self._blocks.pop(0)
            entries = self._entries(block)
            if entries:
                self.looked_at += len(entries)
                self._left_entries -= len(entries)
                return block, entries

    async def look_through(self) -> None:
        """So that the index learns of what it has not. Raises `StorageFailed`."""
        while await self.next_block() is not None:
            continue

    def _following(self) -> Position | None:
        """The first position from here on that is to be read."""
        position, ledger_list = self.position, self._topic.ledger_list
        if position is None:
            return None
        positions = [self._next_pending(position)]
        unindexed = self._delays.unindexed
        if unindexed is not None and position <= unindexed[1]:
            positions.append(ledger_list.resolve(max(position, unindexed[0])))
        first = min((candidate for candidate in positions if candidate is not None), default=None)
        return first if first is not None and ledger_list.holds(first) else None

    def _next_pending(self, position: Position) -> Position | None:
        pending = self._delays.index.pending
        here, first = pending.get(position.ledger_id), max(0, position.entry_id)
        if here and here.max() >= first:
            return Position(position.ledger_id, here.next_set_bit(first))
        ledger_list = self._topic.ledger_list
        later = min(
            (ledger_id for ledger_id in pending if ledger_id > position.ledger_id and ledger_list.last_of(ledger_id) >= 0),
            default=None,
        )
        return None if later is None else Position(later, pending[later].min())

    async def _read(self, position: Position) -> None:
        """Reads on from `position`: as far as the next entries lie together."""
        topic = self._topic
        try:
            read = await topic.ledger.read(position, entries_max=READ_ENTRIES, bytes_max=self._bytes_at(position))
            self._blocks = list(_undamaged(read))
        except Corrupt as error:
            self.position = topic.ledger_list.resolve(Position(position.ledger_id, error.resume_entry))
            return
        except StoreError as error:
            raise StorageFailed(f"delayed messages of {topic.text} cannot be read: {error}") from error
        self._left_bytes -= sum(len(block.data) for block in read)
        last = read[-1].last_entry if read else position.entry_id
        self._first, self.position = position, topic.ledger_list.next_after(Position(position.ledger_id, last))

    def _bytes_at(self, position: Position) -> int:
        """One block alone where nothing else near it is to be read."""
        unindexed = self._delays.unindexed
        if unindexed is not None and unindexed[0] <= position <= unindexed[1]:
            return READ_BYTES
        entries = self._delays.index.pending.get(position.ledger_id, BitMap())
        near = entries.range_cardinality(position.entry_id, position.entry_id + READ_ENTRIES)
        return READ_BYTES if near > 1 else 1

    def _entries(self, block: EntryBlock) -> BitMap:
        """Those that are pending. What is due later and was not in the index is so from now on, if there is room."""
        delays, unindexed = self._delays, self._delays.unindexed
        last = Position(block.ledger_id, block.last_entry)
        if unindexed is not None and last >= unindexed[0] and block.first <= unindexed[1]:
            known = delays.look_at(block.ledger_id, self._unknown(block))
            if known and block.first <= unindexed[0]:
                delays.looked_up_to(self._topic.ledger_list.next_after(last))
        first = self._first.entry_id if block.ledger_id == self._first.ledger_id else 0
        asked = BitMap(range(max(first, block.first_entry), block.last_entry + 1))
        return asked & delays.index.pending.get(block.ledger_id, BitMap())

    def _unknown(self, block: EntryBlock) -> list[tuple[int, int]]:
        """Entries that are due later and are not in the index, with their times."""
        delays, overrides = self._delays, self._topic.overrides
        left = BitMap(range(block.first_entry, block.last_entry + 1)) - delays.index.pending.get(block.ledger_id, BitMap())
        for known in () if overrides is None else (overrides.cancelled, overrides.rescheduled):
            left -= known.get(block.ledger_id, BitMap())
        return not_due(block, list(ranges_of(left)), delays.cutoff_ms)


def _undamaged(blocks: Iterable[Block]) -> Iterator[EntryBlock]:
    """Without those that are none of ours: nobody is sent them either."""
    for block in blocks:
        with suppress(ValueError):
            yield from_log(block)
