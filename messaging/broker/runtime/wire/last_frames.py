"""The MESSAGE frames that were made last: subscriptions of one topic that keep up are sent the same entries one after another, and
where their consumers have the same number on their connections, the same bytes."""

from __future__ import annotations

from messaging.broker.core.entries import EntryBlock

KEPT_BYTES_MAX = 256 << 10  # of the block, and about as much of its frames: one of each for the whole broker


class LastFrames:
    __slots__ = ("_block", "_consumer_id", "_first", "_frames", "_last")

    def __init__(self) -> None:
        self._block: EntryBlock | None = None
        self._first = self._last = self._consumer_id = 0
        self._frames: bytes | memoryview = b""

    def find(self, block: EntryBlock, first: int, last: int, consumer_id: int) -> bytes | memoryview | None:
        """The frames that bring the entries with index `first` to ``last - 1`` to a consumer, if they are those made last."""
        if block is self._block and first == self._first and last == self._last and consumer_id == self._consumer_id:
            return self._frames
        return None

    def keep(self, block: EntryBlock, first: int, last: int, consumer_id: int, frames: bytes | memoryview) -> None:
        """They were made just now."""
        if block.memory_bytes <= KEPT_BYTES_MAX:
            self._block, self._first, self._last, self._consumer_id, self._frames = block, first, last, consumer_id, frames
