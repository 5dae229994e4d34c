"""The index of delayed entries: everything comes out once, when it is due, however much there is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.delayed.index import MOVED_MAX, MemoryIndex
from messaging.storage.ledger_store import Position

ENTRIES = st.dictionaries(st.tuples(st.integers(1, 3), st.integers(0, 200)), st.integers(1, 40_000), max_size=120)


def _taken(index: MemoryIndex, until_ms: int) -> tuple[set[Position], int]:
    due = index.take_due(until_ms)
    return {Position(ledger_id, entry) for ledger_id, entries in due.entries.items() for entry in entries}, due.until_ms


@given(ENTRIES, st.integers(1, 300), st.lists(st.integers(0, 9_000), max_size=12))
def test_each_entry_comes_once_and_not_before_its_time(
    times: dict[tuple[int, int], int], resolution_ms: int, steps: list[int]
) -> None:
    index = MemoryIndex(resolution_ms)
    for (ledger_id, entry), at_ms in times.items():
        index.add(ledger_id, [(entry, at_ms)])
        index.add(ledger_id, [(entry, at_ms)])
    left = {Position(*key): at_ms for key, at_ms in times.items()}
    now_ms = 0
    for step in [*steps, 100_000]:
        now_ms += step
        due, until_ms = _taken(index, now_ms)
        assert until_ms == now_ms
        assert all(left.pop(position) <= now_ms for position in due)
        assert all(at_ms > now_ms - resolution_ms for at_ms in left.values())
        following = index.next_ms()
        assert (following is None) == (not left)
        if following is not None:
            assert now_ms - resolution_ms < following <= min(left.values()) + resolution_ms
    assert not left and index.memory_bytes == 0


def test_entries_added_while_others_are_being_delivered_are_due_in_their_turn() -> None:
    index = MemoryIndex()
    index.add(1, [(0, 5_000), (1, 900_000)])
    assert _taken(index, 4_999) == (set(), 4_999)
    index.add(1, [(2, 5_001), (3, 4_100)])
    assert _taken(index, 5_000)[0] == {Position(1, 0), Position(1, 3)}
    assert index.next_ms() == 5_001
    assert _taken(index, 5_001)[0] == {Position(1, 2)}
    assert _taken(index, 900_000)[0] == {Position(1, 1)}
    assert index.next_ms() is None


def test_more_than_one_turn_takes_comes_in_several() -> None:
    index = MemoryIndex()
    count = 2 * MOVED_MAX + 10
    index.add(1, [(entry, 4_096 + entry % 4_000) for entry in range(count)])
    due: set[Position] = set()
    turns = 0
    while len(due) < count:
        taken, until_ms = _taken(index, 50_000)
        assert until_ms == 50_000 or until_ms < 4_096 + 4_000
        due |= taken
        turns += 1
    assert turns == 3


def test_many_times_take_little_memory() -> None:
    index = MemoryIndex(resolution_ms=62)
    index.add(1, [(entry, 10_000_000 + entry * 37) for entry in range(100_000)])
    assert index.memory_bytes < 25 * 100_000
    while index.next_ms() is not None:
        index.take_due(20_000_000)
    assert index.memory_bytes == 0
