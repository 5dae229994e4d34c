"""Sets of entries of one topic: a bitmap per ledger, none of them empty. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ENTRY_IDS, bitmap_bytes
from messaging.broker.core.cursors.cursor import Cursor
from messaging.storage.ledger_store import Position

EntrySets = dict[int, BitMap]


def add(sets: EntrySets, ledger_id: int, entries: BitMap | Iterable[int]) -> None:
    of_ledger = sets.get(ledger_id)
    if of_ledger is None:
        of_ledger = BitMap()
    of_ledger.update(entries)
    if of_ledger:
        sets[ledger_id] = of_ledger


def common(sets: Mapping[int, BitMap], others: Mapping[int, BitMap]) -> EntrySets:
    """New sets of what both have."""
    both = {ledger_id: entries & others[ledger_id] for ledger_id, entries in sets.items() if ledger_id in others}
    return {ledger_id: entries for ledger_id, entries in both.items() if entries}


def copied(sets: Mapping[int, BitMap]) -> EntrySets:
    return {ledger_id: entries.copy() for ledger_id, entries in sets.items()}


def before(ledger_id: int, entries: BitMap, position: Position) -> BitMap:
    """Those of `entries` that lie before `position`; not necessarily a new set."""
    if ledger_id != position.ledger_id:
        return entries if ledger_id < position.ledger_id else BitMap()
    if not entries or entries.max() < position.entry_id:
        return entries
    earlier = entries.copy()
    earlier.remove_range(max(0, position.entry_id), ENTRY_IDS)
    return earlier


def take(sets: EntrySets, named: Mapping[int, BitMap]) -> EntrySets:
    """Removes what `named` names; returns what of it was there."""
    taken: EntrySets = {}
    for ledger_id in sets.keys() & named.keys():
        common = sets[ledger_id] & named[ledger_id]
        if common:
            taken[ledger_id] = common
            sets[ledger_id] -= common
            if not sets[ledger_id]:
                del sets[ledger_id]
    return taken


def take_first(sets: EntrySets, count: int) -> EntrySets:
    """Removes the first `count` entries, of one ledger after the other, and returns them."""
    taken: EntrySets = {}
    for ledger_id in list(sets):
        if count <= 0:
            break
        of_ledger = sets[ledger_id]
        if len(of_ledger) <= count:
            taken[ledger_id] = sets.pop(ledger_id)
        else:
            taken[ledger_id] = of_ledger[:count]
            of_ledger.remove_range(0, of_ledger[count])
        count -= len(taken[ledger_id])
    return taken


def remove_range(sets: EntrySets, ledger_id: int, first: int, stop: int) -> None:
    of_ledger = sets.get(ledger_id)
    if of_ledger is not None:
        of_ledger.remove_range(first, stop)
        if not of_ledger:
            del sets[ledger_id]


def remove_up_to(sets: EntrySets, mark: Position) -> None:
    for ledger_id in [ledger_id for ledger_id in sets if ledger_id <= mark.ledger_id]:
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


def unacknowledged_count(ledger_id: int, entries: BitMap, cursor: Cursor, stop: Position) -> int:
    """How many of them lie before `stop` and are not acknowledged, counted without a copy: there may be a hundred million. The
    ledger is that of `cursor.mark_delete` or of `stop`, or lies between the two."""
    mark, acknowledged = cursor.mark_delete, cursor.individual_acks.get(ledger_id)
    first = mark.entry_id + 1 if mark.ledger_id == ledger_id else 0
    last = stop.entry_id if stop.ledger_id == ledger_id else ENTRY_IDS
    if last <= first:
        return 0
    count = entries.range_cardinality(first, last)
    return count - (entries & acknowledged).range_cardinality(first, last) if acknowledged is not None else count


def memory_bytes(sets: EntrySets) -> int:
    return sum(map(bitmap_bytes, sets.values()))
