"""One read of a topic's log, for all subscriptions that need it: what it will bring, what it brought, what that takes of memory."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from typing import TYPE_CHECKING

from messaging.broker.core.entries import BLOCK_BYTES, EntryBlock, from_log, whole_bytes
from messaging.storage.ledger_store import Block, Position

if TYPE_CHECKING:
    from messaging.broker.core.subscription import Subscription


class BacklogRead:
    """One read: asked for, under way, or there. `users` need it; without any it is let go."""

    __slots__ = ("_made", "blocks", "entries", "first", "size_bytes", "stop_entry", "task", "there", "to_end", "users")

    def __init__(self, first: Position, size_bytes: int, entries: int, stop_entry: int) -> None:
        self.first = first
        self.size_bytes = size_bytes  # what it counts for: what is expected, then what came
        self.entries = entries  # that it will surely bring: counted by the log, or guessed
        self.stop_entry = stop_entry  # behind its last one; 0 while that is not known
        self.blocks: list[Block] = []
        self._made: EntryBlock | None = None  # of the block that was asked for last
        self.users: dict[Subscription, None] = {}  # in the order in which they came
        self.task: asyncio.Task[list[Block]] | None = None
        self.there = False
        self.to_end = False  # it came to the last confirmed entry

    def covers(self, position: Position) -> bool:
        """Whether `position` is in it; while it is under way, whether it probably will be."""
        if position.ledger_id != self.first.ledger_id:
            return False
        if not self.there:
            return 0 <= position.entry_id - self.first.entry_id < self.entries
        return bool(self.blocks) and self.blocks[0].first_entry <= position.entry_id <= self.blocks[-1].last_entry

    def block_of(self, position: Position) -> EntryBlock:
        """Raises `ValueError` where the log holds there what is no block of ours."""
        made = self._made
        if made is not None and made.first_entry <= position.entry_id <= made.last_entry:
            return made
        index = bisect_right(self.blocks, position.entry_id, key=_first_entry) - 1
        self._made = made = from_log(self.blocks[index])
        return made


def memory_bytes(blocks: list[Block]) -> int:
    """Of the memory that the log read them into, which may be more than they are, and beside it."""
    buffers = {id(data.obj if isinstance(data, memoryview) else data): whole_bytes(data) for data in (one.data for one in blocks)}
    return sum(buffers.values()) + BLOCK_BYTES * len(blocks)


def _first_entry(block: Block) -> int:
    return block.first_entry
