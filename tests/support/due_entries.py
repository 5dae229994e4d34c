"""Entries of the index of delayed messages, as threads have them."""

from __future__ import annotations

from array import array

from messaging.broker.core.delayed.run_format import Entries, of_arrays
from messaging.broker.core.delayed.time_slots import ENTRY_BITS


def entries_of(*entries: tuple[int, int, int]) -> Entries:
    """Each: time, ledger, entry."""
    times = array("q", [at_ms for at_ms, _, _ in entries])
    return of_arrays(times, array("Q", [ledger_id << ENTRY_BITS | entry_id for _, ledger_id, entry_id in entries]))
