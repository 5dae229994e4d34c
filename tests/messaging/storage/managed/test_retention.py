"""Which ledgers go, as numbers."""

from __future__ import annotations

import pytest

from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.retention import LedgerLimits, Retention, droppable, ending_is_due
from messaging.storage.meta_store import LedgerRecord

LIMITS = LedgerLimits(age_max_ms=100, consumed_age_max_ms=10)


def test_nothing_follows_what_is_kept() -> None:
    ledgers = [LedgerRecord(1, 9, 100, 0, sealed_ms=50), LedgerRecord(2, 9, 100, 0, sealed_ms=10), LedgerRecord(3)]
    assert droppable(ledgers, Position(9, 9), Retention(20, -1)) == [], "the first is younger, whatever the clock did"
    assert droppable(ledgers, Position(9, 9), Retention(51, -1)) == ledgers[:2]
    assert droppable(ledgers, EARLIEST, Retention(51, 0)) == []


@pytest.mark.parametrize(
    ("age_ms", "consumed", "retention", "due"),
    [
        (99, False, Retention(1, 0), False),
        (100, False, Retention(1, 0), True),
        (100, False, Retention(0, -1), True),
        (9, True, Retention(1, 0), False),
        (10, True, Retention(1, 0), True),
        (10, True, Retention(1, -1), True),
        (10, True, Retention(0, 7), True),
        (99, True, Retention(0, -1), False),
        (-5, True, Retention(1, 0), False),  # the clock was set back
    ],
)
def test_when_an_open_ledger_is_ended(age_ms: int, consumed: bool, retention: Retention, due: bool) -> None:
    assert ending_is_due(age_ms, consumed, LIMITS, retention) is due
