"""Single entries of a topic, from memory or from storage: the last message, the position of a point in time, peeking."""

from __future__ import annotations

from typing import Protocol

from messaging.broker.core.entries import EntryBlock, from_log
from messaging.errors import StorageFailed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError, Stored, parse_stored
from messaging.storage.ledger_store import EARLIEST, Corrupt, Position, StoreError
from messaging.storage.managed.ledger import ManagedLedger


class BlocksInMemory(Protocol):
    """The dispatcher."""

    def block_in_memory(self, position: Position) -> EntryBlock | None: ...


class StoredEntries:
    """Those of one topic. It is made when somebody asks; `blocks` None: nothing is in memory."""

    __slots__ = ("_blocks", "_ledger")

    def __init__(self, ledger: ManagedLedger, blocks: BlocksInMemory | None) -> None:
        self._ledger = ledger
        self._blocks = blocks

    def in_memory(self, position: Position) -> EntryBlock | None:
        """The block that holds `position` if it is in memory."""
        return None if self._blocks is None else self._blocks.block_in_memory(position)

    async def block_at(self, position: Position) -> EntryBlock | None:
        """The block that holds `position`, or None if there is no such entry. Raises `StorageFailed`."""
        if not self._ledger.ledger_list.holds(position):
            return None
        try:
            return await self._block_at(position)
        except (StoreError, ValueError) as error:
            raise self._unreadable(position, error) from error

    async def undamaged_block_at(self, position: Position) -> EntryBlock | None:
        """The same; None also where the entry cannot be read any more, which no retry would change. Raises `StorageFailed`."""
        try:
            return await self._block_at(position) if self._ledger.ledger_list.holds(position) else None
        except (Corrupt, ValueError):
            return None
        except StoreError as error:
            raise self._unreadable(position, error) from error

    async def entry_at(self, position: Position) -> Stored | None:
        """The stored entry at `position`, or None if there is none. Raises `StorageFailed`."""
        block = await self.block_at(position)
        return None if block is None else stored_entry(block, position.entry_id)

    async def batch_size_of(self, position: Position) -> int | None:
        """The number of messages in a batch entry; None for a plain message or a missing entry."""
        block = await self.block_at(position)
        if block is None or not stored_entry(block, position.entry_id).metadata.HasField("num_messages_in_batch"):
            return None
        return block.messages_of(position.entry_id)  # from the SEND command, checked on arrival

    async def mark_delete_at_time(self, publish_time_ms: int) -> Position:
        """The mark-delete position for a seek to `publish_time_ms`: messages published at or after that time follow it (Pulsar's
        rule).

        A binary search over publish times, which rise along a topic as far as its producers' clocks agree. A damaged entry counts
        as the next readable one. Raises `StorageFailed`.
        """
        ledger_list = self._ledger.ledger_list
        low, high = 0, ledger_list.entries  # everything before low is older; high and everything after it is not
        while low < high:
            middle = (low + high) // 2
            position = ledger_list.at_index(middle)
            try:
                readable = await self._readable_from(position)
            except StoreError as error:
                raise self._unreadable(position, error) from error
            if readable is not None and stored_entry(*readable).metadata.publish_time < publish_time_ms:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return ledger_list.before(ledger_list.first)
        return ledger_list.at_index(low - 1) if ledger_list.entries else EARLIEST

    async def mark_delete_before_broker_time(self, cutoff_ms: int) -> Position:
        """The last entry that the broker stored before `cutoff_ms` by its own clock; `EARLIEST` if there is none."""
        ledger_list = self._ledger.ledger_list
        low, high = 0, ledger_list.entries
        while low < high:
            middle = (low + high) // 2
            stored_ms = await self.broker_time(ledger_list.at_index(middle))
            if stored_ms < cutoff_ms:
                low = middle + 1
            else:
                high = middle
        return ledger_list.at_index(low - 1) if low else EARLIEST

    async def broker_time(self, position: Position) -> int:
        """The time at which the broker stored an entry; 0 if there is no such entry. If the entry is damaged, the time of the next
        readable one, so nothing counts as older than it is. Raises `StoreError`.
        """
        if not self._ledger.ledger_list.holds(position):
            return 0
        readable = await self._readable_from(position)
        return self._ledger.stamped_ms if readable is None else readable[0].broker_time_ms

    async def _readable_from(self, position: Position) -> tuple[EntryBlock, int] | None:
        """The first entry from `position` on that can be read, and its block; None if no more can be. Raises `StoreError`."""
        while self._ledger.ledger_list.holds(position):
            try:
                block = await self._block_at(position)
            except Corrupt as error:
                position = self._ledger.ledger_list.resolve(Position(position.ledger_id, error.resume_entry))
            except ValueError:  # not a block that we wrote
                position = self._ledger.ledger_list.next_after(position)
            else:
                return None if block is None else (block, max(position.entry_id, block.first_entry))
        return None

    async def _block_at(self, position: Position) -> EntryBlock | None:
        """Raises `StoreError`, and `ValueError` for what is not a block that we wrote."""
        block = self.in_memory(position)
        if block is not None:
            return block
        blocks = await self._ledger.read(position, entries_max=1, bytes_max=1)
        return from_log(blocks[0]) if blocks else None

    def _unreadable(self, position: Position, error: Exception) -> StorageFailed:
        return StorageFailed(
            f"entry {position.ledger_id}:{position.entry_id} of {self._ledger.record.name} cannot be read: {error}"
        )


class BlocksRead(Protocol):
    """`StoredEntries`."""

    async def undamaged_block_at(self, position: Position) -> EntryBlock | None: ...


class LastBlock:
    """Reads entry after entry, and each block once: the last one is kept."""

    def __init__(self, entries: BlocksRead) -> None:
        self._entries = entries
        self._block: EntryBlock | None = None

    async def at(self, position: Position) -> EntryBlock | None:
        """As `StoredEntries.undamaged_block_at`."""
        block = self._block
        if block is None or block.ledger_id != position.ledger_id or not block.first_entry <= position.entry_id <= block.last_entry:
            self._block = block = await self._entries.undamaged_block_at(position)
        return block


def stored_entry(block: EntryBlock, entry_id: int) -> Stored:
    """One entry of `block`, which holds it."""
    data = block.payload(entry_id)
    try:
        return parse_stored(data)
    except ProtocolError:
        # The producer wrote unreadable metadata: count one message, published when the broker stored it.
        return Stored(pb.Metadata(producer_name="", sequence_id=0, publish_time=block.broker_time_ms), data)
