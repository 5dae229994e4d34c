"""When expiry or retention next has work in a topic that is not loaded, judging by its stored state. Pure.

Times are milliseconds of the clock that governs deletion (`messaging/clock.py`). The topic is loaded when that time has come.
Nothing is missed by waiting, because only the time and the policies of an unloaded topic can change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from messaging.storage.ledger_store import Position
from messaging.storage.managed.retention import LedgerLimits, Retention, droppable
from messaging.storage.meta_store import LedgerRecord

NEVER = 1 << 62


class MaintenancePolicies(NamedTuple):
    """The policies that decide. 0 disables `message_ttl_s`; a negative retention time or size keeps messages forever."""

    message_ttl_s: int
    retention_time_min: int
    retention_size_mb: int

    def retention(self, now_ms: int) -> Retention:
        older_than_ms = 0 if self.retention_time_min < 0 else now_ms - self.retention_time_min * 60_000
        return Retention(older_than_ms, self.retention_size_mb << 20 if self.retention_size_mb >= 0 else -1)


def trimming_due(
    ledgers: Sequence[LedgerRecord], before: Position, policies: MaintenancePolicies, limits: LedgerLimits, now_ms: int
) -> int:
    """When retention can next drop something. `before`: everything up to this position is acknowledged."""
    if not ledgers:
        return NEVER
    if ledgers[-1].last_entry is None:  # left by a broker that crashed: loading the topic determines where it ended
        return ledgers[-1].created_ms + limits.age_max_ms
    if any(ledger.last_entry != -1 for ledger in droppable(ledgers, before, policies.retention(now_ms))):
        return now_ms
    if policies.retention_time_min < 0:
        return NEVER
    due = 0
    for ledger in ledgers:
        if ledger.last_entry is None or Position(ledger.ledger_id, ledger.last_entry) > before:
            break
        due = max(due, ledger.sealed_ms + policies.retention_time_min * 60_000 + 1)
        if ledger.last_entry != -1:
            return due
    return NEVER


def oldest_open(ledgers: Iterable[LedgerRecord], mark_delete: Position) -> tuple[LedgerRecord, Position] | None:
    """The first unacknowledged entry and its ledger; None if everything is acknowledged. An open ledger may end before it."""
    for ledger in ledgers:
        first = mark_delete.entry_id + 1 if ledger.ledger_id == mark_delete.ledger_id else 0
        if ledger.ledger_id >= mark_delete.ledger_id and (ledger.last_entry is None or first <= ledger.last_entry):
            return ledger, Position(ledger.ledger_id, first)
    return None


def expiry_due(stored_ms: int, lifetime_ms: int) -> int:
    """When an entry stored at `stored_ms` expires, in milliseconds."""
    return stored_ms + lifetime_ms + 1
