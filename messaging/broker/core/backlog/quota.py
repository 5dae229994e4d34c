"""Backlog quotas: how much, and how old, the backlog of a topic may be, and what happens then. Pure.

The backlog that counts is that of the slowest durable subscription.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from messaging.storage.ledger_store import Position

EVICTED_TO = 0.9  # of the limit, so that the next message does not evict again


class QuotaAction(StrEnum):
    """With the names of the policies."""

    HOLD = "producer_request_hold"  # producers are closed and refused; clients wait
    EXCEPTION = "producer_exception"  # the same; clients fail what they were about to send
    EVICT = "consumer_backlog_eviction"  # the oldest messages of the slowest subscriptions count as acknowledged


class BacklogQuota(NamedTuple):
    """-1: no limit."""

    bytes_max: int
    bytes_action: QuotaAction
    age_max_s: int
    age_action: QuotaAction

    @property
    def unlimited(self) -> bool:
        return self.bytes_max < 0 and self.age_max_s < 0

    @property
    def evicts_bytes(self) -> bool:
        return self.bytes_max >= 0 and self.bytes_action is QuotaAction.EVICT

    @property
    def evicts_after_s(self) -> int:
        """-1: age evicts nothing."""
        return self.age_max_s if self.age_action is QuotaAction.EVICT else -1


class LedgerSize(NamedTuple):
    ledger_id: int
    entries: int
    length_bytes: int


def bytes_after(ledgers: Sequence[LedgerSize], mark: Position) -> int:
    """The bytes of the entries after `mark`; within its ledger from the mean size of an entry there, rounded up."""
    total = 0
    for ledger in ledgers:
        if ledger.ledger_id > mark.ledger_id:
            total += ledger.length_bytes
        elif ledger.ledger_id == mark.ledger_id and ledger.entries:
            left = max(ledger.entries - mark.entry_id - 1, 0)
            total += -(-ledger.length_bytes * left // ledger.entries)
    return total


def mark_leaving(ledgers: Sequence[LedgerSize], mark: Position, wanted_bytes: int) -> Position:
    """The mark-delete position, not before `mark`, after which at most `wanted_bytes` follow."""
    excess = bytes_after(ledgers, mark) - wanted_bytes
    for ledger in ledgers:
        if excess <= 0:
            break
        if ledger.ledger_id < mark.ledger_id or not ledger.entries:
            continue
        first = mark.entry_id + 1 if ledger.ledger_id == mark.ledger_id else 0
        left = ledger.entries - first
        if left <= 0:
            continue
        dropped = min(left, -(-excess * ledger.entries // max(ledger.length_bytes, 1)))
        mark = Position(ledger.ledger_id, first + dropped - 1)
        excess -= ledger.length_bytes * dropped // ledger.entries
    return mark
