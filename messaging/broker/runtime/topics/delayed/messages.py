"""Delayed messages as they are listed: read from the log, some with each call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from messaging.broker.core.delayed.run_jobs import DueEntry
from messaging.broker.core.entries import EntryBlock
from messaging.broker.runtime.topics.delayed.changes import TURN_ENTRIES, delivery_time, key_of
from messaging.broker.runtime.topics.delayed.scan import DelayedScan
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError, parse_metadata
from messaging.storage.ledger_store import Position

READ_BYTES_MAX = 8 << 20  # of one page
KEY_ENTRIES_MAX = 4_000  # looked at by one search for a key
KEY_BYTES_MAX = 8 << 20


class ReadMessage(NamedTuple):
    """`former_ms`: what it asks for itself, if it was rescheduled."""

    position: Position
    at_ms: int
    former_ms: int | None
    metadata: pb.Metadata
    messages: int
    size_bytes: int


class KeyPage(NamedTuple):
    messages: list[ReadMessage]
    following: Position | None
    complete: bool


async def read_messages(topic: PersistentTopic, entries: Sequence[DueEntry]) -> tuple[list[ReadMessage], DueEntry | None]:
    """The messages of these entries, without those that are gone meanwhile; and the last one that there was room to read, if that
    is not all. Raises `StorageFailed`."""
    messages, size, last, block = dict[DueEntry, ReadMessage](), 0, len(entries), None
    for at, entry in enumerate(entries):
        position = Position(entry.ledger_id, entry.entry_id)
        if block is None or not _within(block, position):
            if size > READ_BYTES_MAX:
                last = at
                break
            block = await topic.entries.block_at(position)
            size += 0 if block is None else len(block.data)
        if block is not None:
            messages[entry] = _read(topic, block, position)
    return list(messages.values()), None if last == len(entries) else entries[last - 1]


async def page_of_key(topic: PersistentTopic, key: str, from_ms: int, until_ms: int, start: Position, count: int) -> KeyPage:
    """Those with this key, in the order in which they were stored. Raises `NotReady`, `StorageFailed`."""
    topic.check_open()
    topic.delayed.begin()
    scan, messages = DelayedScan(topic, start, KEY_ENTRIES_MAX, KEY_BYTES_MAX), list[ReadMessage]()
    while (block_read := await scan.next_block()) is not None:
        block, entries = block_read
        for at, entry in enumerate(entries, 1):
            position = Position(block.ledger_id, entry)
            if from_ms <= delivery_time(topic.overrides, block, position) < until_ms and key_of(block, entry) == key:
                messages.append(_read(topic, block, position))
            if len(messages) >= count:
                following = topic.ledger_list.next_after(position)
                return KeyPage(messages, following, topic.delayed.delays.unindexed is None)
            if at % TURN_ENTRIES == 0:
                await asyncio.sleep(0)
    return KeyPage(messages, scan.position, topic.delayed.delays.unindexed is None)


def _within(block: EntryBlock, position: Position) -> bool:
    return block.ledger_id == position.ledger_id and block.first_entry <= position.entry_id <= block.last_entry


def _read(topic: PersistentTopic, block: EntryBlock, position: Position) -> ReadMessage:
    try:
        metadata = parse_metadata(block.view(position.entry_id))
    except ProtocolError:
        metadata = pb.Metadata(producer_name="", sequence_id=0, publish_time=block.broker_time_ms)
    overrides = topic.overrides
    time = None if overrides is None else overrides.time_of(position)
    return ReadMessage(
        position,
        delivery_time(topic.overrides, block, position),
        None if time is None else time.former_ms,
        metadata,
        block.messages_of(position.entry_id),
        len(block.view(position.entry_id)),
    )
