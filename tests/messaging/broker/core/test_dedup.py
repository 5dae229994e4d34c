"""Deduplication against a model that remembers everything: stored once, whatever is sent again, in whatever pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.dedup import NOWHERE, TOPIC_WINDOW_ENTRIES, WINDOW_ENTRIES, Deduplication
from messaging.protocol.hot import SendFrame
from messaging.storage.ledger_store import Position

NAME = b"producer"


def sent(sequence_id: int, highest: int = 0) -> SendFrame:
    return (1, sequence_id, 0, 0, 1, 1, highest, 0)


def take(dedup: Deduplication, name: bytes, block: list[SendFrame], now_ms: int = 1) -> tuple[list[SendFrame], bool]:
    """As for a block that the log takes."""
    fresh, repeated = dedup.sift(name, block)
    dedup.took(name, fresh, now_ms)
    return fresh, repeated


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=8), max_size=20), st.booleans())
def test_each_sequence_id_is_stored_once_and_found_again(reads: list[list[int]], crash: bool) -> None:
    dedup = Deduplication()
    stored: list[int] = []  # the log: entry n holds stored[n]
    highest = -1
    for read in reads:
        fresh, repeated = take(dedup, NAME, [sent(number) for number in read])
        expected = []
        for number in read:
            if number > highest:
                highest = number
                expected.append(number)
        assert [one[1] for one in fresh] == expected
        assert repeated == (len(expected) != len(read))
        if fresh:
            dedup.stored(NAME, fresh, Position(7, len(stored)))
            stored += expected
        if crash:
            # A restart with nothing but the log.
            dedup = Deduplication.restore(dedup.snapshot(Position(7, -1)) if not stored else None)
            dedup.replay(NAME, [sent(number) for number in stored], Position(7, 0), 1)
        for entry, number in enumerate(stored):
            assert dedup.position_of(NAME, number) == Position(7, entry)
        assert dedup.highest_taken(NAME) == highest


def test_a_batch_counts_up_to_its_last_message() -> None:
    dedup = Deduplication()
    fresh, _ = take(dedup, NAME, [sent(0, 9), sent(10, 19)], 1)
    dedup.stored(NAME, fresh, Position(7, 0))
    assert dedup.highest_taken(NAME) == 19
    assert dedup.sift(NAME, [sent(10, 19)]) == ([], True)
    assert dedup.position_of(NAME, 10) == Position(7, 1)
    fresh, repeated = take(dedup, NAME, [sent(10, 19), sent(20, 29)])
    assert ([one[1] for one in fresh], repeated) == ([20], True)


def test_what_is_taken_and_not_stored_is_a_duplicate_already_and_not_in_a_snapshot() -> None:
    dedup = Deduplication()
    take(dedup, NAME, [sent(0), sent(1)])
    assert dedup.sift(NAME, [sent(1)]) == ([], True)
    assert Deduplication.restore(dedup.snapshot(Position(7, 3))).highest_taken(NAME) == -1


def test_what_was_sifted_and_then_refused_by_the_log_is_no_duplicate() -> None:
    dedup = Deduplication()
    block = [sent(0), sent(1)]
    assert dedup.sift(NAME, block) == (block, False)
    assert dedup.sift(NAME, block) == (block, False)
    assert dedup.highest_taken(NAME) == -1 and not dedup.names


def test_the_window_is_bounded_and_older_ids_are_nowhere() -> None:
    dedup = Deduplication()
    count = 5 * WINDOW_ENTRIES
    for number in range(count):
        fresh, _ = take(dedup, NAME, [sent(number)], 1)
        dedup.stored(NAME, fresh, Position(7, number))
    assert dedup.position_of(NAME, 0) == NOWHERE
    assert dedup.position_of(NAME, count - 1) == Position(7, count - 1)
    assert dedup.position_of(NAME, count - WINDOW_ENTRIES) == Position(7, count - WINDOW_ENTRIES)


def test_a_snapshot_keeps_names_numbers_and_the_position_that_trimming_must_not_pass() -> None:
    dedup = Deduplication()
    for name, number in ((b"a", 5), ("ä".encode(), 2**62)):
        fresh, _ = take(dedup, name, [sent(number)], 1)
        dedup.stored(name, fresh, Position(7, 0))
    again = Deduplication.restore(dedup.snapshot(Position(9, 4)))
    assert again.snapshot_position == Position(9, 4)
    assert (again.highest_taken(b"a"), again.highest_taken("ä".encode()), again.highest_taken(b"b")) == (5, 2**62, -1)


def test_names_that_send_nothing_are_forgotten() -> None:
    dedup = Deduplication()
    take(dedup, b"old", [sent(1)], 1_000)
    take(dedup, b"new", [sent(1)], 2_000)
    dedup.forget_unused(1_500)
    assert list(dedup.names) == [b"new"]


def test_a_name_beyond_the_most_takes_the_place_of_one_unused_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """It went at once itself: from the 100,001st name of a topic on, nothing that a new producer sent again was a duplicate."""
    monkeypatch.setattr("messaging.broker.core.dedup.NAMES_MAX", 3)
    dedup = Deduplication()
    for now_ms, name in enumerate((b"a", b"b", b"c", b"d"), 1):
        take(dedup, name, [sent(7)], now_ms)
    assert set(dedup.names) == {b"b", b"c", b"d"}
    assert take(dedup, b"d", [sent(7)], 5) == ([], True)


def test_what_is_remembered_of_all_names_of_a_topic_is_bounded() -> None:
    """Every name had 2,000 positions: 380 MB for a thousand producers of a topic."""
    dedup, names = Deduplication(), [b"%d" % number for number in range(500)]
    for name in names:
        take(dedup, name, [sent(0)])
    for name in names:
        for sequence_id in range(300):
            dedup.stored(name, [sent(sequence_id)], Position(1, sequence_id))
        assert dedup.position_of(name, 299) == Position(1, 299)
    assert sum(one.remembered_entries for one in dedup.names.values()) <= 2 * TOPIC_WINDOW_ENTRIES
