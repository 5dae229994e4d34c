"""Which ledgers of a topic retention drops, and when the open one is rolled over for that purpose. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from messaging.storage.ledger_store import Position
from messaging.storage.meta_store import LedgerRecord


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """When a topic's ledger is rolled over. Retention drops whole ledgers, so these limits bound how much more than requested it
    keeps. Units: entries, bytes, milliseconds of the broker's clock."""

    entries_max: int = 1 << 30  # entry ids stay below 2^32, the width of the cursors' bitmaps
    bytes_max: int = 2 << 30
    age_max_ms: int = 4 * 3_600_000  # as Pulsar's managedLedgerMaxLedgerRolloverTimeMinutes
    consumed_age_max_ms: int = 10 * 60_000  # if everything in it is acknowledged, so that it is kept only because it is open


@dataclass(frozen=True, slots=True)
class Retention:
    """Which acknowledged messages are kept: ledgers sealed at or after `older_than_ms` (0: none are dropped by age), and of the
    older ones at most `larger_than_bytes` in total (-1: none are dropped by size)."""

    older_than_ms: int
    larger_than_bytes: int

    @property
    def keeps_for_ever(self) -> bool:
        return self.older_than_ms <= 0 and self.larger_than_bytes < 0


NOTHING = Retention(1 << 63, 0)  # keeps nothing before a given position


def droppable(
    ledgers: Sequence[LedgerRecord], before: Position, retention: Retention, consumed: Collection[int] = ()
) -> list[LedgerRecord]:
    """The oldest sealed ledgers that lie wholly at or before `before`, or are among `consumed`, and that retention does not
    hold."""
    acknowledged = [
        ledger
        for ledger in ledgers
        if ledger.last_entry is not None
        and (Position(ledger.ledger_id, ledger.last_entry) <= before or ledger.ledger_id in consumed)
    ]
    kept_bytes = sum(ledger.length_bytes for ledger in acknowledged)
    dropped = []
    for ledger in acknowledged:
        too_old = ledger.sealed_ms < retention.older_than_ms
        too_much = 0 <= retention.larger_than_bytes < kept_bytes
        if not (too_old or too_much):
            break
        dropped.append(ledger)
        kept_bytes -= ledger.length_bytes
    return dropped


def ending_is_due(age_ms: int, consumed: bool, limits: LedgerLimits, retention: Retention) -> bool:
    """Whether an open, non-empty ledger should be rolled over: it grew too old, or only its being open keeps it."""
    if age_ms >= limits.age_max_ms:
        return True
    return consumed and age_ms >= limits.consumed_age_max_ms and not retention.keeps_for_ever
