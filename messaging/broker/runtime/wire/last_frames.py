"""The MESSAGE frames that were made last: subscriptions of one topic that keep up are sent the same entries one after another, and
where their consumers have the same number on their connections, the same bytes."""

from __future__ import annotations

from messaging.broker.core.entries import EntryBlock
from messaging.protocol import hot

KEPT_BYTES_MAX = 256 << 10  # of the block, and about as much of its frames: one of each for the whole broker


class LastFrames:
    __slots__ = ("_block", "_consumer_id", "_first", "_frames", "_last")

    def __init__(self) -> None:
        self._block: EntryBlock | None = None
        self._first = self._last = self._consumer_id = 0
        self._frames: bytes | memoryview = b""

    def messages(self, block: EntryBlock, first: int, last: int, consumer_id: int, tail: bytes) -> bytes | memoryview:
        """As `plain_messages`."""
        if block is self._block and first == self._first and last == self._last and consumer_id == self._consumer_id:
            return self._frames
        frames = plain_messages(block, first, last, consumer_id, tail)
        if block.memory_bytes <= KEPT_BYTES_MAX:
            self._block, self._first, self._last, self._consumer_id, self._frames = block, first, last, consumer_id, frames
        return frames


def plain_messages(block: EntryBlock, first: int, last: int, consumer_id: int, tail: bytes) -> bytes | memoryview:
    """The frames that bring the entries with index `first` to ``last - 1`` to a consumer. `tail`: see `hot.messages`."""
    return hot.messages(block.data, block.end_offsets, first, last, block.ledger_id, block.first_entry + first, consumer_id, tail)
