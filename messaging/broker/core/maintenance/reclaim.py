"""Which ledgers of a topic nobody needs although an older one is still needed. Pure.

One message that is not acknowledged, because it is delayed by a year, keeps its own ledger. The ledgers after it are deleted as
soon as every durable subscription has acknowledged everything in them; from then on the list of ledgers has a gap, over which
positions pass as they pass from one ledger to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from messaging.broker.core.cursors.cursor import Cursor
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.meta_store import LedgerRecord


def has_all_of(cursor: Cursor, ledger_id: int, last: int) -> bool:
    """Whether everything in a ledger, which ends with entry `last`, is acknowledged."""
    mark = cursor.mark_delete
    if mark >= (ledger_id, last):
        return True
    acknowledged = cursor.individual_acks.get(ledger_id)
    first = mark.entry_id + 1 if mark.ledger_id == ledger_id else 0
    return acknowledged is not None and acknowledged.range_cardinality(first, last + 1) == last + 1 - first


def consumed(ledgers: Sequence[LedgerRecord], cursors: Collection[Cursor], limit: Position) -> set[int]:
    """The sealed ledgers up to `limit` of which every cursor has acknowledged everything, beyond what all have behind them."""
    before = min((cursor.mark_delete for cursor in cursors), default=limit)
    if before >= limit or not all(cursor.individual_acks for cursor in cursors if cursor.mark_delete == before):
        return set()
    return {
        ledger.ledger_id
        for ledger in ledgers
        if ledger.last_entry is not None
        and before < (ledger.ledger_id, ledger.last_entry) <= limit
        and all(has_all_of(cursor, ledger.ledger_id, ledger.last_entry) for cursor in cursors)
    }


def forget_gone(cursor: Cursor, ledger_list: LedgerList) -> bool:
    """Ledgers were deleted, perhaps in the middle of the list: what was acknowledged in them counts no more. Returns whether there
    was any."""
    gone = [ledger_id for ledger_id in cursor.individual_acks if ledger_list.dropped(ledger_id)]
    for ledger_id in gone:
        cursor.individual_ack_count -= len(cursor.individual_acks.pop(ledger_id))
    return bool(gone)
