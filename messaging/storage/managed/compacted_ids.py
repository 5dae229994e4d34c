"""The ids of entries in a compacted ledger, which holds what a compaction kept of many ledgers. Pure.

The entry with id *e* of ledger *l* has the id ``(l - base) << 32 | e`` there; the base is the first ledger of which anything was
kept. Ids rise with positions, so that a read from any position finds what follows it.

A block has consecutive ids. An id whose entry was not kept is a *hole*: no bytes at all. Holes keep entries in one block that lie
close together; a larger gap is left out between two blocks (`HOLES_MAX`).
"""

from __future__ import annotations

from array import array

from messaging.storage.ledger_store import Position

ENTRY_BITS = 32
ENTRY_MASK = (1 << ENTRY_BITS) - 1
LEDGERS_MAX = 1 << 30  # from the base on: ids have 62 bits
HOLES_MAX = 16  # between two entries of one block: four bytes each, while a block of its own takes about a hundred


def compacted_id(position: Position, base_ledger_id: int) -> int:
    """The id that the entry at `position` has in a compacted ledger; for a position before its base, its first id."""
    ledger_id, entry_id = position
    if ledger_id < base_ledger_id:
        return 0
    return (ledger_id - base_ledger_id) << ENTRY_BITS | max(0, min(entry_id, ENTRY_MASK))


def original_position(entry_id: int, base_ledger_id: int) -> Position:
    """Of the entry with this id in a compacted ledger."""
    return Position(base_ledger_id + (entry_id >> ENTRY_BITS), entry_id & ENTRY_MASK)


def entries_in(end_offsets: array[int]) -> int:
    """Without holes."""
    begin = entries = 0
    for stop in end_offsets:
        entries += stop > begin
        begin = stop
    return entries
