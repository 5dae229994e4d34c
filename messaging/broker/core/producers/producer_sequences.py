"""What deduplication knows of one producer name: the highest sequence ids, and where its last entries are. Pure.

All chunks of a message have its sequence id. The message counts as taken or stored with its last chunk; until then a
`ChunkProgress` says how far it came, so that a chunk that is sent again is known. A message that was interrupted continues where it
stopped if its producer sends it again soon. If it begins again later, it is stored anew from its first chunk: consumers that wait
for the rest of an incomplete message give up after a minute.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position

CONTINUED_MS_MAX = 30_000  # after its last chunk an interrupted message continues; clients drop incomplete ones after 60 s
PROGRESS_BYTES = 512  # of two of them
NOWHERE = Position(-1, -1)


class ChunkPart(NamedTuple):
    """What the metadata of a chunk says. `message` is equal for all chunks of one message as it was divided once."""

    chunk_id: int  # from 0
    chunks: int
    message: int


NO_PARTS: Mapping[SendFrame, ChunkPart] = MappingProxyType({})


class ChunkProgress(NamedTuple):
    """An incomplete message."""

    sequence_id: int
    message: int
    next_chunk: int
    at_ms: int  # when its last chunk came


class Highest(NamedTuple):
    """The highest sequence id of all messages that are complete, and the message that is not."""

    sequence_id: int = -1
    progress: ChunkProgress | None = None

    def after(self, frame: SendFrame, part: ChunkPart | None, now_ms: int) -> Highest | None:
        """None if the frame is a duplicate."""
        sequence_id, progress = frame.sequence_id, self.progress
        if sequence_id <= self.sequence_id:
            return None
        if part is not None:
            if (
                progress is not None
                and (progress.sequence_id, progress.message) == (sequence_id, part.message)
                and part.chunk_id < progress.next_chunk
                and (part.chunk_id or now_ms - progress.at_ms <= CONTINUED_MS_MAX)
            ):
                return None
            if part.chunk_id < part.chunks - 1:
                return Highest(self.sequence_id, ChunkProgress(sequence_id, part.message, part.chunk_id + 1, now_ms))
        highest = max(sequence_id, frame.highest_sequence_id)
        return Highest(highest, progress if progress is not None and progress.sequence_id > highest else None)


class ProducerSequences:
    """`taken` counts what was appended, perhaps not durable; `stored` what is durable."""

    __slots__ = ("_entries", "_ids", "_ledgers", "last_used_ms", "stored", "stored_progress", "taken", "taken_progress")

    def __init__(self, highest: int = -1, last_used_ms: int = 0, progress: ChunkProgress | None = None) -> None:
        self.taken = highest
        self.stored = highest
        self.taken_progress = progress
        self.stored_progress = progress
        self.last_used_ms = last_used_ms
        self._ids = array("q")  # sequence ids of the last stored entries, rising
        self._ledgers = array("q")
        self._entries = array("q")

    def take(self, fresh: list[SendFrame], parts: Mapping[SendFrame, ChunkPart], now_ms: int) -> None:
        self.taken, self.taken_progress = _after(Highest(self.taken, self.taken_progress), fresh, parts, now_ms)

    def store(self, sent: Iterable[SendFrame], parts: Mapping[SendFrame, ChunkPart], now_ms: int) -> None:
        self.stored, self.stored_progress = _after(Highest(self.stored, self.stored_progress), sent, parts, now_ms)

    def restart(self) -> None:
        """Nothing is on its way: all that was taken is stored."""
        self.taken, self.taken_progress = self.stored, self.stored_progress

    def position_of(self, sequence_id: int, part: ChunkPart | None = None) -> Position:
        """Where the entry with this sequence id was stored, or this chunk of it; `NOWHERE` if that is not remembered."""
        index = bisect_left(self._ids, sequence_id)
        if part is not None:  # of the chunks with this id, those of the last attempt come last
            progress = self.stored_progress
            stored = progress.next_chunk if progress is not None and progress.sequence_id == sequence_id else part.chunks
            first = bisect_right(self._ids, sequence_id) - stored  # before `index`: it was left incomplete
            index = first + part.chunk_id if first >= index else len(self._ids)
        if index >= len(self._ids) or self._ids[index] != sequence_id:
            return NOWHERE
        return Position(self._ledgers[index], self._entries[index])

    def remember(self, sequence_id: int, ledger_id: int, entry_id: int, window: int) -> None:
        """And at least the `window` entries before it; at most twice as many."""
        self._ids.append(sequence_id)
        self._ledgers.append(ledger_id)
        self._entries.append(entry_id)
        if len(self._ids) > 2 * window:
            del self._ids[:-window], self._ledgers[:-window], self._entries[:-window]

    def keep_last(self, window: int) -> None:
        del self._ids[:-window], self._ledgers[:-window], self._entries[:-window]

    def follows(self, sequence_id: int, ledger_id: int, entry_id: int) -> bool:
        """Whether this entry comes after all that are remembered."""
        if not self._ids:
            return True
        return (sequence_id, ledger_id, entry_id) > (self._ids[-1], self._ledgers[-1], self._entries[-1])

    @property
    def progress_bytes(self) -> int:
        """Memory of what is known of incomplete messages."""
        return 0 if self.taken_progress is None and self.stored_progress is None else PROGRESS_BYTES

    @property
    def remembered_entries(self) -> int:
        return len(self._ids)


def _after(highest: Highest, sent: Iterable[SendFrame], parts: Mapping[SendFrame, ChunkPart], now_ms: int) -> Highest:
    for frame in sent:
        highest = highest.after(frame, parts.get(frame), now_ms) or highest
    return highest
