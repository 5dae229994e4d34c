"""How large a backlog is, and where a subscription has to stand for it to be smaller."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.backlog.quota import LedgerSize, bytes_after, mark_leaving
from messaging.storage.ledger_store import EARLIEST, Position

LEDGERS = [LedgerSize(3, 10, 1000), LedgerSize(5, 0, 0), LedgerSize(8, 4, 400)]


def test_whole_ledgers_count_exactly_and_a_part_by_its_mean() -> None:
    assert bytes_after(LEDGERS, EARLIEST) == 1400
    assert bytes_after(LEDGERS, Position(3, 3)) == 1000
    assert bytes_after(LEDGERS, Position(3, 9)) == 400
    assert bytes_after(LEDGERS, Position(8, 3)) == 0


def test_an_eviction_goes_as_far_as_it_must() -> None:
    assert mark_leaving(LEDGERS, EARLIEST, 1400) == EARLIEST
    assert mark_leaving(LEDGERS, EARLIEST, 1000) == Position(3, 3)
    assert mark_leaving(LEDGERS, EARLIEST, 999) == Position(3, 4)
    assert mark_leaving(LEDGERS, Position(3, 7), 150) == Position(8, 2)
    assert mark_leaving(LEDGERS, EARLIEST, 0) == Position(8, 3)


sizes = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5000)), min_size=1, max_size=6)


@given(sizes, st.data())
def test_the_backlog_left_fits_and_with_an_entry_more_would_not(counts: list[tuple[int, int]], data: st.DataObject) -> None:
    ledgers = [LedgerSize(number, entries, entries and length) for number, (entries, length) in enumerate(counts)]
    total = bytes_after(ledgers, EARLIEST)
    wanted = data.draw(st.integers(0, total))
    mark = mark_leaving(ledgers, EARLIEST, wanted)
    assert bytes_after(ledgers, mark) <= wanted
    if mark != EARLIEST:
        before = Position(mark.ledger_id, mark.entry_id - 1)
        assert bytes_after(ledgers, before) > wanted - 1 - max(length for _, length in counts)


@given(sizes, st.lists(st.tuples(st.integers(-1, 7), st.integers(-1, 60)), min_size=1))
def test_the_backlog_of_the_slowest_is_that_after_the_lowest_position(
    counts: list[tuple[int, int]], marks: list[tuple[int, int]]
) -> None:
    ledgers = [LedgerSize(number, entries, entries and length) for number, (entries, length) in enumerate(counts)]
    positions = [Position(*mark) for mark in marks]
    assert bytes_after(ledgers, min(positions)) == max(bytes_after(ledgers, position) for position in positions)
