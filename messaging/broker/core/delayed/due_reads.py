"""Which reads bring entries that are needed one by one, in the order of the log: those that lie near each other come with one read.
Pure."""

from __future__ import annotations

from typing import NamedTuple

from pyroaring import BitMap

from messaging.broker.core.bitmaps import ENTRY_IDS
from messaging.broker.core.delayed.entry_sets import EntrySets

READ_BYTES = 512 << 10  # about, of one read
GAP_BYTES = 64 << 10  # what lies between two needed entries is read with them up to this: cheaper than another read
ENTRIES_MAX = 8192  # of one read, needed or not


class DueRead(NamedTuple):
    """Entries `first` to `last` of a ledger; `wanted` of them."""

    ledger_id: int
    first: int
    last: int
    wanted: BitMap


def take_read(entries: EntrySets, ledger_id: int, entry_bytes: int) -> DueRead:
    """Removes from `entries` what the next read of this ledger brings. `entry_bytes`: of the ledger, on average."""
    due = entries[ledger_id]
    first = due.min()
    span = min(ENTRIES_MAX, max(1, READ_BYTES // max(1, entry_bytes)))
    gap = max(1, GAP_BYTES // max(1, entry_bytes))
    last = first
    near = due & BitMap(range(first, min(first + span, ENTRY_IDS)))
    for entry in near:
        if entry - last > gap:
            break
        last = entry
    due.remove_range(first, last + 1)
    if not due:
        del entries[ledger_id]
    near.remove_range(last + 1, ENTRY_IDS)
    return DueRead(ledger_id, first, last, near)
