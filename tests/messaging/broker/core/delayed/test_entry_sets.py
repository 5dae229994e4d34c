"""Sets of entries: what is counted, and what is taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.delayed import entry_sets
from messaging.storage.ledger_store import Position

_entries = st.sets(st.integers(0, 40) | st.integers((1 << 32) - 3, (1 << 32) - 1), max_size=30)
_positions = st.builds(Position, st.integers(1, 3), st.integers(-1, 40))


@given(_entries, _entries, _positions, _positions)
def test_what_is_counted_is_what_a_copy_would_have(
    pending: set[int], acknowledged: set[int], mark: Position, stop: Position
) -> None:
    ledger_id, entries = 2, BitMap(pending)
    if not mark.ledger_id <= ledger_id <= stop.ledger_id:
        return
    cursor = Cursor(mark)
    if acknowledged:
        cursor.individual_acks[ledger_id] = BitMap(acknowledged)
    expected = entry_sets.unacknowledged(ledger_id, entry_sets.before(ledger_id, entries, stop), cursor)
    assert entry_sets.unacknowledged_count(ledger_id, entries, cursor, stop) == len(expected)
    assert entries == BitMap(pending)


@given(st.dictionaries(st.integers(1, 3), st.sets(st.integers(0, 99), min_size=1)), st.integers(0, 200))
def test_so_many_are_taken_and_the_others_left(held: dict[int, set[int]], count: int) -> None:
    sets = {ledger_id: BitMap(entries) for ledger_id, entries in held.items()}
    taken = entry_sets.take_first(sets, count)
    assert sum(map(len, taken.values())) == min(count, sum(map(len, held.values())))
    assert all(taken.values()) and all(sets.values())
    for ledger_id, entries in held.items():
        first, rest = taken.get(ledger_id, BitMap()), sets.get(ledger_id, BitMap())
        assert first | rest == BitMap(entries) and len(first) + len(rest) == len(entries)
