"""The chain of ledgers against the plainest model: the list of all positions that exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList

LEDGERS = st.lists(st.tuples(st.integers(1, 3), st.integers(-1, 4)), max_size=5)
POSITIONS = st.builds(Position, st.integers(-1, 20), st.integers(-1, 8))


def chain_of(gaps: list[tuple[int, int]]) -> LedgerList:
    """Ledger ids rise by the first of each pair; the second is the last entry."""
    ledgers, ledger_id = [], 0
    for gap, last in gaps:
        ledger_id += gap
        ledgers.append((ledger_id, last))
    return LedgerList(ledgers)


def positions(ledger_list: LedgerList) -> list[Position]:
    return [
        Position(ledger, entry)
        for ledger, last in zip(ledger_list.ids, ledger_list.lasts, strict=True)
        for entry in range(last + 1)
    ]


@given(LEDGERS, POSITIONS)
def test_asking(gaps: list[tuple[int, int]], position: Position) -> None:
    ledger_list = chain_of(gaps)
    exist = positions(ledger_list)
    earlier = [other for other in exist if other < position]
    later = [other for other in exist if other > position]
    assert ledger_list.holds(position) == (position in exist)
    assert ledger_list.entries == len(exist)
    assert ledger_list.last == (exist[-1] if exist else EARLIEST)
    assert ledger_list.before(position) == (earlier[-1] if earlier else EARLIEST)
    assert ledger_list.count_up_to(position) == sum(1 for other in exist if other <= position)
    following = ledger_list.next_after(position)
    if later:
        assert following == later[0]
    else:
        assert not ledger_list.holds(following)
        assert following > position
    resolved = ledger_list.resolve(position)
    if position in exist:
        assert resolved == position
    elif later:
        assert resolved == later[0]
    else:
        assert not ledger_list.holds(resolved)


@given(LEDGERS, POSITIONS, POSITIONS)
def test_ranges_are_the_entries_between(gaps: list[tuple[int, int]], after: Position, last: Position) -> None:
    ledger_list = chain_of(gaps)
    listed = [
        Position(ledger_id, entry) for ledger_id, first, stop in ledger_list.ranges(after, last) for entry in range(first, stop + 1)
    ]
    assert listed == [position for position in positions(ledger_list) if after < position <= last]
    assert all(first <= stop for _, first, stop in ledger_list.ranges(after, last))


@given(LEDGERS, LEDGERS, st.integers(0, 10))
def test_added_entries_count_what_was_confirmed_since_whatever_was_dropped(
    gaps: list[tuple[int, int]], further: list[tuple[int, int]], drops: int
) -> None:
    ledger_list = chain_of(gaps)
    assert ledger_list.added_entries == 0
    ledger_id = ledger_list.ids[-1] if ledger_list.ids else 0
    for gap, last in further:
        ledger_id += gap
        ledger_list.add(ledger_id)
        ledger_list.confirm(ledger_id, last)
    for _ in range(min(drops, len(ledger_list.ids))):
        ledger_list.drop_first()
    assert ledger_list.added_entries == sum(last + 1 for _, last in further)


def test_the_last_confirmed_entry_of_an_empty_topic_names_its_ledger() -> None:
    assert LedgerList().last_confirmed == EARLIEST
    assert LedgerList([(7, -1)]).last_confirmed == Position(7, -1)
    assert LedgerList([(5, 3), (7, -1)]).last_confirmed == Position(5, 3)


@given(LEDGERS)
def test_walking_visits_every_entry_once(gaps: list[tuple[int, int]]) -> None:
    ledger_list = chain_of(gaps)
    exist = positions(ledger_list)
    place, walked = ledger_list.resolve(ledger_list.first), []
    while ledger_list.holds(place):
        walked.append(place)
        place = ledger_list.next_after(place)
    assert walked == exist
    assert [ledger_list.at_index(index) for index in range(ledger_list.entries)] == exist
    with pytest.raises(IndexError):
        ledger_list.at_index(ledger_list.entries)


@given(LEDGERS, st.integers(0, 5))
def test_entries_come_where_next_after_the_last_said(gaps: list[tuple[int, int]], more: int) -> None:
    """A reader at the end waits at a position; an append to the last ledger, or to a new one, makes exactly that or moves it."""
    ledger_list = chain_of(gaps)
    waiting = ledger_list.next_after(ledger_list.last)
    if ledger_list.ids:
        last = ledger_list.lasts[-1] + 1 + more
        first_new = Position(ledger_list.ids[-1], ledger_list.lasts[-1] + 1)
        ledger_list.confirm(ledger_list.ids[-1], last)
        assert ledger_list.resolve(waiting) == first_new
    else:
        ledger_list.add(9)
        ledger_list.confirm(9, more)
        assert ledger_list.resolve(waiting) == Position(9, 0)


@given(LEDGERS, LEDGERS, st.integers(0, 4))
def test_entries_of_later_ledgers_are_not_missed(gaps: list[tuple[int, int]], further: list[tuple[int, int]], more: int) -> None:
    ledger_list = chain_of(gaps)
    waiting = ledger_list.next_after(ledger_list.last)
    ledger_id = ledger_list.ids[-1] if ledger_list.ids else 0
    begin = len(positions(ledger_list))
    for gap, last in further:
        ledger_id += gap
        ledger_list.add(ledger_id)
        ledger_list.confirm(ledger_id, last)
    new = positions(ledger_list)[begin:]
    if new:
        assert ledger_list.resolve(waiting) == new[0]


@given(LEDGERS)
def test_dropping_the_first(gaps: list[tuple[int, int]]) -> None:
    ledger_list = chain_of(gaps)
    while ledger_list.ids:
        rest = [position for position in positions(ledger_list) if position.ledger_id != ledger_list.ids[0]]
        gone = ledger_list.ids[0]
        assert ledger_list.drop_first() == gone
        assert positions(ledger_list) == rest


def test_an_empty_chain() -> None:
    ledger_list = LedgerList()
    assert ledger_list.first == Position(0, 0)
    assert ledger_list.last == EARLIEST
    assert ledger_list.entries == 0
    assert not ledger_list.ends(1)
    assert ledger_list.last_of(1) == -1


@given(LEDGERS)
def test_only_ledgers_with_a_successor_have_ended(gaps: list[tuple[int, int]]) -> None:
    ledger_list = chain_of(gaps)
    assert [ledger_list.ends(ledger_id) for ledger_id in ledger_list.ids] == [True] * (len(ledger_list.ids) - 1) + [False] * bool(
        ledger_list.ids
    )


@given(LEDGERS, POSITIONS, POSITIONS)
def test_withheld_entries_may_not_be_delivered(gaps: list[tuple[int, int]], withheld_from: Position, position: Position) -> None:
    ledger_list = chain_of(gaps)
    exist = positions(ledger_list)
    assert ledger_list.deliverable == ledger_list.last
    assert ledger_list.may_deliver(position) == ledger_list.holds(position)
    ledger_list.withheld_from = withheld_from
    free = [entry for entry in exist if entry < withheld_from]
    assert ledger_list.last == (exist[-1] if exist else EARLIEST), "durable all the same"
    assert ledger_list.deliverable == (free[-1] if free else EARLIEST)
    assert ledger_list.may_deliver(position) == (position in free)
    last = max((entry.entry_id for entry in free if entry.ledger_id == position.ledger_id), default=-1)
    assert max(-1, ledger_list.deliverable_in(position.ledger_id)) == last
