"""One read of a topic's log, shared by all who need it: its expected range, its blocks, and its memory. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from enum import Enum, auto

from messaging.broker.core.entries import BLOCK_BYTES, EntryBlock, from_log, whole_bytes
from messaging.broker.core.subscription import Subscription
from messaging.storage.ledger_store import Block, Position


class ReadState(Enum):
    WAITING = auto()  # for its turn, and for memory
    UNDER_WAY = auto()
    DONE = auto()


class BacklogRead:
    """`users` need it; without any it is cancelled."""

    __slots__ = (
        "_entries_of",
        "_made",
        "_made_index",
        "blocks",
        "entries",
        "first",
        "size_bytes",
        "state",
        "stop_entry",
        "to_end",
        "users",
    )

    def __init__(
        self, first: Position, size_bytes: int, entries: int, entries_of: Callable[[Block], EntryBlock] = from_log
    ) -> None:
        self._entries_of = entries_of  # what a block of the log holds
        self.first = first
        self.size_bytes = size_bytes  # what it counts for: what is expected, then what came
        self.entries = entries  # that it will probably bring
        self.stop_entry = 0  # after its last entry; 0 while that is not known
        self.blocks: list[Block] = []
        self._made: EntryBlock | None = None  # of the block that was asked for last
        self._made_index = -1
        self.users: dict[Subscription, None] = {}  # in the order in which they came
        self.state = ReadState.WAITING
        self.to_end = False  # it came to the last confirmed entry

    def forecast(self, entries: int) -> None:
        """The log can tell that it will bring just so many."""
        self.entries = entries
        self.stop_entry = self.first.entry_id + entries

    @property
    def done(self) -> bool:
        return self.state is ReadState.DONE

    def covers(self, position: Position) -> bool:
        """Whether `position` is in it; before it is done, whether it probably will be."""
        if position.ledger_id != self.first.ledger_id:
            return False
        if not self.done:
            return 0 <= position.entry_id - self.first.entry_id < self.entries
        blocks = self.blocks  # of a sparse ledger, the first may begin behind what was asked for
        return bool(blocks) and min(self.first.entry_id, blocks[0].first_entry) <= position.entry_id <= blocks[-1].last_entry

    def is_near(self, position: Position) -> bool:
        """Whether `position` is behind what it brought, no further than that is long."""
        if position.ledger_id != self.first.ledger_id or not self.done or not self.stop_entry:
            return False
        return 0 <= position.entry_id - self.stop_entry <= self.stop_entry - self.first.entry_id

    def block_of(self, position: Position) -> EntryBlock:
        """The block that holds `position`; in a sparse ledger, the first that ends behind it. Raises `ValueError` where the log
        holds there what is no block of ours."""
        index = bisect_left(self.blocks, position.entry_id, key=_last_entry)
        if self._made is None or self._made_index != index:
            self._made_index, self._made = index, self._entries_of(self.blocks[index])
        return self._made


def memory_bytes(blocks: list[Block]) -> int:
    """Of the memory that the log read them into, which may be more than they are, and beside it."""
    buffers = {
        id(data.obj if isinstance(data, memoryview) else data): whole_bytes(data) for data in (block.data for block in blocks)
    }
    return sum(buffers.values()) + BLOCK_BYTES * len(blocks)


def _last_entry(block: Block) -> int:
    return block.last_entry
