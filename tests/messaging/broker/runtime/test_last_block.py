"""Entry after entry of a topic: each block is read once, however many of its entries are asked for."""

from __future__ import annotations

from messaging.broker.core.entries import EntryBlock
from messaging.broker.runtime.topics.backlog.stored_entries import LastBlock
from messaging.storage.ledger_store import Position

BLOCKS = [EntryBlock(7, 0, b"abc", [1, 2, 3], 0, 3), EntryBlock(7, 3, b"de", [1, 2], 0, 2), EntryBlock(8, 0, b"f", [1], 0, 1)]


class CountedReads:
    def __init__(self) -> None:
        self.read: list[Position] = []

    async def undamaged_block_at(self, position: Position) -> EntryBlock | None:
        self.read.append(position)
        for block in BLOCKS:
            if block.ledger_id == position.ledger_id and block.first_entry <= position.entry_id <= block.last_entry:
                return block
        return None


async def test_a_block_is_read_once_for_the_entries_in_a_row() -> None:
    entries = CountedReads()
    last = LastBlock(entries)
    asked = [
        Position(7, 0),
        Position(7, 1),
        Position(7, 2),
        Position(7, 3),
        Position(7, 4),
        Position(8, 0),
        Position(9, 0),
        Position(8, 0),
    ]
    blocks = [await last.at(position) for position in asked]
    first, second, third = BLOCKS
    assert blocks == [first, first, first, second, second, third, None, third]
    assert entries.read == [Position(7, 0), Position(7, 3), Position(8, 0), Position(9, 0), Position(8, 0)]
