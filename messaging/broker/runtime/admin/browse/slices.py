"""Reads a slice of a topic's entries, towards newer or older ones, and puts the chunks of large messages together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from messaging.broker.core.entries import EntryBlock
from messaging.broker.runtime.topics.backlog.stored_entries import LastBlock, stored_entry
from messaging.broker.runtime.topics.topic import Topic
from messaging.payloads.filters import MessageFilter
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import Stored, as_text
from messaging.storage.ledger_store import Position
from messaging.times import TIME_MS_MAX

CHUNKED_BYTES_MAX = 16 << 20  # of a message that is put together
CHUNK_ENTRIES_MAX = 1_000  # that are looked at for its chunks
CHUNK_LOOKED_BYTES_MAX = 64 << 20  # of these: chunks of others lie between, that never end
CHUNK_ENTRIES_AT_ONCE = 50  # then others on the loop go on


@dataclass(slots=True)
class BrowsedEntry:
    """An entry to look at. `stored` has the payload of all chunks where it is the first of some. `problem`: why its payload is not
    whole."""

    position: Position
    stored: Stored
    stored_at_ms: int
    deliver_at_ms: int = 0
    problem: str = ""


@dataclass(slots=True)
class Slice:
    """`following`: where the next one begins. `looked_at` entries were passed for it, and `further` ones read for their chunks: of
    `size_bytes` together."""

    following: Position
    entries: list[BrowsedEntry] = field(default_factory=list)
    looked_at: int = 0
    further: int = 0
    size_bytes: int = 0
    unreadable: int = 0


class SliceReader:
    """Of one topic, for one call. Keeps the last block that it read: neighbours are mostly in the same one."""

    def __init__(self, topic: Topic, wanted: MessageFilter, expired: Callable[[], bool], *, backward: bool, exact: bool) -> None:
        self._topic = topic
        self._wanted = wanted
        self._expired = expired
        self._backward = backward
        self._exact = exact
        self._last = LastBlock(topic.entries)

    def after(self, position: Position) -> Position:
        """The next entry in this direction. It may not exist."""
        ledgers = self._topic.ledger_list
        return ledgers.before(position) if self._backward else ledgers.resolve(ledgers.next_after(position))

    async def read(self, position: Position, stop: Position, entries_max: int, bytes_max: int) -> Slice:
        """Entries from `position` on, up to `stop`. Raises `StorageFailed`."""
        ledgers = self._topic.ledger_list
        part = Slice(position)
        while ledgers.holds(part.following) and self.within(part.following, stop):
            if part.looked_at + part.further >= entries_max or part.size_bytes >= bytes_max:
                break
            at = part.following
            part.looked_at += 1
            part.following = self.after(at)
            block = await self._last.at(at)
            if block is None:
                part.unreadable += 1
            elif not block.marker:
                part.size_bytes += len(block.view(at.entry_id))
                await self._add(part, block, at)
        return part

    def within(self, position: Position, stop: Position) -> bool:
        return position >= stop if self._backward else position <= stop

    async def _add(self, part: Slice, block: EntryBlock, at: Position) -> None:
        stored = stored_entry(block, at.entry_id)
        metadata = stored.metadata
        if not self._wanted.published_in_time(metadata.publish_time) or not self._may_be_named(metadata):
            return
        times = block.deliver_at_ms
        deliver_at_ms = min(times[at.entry_id - block.first_entry], TIME_MS_MAX) if times is not None else 0
        looked = BrowsedEntry(at, stored, block.broker_time_ms, deliver_at_ms)
        if metadata.num_chunks_from_msg > 1 and metadata.HasField("chunk_id"):
            if metadata.chunk_id and not self._exact:
                return  # it is shown where its message begins
            if metadata.chunk_id:
                looked.problem = "it is a part of a larger message, which begins at an earlier entry"
            else:
                await self._put_together(part, looked)
        part.entries.append(looked)

    def _may_be_named(self, metadata: pb.Metadata) -> bool:
        """False for an entry that need not be unpacked to know that it does not match."""
        if self._wanted.key is None or metadata.HasField("num_messages_in_batch"):
            return True
        return metadata.HasField("partition_key") and as_text(metadata.partition_key) == self._wanted.key

    async def _put_together(self, part: Slice, first: BrowsedEntry) -> None:
        """Reads on for the other chunks, which other messages may lie between."""
        metadata = first.stored.metadata
        count, total = metadata.num_chunks_from_msg, metadata.total_chunk_msg_size
        if total > CHUNKED_BYTES_MAX or count > CHUNK_ENTRIES_MAX:
            first.problem = f"it has {total} bytes in {count} chunks: messages of up to {CHUNKED_BYTES_MAX} bytes are put together"
            return
        ledgers, pieces, size = self._topic.ledger_list, [first.stored.payload], len(first.stored.payload)
        position, looked_at, looked_bytes = first.position, 0, 0
        while looked_at < CHUNK_ENTRIES_MAX and looked_bytes < CHUNK_LOOKED_BYTES_MAX and not (looked_at and self._expired()):
            position = ledgers.resolve(ledgers.next_after(position))
            if len(pieces) == count or not ledgers.holds(position) or size > CHUNKED_BYTES_MAX:
                break
            block = await self._last.at(position)
            looked_at += 1
            part.further += 1
            if looked_at % CHUNK_ENTRIES_AT_ONCE == 0:
                await asyncio.sleep(0)
            if block is None:
                continue
            looked_bytes += len(block.view(position.entry_id))
            if not block.chunked:
                continue
            stored = stored_entry(block, position.entry_id)
            other = stored.metadata
            same = other.uuid == metadata.uuid and other.producer_name == metadata.producer_name
            if same and other.HasField("chunk_id") and other.chunk_id == len(pieces):
                pieces.append(stored.payload)
                size += len(stored.payload)
        part.size_bytes += looked_bytes
        if len(pieces) == count and size <= CHUNKED_BYTES_MAX:
            first.stored = Stored(metadata, b"".join(pieces))
        else:
            first.problem = (
                f"{len(pieces)} of its {count} chunks were found in the {looked_at} entries behind the first that were looked at"
            )
