"""One compaction under way: what its worker reads, and the ledger that it fills."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from messaging.broker.core.compaction.cancelled import cancelled_now, concerns, without_cancelled
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.fairness.in_thread import in_thread
from messaging.protocol.batch import UNPACKED_TIMES_MAX
from messaging.protocol.names import TopicName
from messaging.storage.block_header import decode
from messaging.storage.ledger_store import EARLIEST, Block, Corrupt, Position
from messaging.storage.managed.compacted import CompactedLog, CompactedWriter
from messaging.storage.managed.compacted_ids import compacted_id, original_position
from messaging.storage.managed.storage import Storage

PAGE_BYTES = 512 << 10
PAGE_ENTRIES = 8192


class Page(NamedTuple):
    """`following` None: nothing follows."""

    blocks: list[Block]
    following: Position | None


class CompactionSession:
    """Everything of the topic up to `end`: what the last compaction left, then the entries behind its horizon; without what was
    cancelled before the session began."""

    def __init__(
        self,
        session_id: str,
        topic: PersistentTopic,
        storage: Storage,
        writer: CompactedWriter,
        now_ms: int,
        message_bytes_max: int,
    ) -> None:
        self.session_id = session_id
        self.name: TopicName = topic.name
        self.created_ms = topic.ledger.record.created_ms
        self.former = topic.ledger_list.compacted
        self.end = max(topic.ledger_list.deliverable, topic.ledger_list.horizon)  # retention may have dropped all up to there
        self.cancelled = cancelled_now(topic.overrides)
        self.writer = writer
        self.started_ms = self.heard_ms = now_ms
        self.lost_entries = 0  # that storage could not give
        self._storage = storage
        self._unpacked_bytes_max = message_bytes_max * UNPACKED_TIMES_MAX

    async def read(self, topic: PersistentTopic, position: Position) -> Page:
        """A page of about `PAGE_BYTES` from `position` on. Raises `StoreError`."""
        page = await self._read(topic, position)
        if not any(concerns(self.cancelled, block) for block in page.blocks):
            return page
        return Page(await in_thread(self._without_cancelled, page.blocks), page.following)

    def _without_cancelled(self, blocks: list[Block]) -> list[Block]:
        return [without_cancelled(block, self.cancelled, self._unpacked_bytes_max) for block in blocks]

    async def _read(self, topic: PersistentTopic, position: Position) -> Page:
        former = self.former
        while True:
            try:
                if former is not None and position <= former.last:
                    return await self._read_compacted(CompactedLog(self._storage, former), position)
                return await self._read_topic(topic, position)
            except Corrupt as error:
                self.lost_entries += max(0, (error.resume_entry or 0) - error.entry_id)
                resumed = Position(error.ledger_id, error.resume_entry or error.entry_id + 1)
                if former is not None and error.ledger_id == former.ledger_id:
                    resumed = original_position(resumed.entry_id, former.base_ledger_id)
                position = max(position, resumed)

    async def _read_compacted(self, log: CompactedLog, position: Position) -> Page:
        former = log.compacted
        first = Position(former.ledger_id, compacted_id(position, former.base_ledger_id))
        read = await log.read(first, entries_max=PAGE_ENTRIES, bytes_max=PAGE_BYTES)
        blocks = []
        for block in read:
            ledger_id, first_entry = original_position(block.first_entry, former.base_ledger_id)
            blocks.append(Block(ledger_id, first_entry, block.header, block.data, block.end_offsets))
        last = blocks[-1]
        return Page(blocks, Position(last.ledger_id, last.last_entry + 1))

    async def _read_topic(self, topic: PersistentTopic, position: Position) -> Page:
        ledger_list = topic.ledger_list
        horizon = self.former.horizon if self.former is not None else EARLIEST
        position = ledger_list.next_after(horizon) if position <= horizon else ledger_list.resolve(position)
        if position > self.end:
            return Page([], None)
        blocks = await topic.ledger.read(position, entries_max=PAGE_ENTRIES, bytes_max=PAGE_BYTES)
        if not blocks:
            return Page([], None)
        cut = [within(block, position.entry_id, self.end) for block in blocks]
        following = ledger_list.next_after(Position(blocks[-1].ledger_id, blocks[-1].last_entry))
        return Page([block for block in cut if block is not None], following if following <= self.end else None)


def within(block: Block, first_entry: int, end: Position) -> Block | None:
    """The entries of `block` from `first_entry` to `end`; None if there are none. Raises `ValueError` if it is none of ours."""
    first = max(block.first_entry, first_entry)
    last = min(block.last_entry, end.entry_id) if block.ledger_id == end.ledger_id else block.last_entry
    if block.ledger_id > end.ledger_id or first > last:
        return None
    if first == block.first_entry and last == block.last_entry:
        return block
    at = first - block.first_entry
    start = block.end_offsets[at - 1] if at else 0
    stops = array("I", [stop - start for stop in block.end_offsets[at : last + 1 - block.first_entry]])
    data = bytes(memoryview(block.data)[start : start + stops[-1]])
    header = decode(block.header)._replace(extensions=(), message_count=len(stops)).encode()  # they were those of the whole block
    return Block(block.ledger_id, first, header, data, stops)
