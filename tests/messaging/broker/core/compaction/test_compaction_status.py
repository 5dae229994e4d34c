"""When a topic is to be compacted."""

from __future__ import annotations

import pytest

from messaging.broker.core.compaction.status import NOT_RUN, RETRY_MS, CompactionResult, bytes_after, is_due
from messaging.storage.ledger_store import EARLIEST, Position

LEDGERS = [(3, 9, 1_000), (5, 4, 500), (8, -1, 0)]


@pytest.mark.parametrize(
    ("position", "expected"),
    [(EARLIEST, 1_500), (Position(3, 4), 1_000), (Position(3, 9), 500), (Position(5, 0), 400), (Position(8, 0), 0)],
)
def test_bytes_behind_a_position_are_estimated_within_its_ledger(position: Position, expected: int) -> None:
    assert bytes_after(LEDGERS, position) == expected


@pytest.mark.parametrize(("threshold", "stored", "due"), [(0, 10, False), (10, 10, False), (10, 11, True)])
def test_a_topic_is_due_above_its_threshold(threshold: int, stored: int, due: bool) -> None:
    assert is_due(threshold, stored, NOT_RUN, 0) == due


@pytest.mark.parametrize(("took_ms", "waits_ms"), [(0, RETRY_MS), (RETRY_MS, RETRY_MS), (3 * RETRY_MS, 3 * RETRY_MS)])
def test_a_failed_compaction_waits_as_long_as_it_took(took_ms: int, waits_ms: int) -> None:
    """Seen: a topic that fails after hours was begun again at once, and took all of the worker's time."""
    failed = CompactionResult("ERROR", failed_ms=1_000, failed_after_ms=took_ms)
    assert not is_due(1, 2, failed, 1_000 + waits_ms - 1)
    assert is_due(1, 2, failed, 1_000 + waits_ms)
