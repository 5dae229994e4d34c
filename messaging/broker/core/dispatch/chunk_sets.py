"""Chunked messages that consumers hold: all chunks of a message go to one consumer, and are acknowledged and redelivered together.

Pulsar's brokers treat each chunk as a message of its own. Here, once all chunks were sent to a consumer, acknowledging one of them
acknowledges all (those in the same ledger), and redelivering one redelivers all. A message whose last chunk never arrives because
its producer died is acknowledged after a while, so that it does not hold back the mark-delete position forever. Pure.

Messages are known by a digest of what producers call them, so that the length of a name costs nothing, and their number is limited:
beyond it the chunks of the oldest count as messages of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.entries import EntryBlock
from messaging.protocol.frames import ProtocolError, as_text, parse_metadata
from messaging.storage.ledger_store import Position

CHUNKS_MAX = 10_000  # of one subscription
CHUNK_BYTES = 400  # memory that one takes
_DIGEST_BYTES = 16


class Chunk(NamedTuple):
    message: bytes  # a digest of the producer's name for it
    chunk_id: int
    chunks: int


def chunk_at(block: EntryBlock, index: int) -> Chunk | None:
    """None for an entry that is no chunk, or does not say which one."""
    try:
        metadata = parse_metadata(block.view(block.first_entry + index))
    except ProtocolError:
        return None
    if not metadata.HasField("chunk_id") or not 0 <= metadata.chunk_id < metadata.num_chunks_from_msg:
        return None
    message = blake2b(as_text(metadata.uuid).encode(), digest_size=_DIGEST_BYTES).digest()
    return Chunk(message, metadata.chunk_id, metadata.num_chunks_from_msg)


class ChunkSet:
    """What was sent of one message."""

    __slots__ = ("chunks", "consumer", "last_ms", "message", "positions")

    def __init__(self, message: bytes, chunks: int, consumer: Consumer) -> None:
        self.message = message
        self.chunks = chunks
        self.consumer = consumer
        self.positions: dict[int, Position] = {}  # by the number of the chunk
        self.last_ms = 0  # when the broker stored the newest of them

    @property
    def whole(self) -> bool:
        return len(self.positions) == self.chunks


class ChunkSets:
    __slots__ = ("_by_position", "_sets", "newest_ms")

    def __init__(self) -> None:
        self._sets: dict[bytes, ChunkSet] = {}  # the oldest first
        self._by_position: dict[Position, ChunkSet] = {}
        self.newest_ms = 0  # when the broker stored the newest entry that was sent

    def __bool__(self) -> bool:
        return bool(self._sets)

    @property
    def memory_bytes(self) -> int:
        return CHUNK_BYTES * len(self._by_position)

    def holder(self, chunk: Chunk) -> Consumer | None:
        """The consumer that has the chunks before this one."""
        held = self._sets.get(chunk.message)
        return None if held is None or not chunk.chunk_id else held.consumer

    def sent(self, consumer: Consumer, position: Position, chunk: Chunk, stored_ms: int) -> None:
        held = self._sets.get(chunk.message)
        if held is None or held.consumer is not consumer or held.chunks != chunk.chunks or not chunk.chunk_id:
            self._forget(held)
            held = self._sets[chunk.message] = ChunkSet(chunk.message, chunk.chunks, consumer)
        former = held.positions.get(chunk.chunk_id)
        if former is not None:
            self._by_position.pop(former, None)
        held.positions[chunk.chunk_id] = position
        held.last_ms = max(held.last_ms, stored_ms)
        self._by_position[position] = held
        while len(self._by_position) > CHUNKS_MAX:
            self._forget(next(iter(self._sets.values())))

    def with_others(self, positions: Iterable[Position]) -> list[Position]:
        """`positions`, and all other chunks of the same messages: a client cannot use single chunks."""
        found = dict.fromkeys(positions)
        for held in self._sets_of(list(found)):
            found.update(dict.fromkeys(held.positions.values()))
        return list(found)

    def acknowledged(self, ledger_id: int, entries: Sequence[int]) -> Sequence[int]:
        """`entries` of a ledger are acknowledged, and with them the other chunks of messages that were sent whole: all that are to
        be acknowledged."""
        named = [Position(ledger_id, entry) for entry in entries]
        sets = self._sets_of(named)
        if not sets:
            return entries
        more = [one.entry_id for held in sets if held.whole for one in held.positions.values() if one.ledger_id == ledger_id]
        for position in named:
            self._by_position.pop(position, None)
        for held in sets:
            if held.whole:
                self._forget(held)
        return list(dict.fromkeys([*entries, *more]))

    def acknowledged_up_to(self, mark: Position) -> None:
        """Costs what it forgets: messages come in the order of their first chunks."""
        for held in list(self._sets.values()):
            if min(held.positions.values()) > mark:
                return
            if max(held.positions.values()) <= mark:
                self._forget(held)

    def unfinished(self, before_ms: int, waiting_to: Position) -> list[Position]:
        """The chunks of messages of which nothing came since `before_ms` and something is missing. They are forgotten. What is
        missing may be among entries that wait to be sent, of which `waiting_to` is the last."""
        found: list[Position] = []
        for held in [one for one in self._sets.values() if not one.whole and one.last_ms < before_ms]:
            if max(held.positions.values()) > waiting_to:
                found += held.positions.values()
                self._forget(held)
        return sorted(found)

    def forget_consumer(self, consumer: Consumer) -> None:
        """The consumer left: others are sent its chunks."""
        for held in [one for one in self._sets.values() if one.consumer is consumer]:
            self._forget(held)

    def forget(self, positions: Iterable[Position]) -> None:
        """These are sent again."""
        for held in self._sets_of(positions):
            self._forget(held)

    def _sets_of(self, positions: Iterable[Position]) -> list[ChunkSet]:
        by_position = self._by_position
        return list({id(held): held for held in map(by_position.get, positions) if held is not None}.values())

    def _forget(self, held: ChunkSet | None) -> None:
        if held is None:
            return
        if self._sets.get(held.message) is held:
            del self._sets[held.message]
        for position in held.positions.values():
            if self._by_position.get(position) is held:
                del self._by_position[position]
