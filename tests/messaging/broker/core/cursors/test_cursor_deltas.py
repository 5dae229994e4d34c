"""Merging the deltas of a replay changes how often a cursor is called, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.cursors.cursor_deltas import Delta, merged
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList

LEDGERS = [(3, 40), (5, 40)]
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("entries"), st.sampled_from([3, 5]), st.lists(st.integers(0, 40), min_size=1, max_size=5)),
        st.tuples(
            st.just("entries"),
            st.sampled_from([3, 5]),
            st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda run: list(range(run[0], run[0] + run[1]))),
        ),
        st.tuples(st.just("up to"), st.sampled_from([3, 5]), st.integers(0, 40)),
        st.tuples(st.just("reset"), st.sampled_from([3, 5]), st.integers(0, 40)),
    ),
    max_size=40,
)


def state_of(cursor: Cursor) -> tuple[object, ...]:
    """A bitmap with the same entries may be stored in other bytes."""
    return cursor.mark_delete, cursor.individual_acks, cursor.individual_ack_count, dict(cursor.batches.items())


@given(ACTS)
def test_a_merged_replay_ends_where_the_single_one_does(acts: list[tuple[str, int, object]]) -> None:
    ledger_list = LedgerList(LEDGERS)
    lived = Cursor(EARLIEST)
    deltas = []
    for kind, ledger_id, value in acts:
        if kind == "entries":
            assert isinstance(value, list)
            deltas.append(lived.acknowledge(ledger_id, value, ledger_list))
        elif kind == "up to":
            assert isinstance(value, int)
            deltas.append(lived.acknowledge_up_to(Position(ledger_id, value), ledger_list))
        else:
            assert isinstance(value, int)
            deltas.append(lived.reset(Position(ledger_id, value), ledger_list))
    stored = [delta for delta in deltas if delta]
    replayed = Cursor(EARLIEST)
    for delta in merged(stored):
        replayed.apply(delta, ledger_list)
    assert state_of(replayed) == state_of(lived)


def test_neighbours_of_one_ledger_become_one() -> None:
    ledger_list = LedgerList([(3, 100_000)])
    cursor = Cursor(EARLIEST)
    deltas = [cursor.acknowledge(3, [entry], ledger_list) for entry in range(0, 2000, 2)]
    assert len(list(merged(deltas))) == 1
    assert {
        delta[0] for delta in merged([*deltas, cursor.acknowledge_up_to(Position(3, 9), ledger_list) or b"\x02" + bytes(16)])
    } == {
        Delta.ENTRIES,
        Delta.UP_TO,
    }


def test_consecutive_entries_are_stored_as_a_range_where_that_is_shorter() -> None:
    ledger_list = LedgerList([(3, 100_000)])
    for entries in ([5], [8, 7, 6, 5], [4, 5, 6, 7, 8], [9, 5, 7, 6, 8], [5, 6, 7, 8, 10], list(range(7, 5_000)), [2, 3, 90_000]):
        cursor, replayed = Cursor(EARLIEST), Cursor(EARLIEST)
        delta = cursor.acknowledge(3, entries, ledger_list)
        follow = max(entries) - min(entries) + 1 == len(entries)
        assert delta[0] == (Delta.RANGE if follow and len(entries) > 4 else Delta.ENTRIES), entries
        assert len(delta) <= 9 + 4 * len(entries)
        replayed.apply(delta, ledger_list)
        assert state_of(replayed) == state_of(cursor)
        assert all(replayed.acknowledged(Position(3, entry)) for entry in entries)
        assert cursor.acknowledge(3, entries, ledger_list) == b""
