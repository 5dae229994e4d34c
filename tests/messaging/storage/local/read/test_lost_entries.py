"""For how long the disk has to fail until an entry counts as lost."""

from __future__ import annotations

import pytest

from messaging.storage.local.read import lost_entries
from messaging.storage.local.read.lost_entries import FORGOTTEN_S, GAP_S, PATIENCE_S, LostEntries


def lost(entries: LostEntries, *times_s: float, entry: int = 7) -> list[bool]:
    return [entries.failed(1, entry, at_s) for at_s in times_s]


def test_an_entry_that_fails_whenever_asked_for_is_lost_after_the_whole_patience_and_stays_so() -> None:
    entries = LostEntries()
    assert not any(lost(entries, *[float(at) for at in range(int(PATIENCE_S))]))
    assert all(lost(entries, PATIENCE_S, PATIENCE_S + 1, PATIENCE_S + 1000))


def test_an_entry_asked_for_rarely_has_to_fail_more_than_twice() -> None:
    assert lost(LostEntries(), 0, 60, 120) == [False, False, True]
    assert lost(LostEntries(), 0, FORGOTTEN_S, 2 * FORGOTTEN_S, 3 * FORGOTTEN_S) == [False] * 4


def test_the_same_attempt_counts_once() -> None:
    assert not any(lost(LostEntries(), *[3.0] * 100, 2.0, 3.0 + GAP_S, *[3.0] * 100))


@pytest.mark.parametrize("first, stop, again", [(7, 8, True), (0, 100, True), (0, 7, False), (8, 100, False)])
def test_an_entry_that_came_in_between_has_all_patience_again(first: int, stop: int, again: bool) -> None:
    entries = LostEntries()
    lost(entries, 0, 4, 8)
    entries.returned(1, first, stop)
    entries.returned(2, first, stop)
    assert lost(entries, 11) == [not again]
    assert len(entries) == 1
    entries.returned(1, 7, 8)
    assert not entries


def test_remembered_failures_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_entries, "ENTRIES_MAX", 10)
    entries = LostEntries()
    for ledger_id in range(100):
        for entry in range(4):
            entries.failed(ledger_id, entry, 0.0)
        assert len(entries) <= 10
    for entry in range(100):
        entries.failed(500, entry, 0.0)
        assert len(entries) <= 10
