"""Sets of entries of one topic: a bitmap per ledger, none of them empty. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyroaring import BitMap

from messaging.broker.core.bitmaps import bitmap_bytes
from messaging.broker.core.cursor import Cursor
from messaging.storage.ledger_store import Position

EntrySets = dict[int, BitMap]


def add(sets: EntrySets, ledger_id: int, entries: BitMap | Iterable[int]) -> None:
    held = sets.get(ledger_id)
    if held is None:
        held = BitMap()
    held.update(entries)
    if held:
        sets[ledger_id] = held


def take(sets: EntrySets, named: Mapping[int, BitMap]) -> EntrySets:
    """Removes what `named` names; returns what of it was there."""
    found: EntrySets = {}
    for ledger_id in sets.keys() & named.keys():
        common = sets[ledger_id] & named[ledger_id]
        if common:
            found[ledger_id] = common
            sets[ledger_id] -= common
            if not sets[ledger_id]:
                del sets[ledger_id]
    return found


def remove_range(sets: EntrySets, ledger_id: int, first: int, stop: int) -> None:
    held = sets.get(ledger_id)
    if held is not None:
        held.remove_range(first, stop)
        if not held:
            del sets[ledger_id]


def remove_up_to(sets: EntrySets, mark: Position) -> None:
    for ledger_id in [held for held in sets if held <= mark.ledger_id]:
        remove_range(sets, ledger_id, 0, 1 << 32 if ledger_id < mark.ledger_id else mark.entry_id + 1)


def unacknowledged(ledger_id: int, entries: BitMap, cursor: Cursor) -> BitMap:
    mark = cursor.mark_delete
    if mark.ledger_id > ledger_id:
        return BitMap()
    acknowledged = cursor.individual_acks.get(ledger_id)
    left = entries - acknowledged if acknowledged is not None else entries.copy()
    if mark.ledger_id == ledger_id:
        left.remove_range(0, mark.entry_id + 1)
    return left


def memory_bytes(sets: EntrySets) -> int:
    return sum(map(bitmap_bytes, sets.values()))
