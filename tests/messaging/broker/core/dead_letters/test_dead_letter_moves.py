"""A move takes messages whole, and what it appends in several blocks is planned before the first."""

from __future__ import annotations

import pytest

from messaging.broker.core.chunks import Chunk
from messaging.broker.core.dead_letters import moves as dead_letter_moves
from messaging.broker.core.dead_letters.moves import FoundEntry, Move, MoveEntries, Part, next_sequence_id, parts_of
from messaging.storage.ledger_store import Position


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 bytes in a block."""
    monkeypatch.setattr(dead_letter_moves, "MOVE_BYTES", 100)


def entry(number: int, size: int = 40, *, chunk: tuple[bytes, int, int] | None = None, messages: int = 1) -> FoundEntry:
    return FoundEntry(Position(1, number), size, messages, None if chunk is None else Chunk(*chunk))


def selected(*entries: FoundEntry) -> list[int]:
    taken = MoveEntries()
    for entry in entries:
        if taken.full:
            break
        taken.offer(entry)
    return [entry.position.entry_id for entry in taken.ordered()]


def test_plain_entries_up_to_the_size_of_a_block() -> None:
    assert selected(*(entry(number) for number in range(5))) == [0, 1]


def test_a_message_larger_than_a_move_goes_alone() -> None:
    assert selected(entry(0, 500), entry(1, 1)) == [0]


def test_nothing_overtakes_one_for_which_there_is_no_room() -> None:
    assert selected(entry(0, 90), entry(1, 40), entry(2, 5)) == [0]


def test_a_message_is_taken_whole_and_no_other_is_begun_for_it() -> None:
    a, b = [(b"a", number, 4) for number in range(4)], [(b"b", number, 2) for number in range(2)]
    entries = [
        entry(0, chunk=a[0]),
        entry(1, chunk=a[1]),
        entry(2, chunk=b[0]),
        entry(3, chunk=a[2]),
        entry(4),
        entry(5, chunk=a[3]),
    ]
    assert selected(*entries, entry(6, chunk=b[1])) == [0, 1, 3, 5]


def test_the_chunks_of_a_message_follow_one_another() -> None:
    entries = [entry(0, 10, chunk=(b"a", 0, 2)), entry(1, 10), entry(2, 10, chunk=(b"a", 1, 2))]
    assert selected(*entries) == [0, 2, 1]


def test_a_message_of_which_something_is_missing_keeps_nobody() -> None:
    taken = MoveEntries()
    for number in range(3):
        taken.offer(entry(number, chunk=(b"a", number, 9)))
    taken.offer(entry(3))
    assert len(taken.entries) == 3
    assert not taken.full, "and the rest may still come"


def test_parts_keep_one_sequence_id_for_a_message() -> None:
    entries = [entry(0, 40, messages=5), *(entry(number, 60, chunk=(b"a", number - 1, 3)) for number in (1, 2, 3)), entry(4, 40)]
    assert parts_of(entries, 7) == (Part(2, 7), Part(1, 13, 12), Part(2, 14, 12))
    assert next_sequence_id(entries, 7) == 16


def test_a_move_names_the_entries_of_its_parts() -> None:
    move = Move(7, ((1, 0), (1, 1), (1, 2)), "t", (-1, -1), (Part(1, 7), Part(2, 8)), (3, 4, 5))
    assert move.entries_of(1) == [(Position(1, 1), 4), (Position(1, 2), 5)]
    assert Move(7, ((1, 0),), "t", (-1, -1)).all_parts == (Part(1, 7),), "as it was stored before there were parts"
