"""Looking up single entries of a topic: the last message, the position of a point in time, peeking."""

from __future__ import annotations

from messaging.broker.core.entries import EntryBlock, from_log
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import StorageFailed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError, Stored, parse_stored
from messaging.storage.ledger_store import EARLIEST, Corrupt, Position, StoreError


async def block_at(topic: TopicContext, position: Position) -> EntryBlock | None:
    """The block that holds `position`, or None if there is no such entry. Raises `StorageFailed`."""
    if not topic.ledger_list.holds(position):
        return None
    try:
        return await _block_at(topic, position)
    except (StoreError, ValueError) as error:
        raise _unreadable(topic, position, error) from error


async def undamaged_block_at(topic: TopicContext, position: Position) -> EntryBlock | None:
    """The same; None also where the entry cannot be read any more, which no retry would change. Raises `StorageFailed`."""
    try:
        return await _block_at(topic, position) if topic.ledger_list.holds(position) else None
    except (Corrupt, ValueError):
        return None
    except StoreError as error:
        raise _unreadable(topic, position, error) from error


async def entry_at(topic: TopicContext, position: Position) -> Stored | None:
    """The stored entry at `position`, or None if there is none. Raises `StorageFailed`."""
    block = await block_at(topic, position)
    return None if block is None else stored_entry(block, position.entry_id)


def stored_entry(block: EntryBlock, entry_id: int) -> Stored:
    """One entry of `block`, which holds it."""
    data = block.payload(entry_id)
    try:
        return parse_stored(data)
    except ProtocolError:
        # The producer wrote unreadable metadata: count one message, published when the broker stored it.
        return Stored(pb.Metadata(producer_name="", sequence_id=0, publish_time=block.broker_time_ms), data)


async def batch_size_of(topic: TopicContext, position: Position) -> int | None:
    """The number of messages in a batch entry; None for a plain message or a missing entry."""
    block = await block_at(topic, position)
    if block is None or not stored_entry(block, position.entry_id).metadata.HasField("num_messages_in_batch"):
        return None
    return block.messages_of(position.entry_id)  # from the SEND command, checked on arrival


async def mark_delete_at_time(topic: TopicContext, publish_time_ms: int) -> Position:
    """The mark-delete position for a seek to `publish_time_ms`: messages published at or after that time follow it (Pulsar's rule).

    A binary search over publish times, which rise along a topic as far as its producers' clocks agree. A damaged entry counts as
    the next readable one. Raises `StorageFailed`.
    """
    ledger_list = topic.ledger_list
    low, high = 0, ledger_list.entries  # everything before low is older; high and everything after it is not
    while low < high:
        middle = (low + high) // 2
        position = ledger_list.at_index(middle)
        try:
            found = await _readable_from(topic, position)
        except StoreError as error:
            raise _unreadable(topic, position, error) from error
        if found is not None and stored_entry(*found).metadata.publish_time < publish_time_ms:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return ledger_list.before(ledger_list.first)
    return ledger_list.at_index(low - 1) if ledger_list.entries else EARLIEST


async def mark_delete_before_broker_time(topic: TopicContext, cutoff_ms: int) -> Position:
    """The last entry that the broker stored before `cutoff_ms` by its own clock; `EARLIEST` if there is none."""
    ledger_list = topic.ledger_list
    low, high = 0, ledger_list.entries
    while low < high:
        middle = (low + high) // 2
        stored_ms = await broker_time(topic, ledger_list.at_index(middle))
        if stored_ms < cutoff_ms:
            low = middle + 1
        else:
            high = middle
    return ledger_list.at_index(low - 1) if low else EARLIEST


async def broker_time(topic: TopicContext, position: Position) -> int:
    """The time at which the broker stored an entry; 0 if there is no such entry. If the entry is damaged, the time of the next
    readable one, so nothing counts as older than it is. Raises `StoreError`.
    """
    if not topic.ledger_list.holds(position):
        return 0
    found = await _readable_from(topic, position)
    return topic.ledger.stamped_ms if found is None else found[0].broker_time_ms


async def _readable_from(topic: TopicContext, position: Position) -> tuple[EntryBlock, int] | None:
    """The first entry from `position` on that can be read, and its block; None if no more can be. Raises `StoreError`."""
    while topic.ledger_list.holds(position):
        try:
            block = await _block_at(topic, position)
        except Corrupt as error:
            position = topic.ledger_list.resolve(Position(position.ledger_id, error.resume_entry))
        except ValueError:  # not a block that we wrote
            position = topic.ledger_list.next_after(position)
        else:
            return None if block is None else (block, max(position.entry_id, block.first_entry))
    return None


async def _block_at(topic: TopicContext, position: Position) -> EntryBlock | None:
    """Raises `StoreError`, and `ValueError` for what is not a block that we wrote."""
    block = topic.block_in_memory(position)
    if block is not None:
        return block
    blocks = await topic.ledger.read(position, entries_max=1, bytes_max=1)
    return from_log(blocks[0]) if blocks else None


def _unreadable(topic: TopicContext, position: Position, error: Exception) -> StorageFailed:
    return StorageFailed(f"entry {position.ledger_id}:{position.entry_id} of {topic.text} cannot be read: {error}")
