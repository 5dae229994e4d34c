"""The chain of ledgers against the plainest model: the list of all positions that exist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.storage.chain import Chain
from messaging.storage.seam import EARLIEST, Position

LEDGERS = st.lists(st.tuples(st.integers(1, 3), st.integers(-1, 4)), max_size=5)
POSITIONS = st.builds(Position, st.integers(-1, 20), st.integers(-1, 8))


def chain_of(gaps: list[tuple[int, int]]) -> Chain:
    """Ledger ids rise by the first of each pair; the second is the last entry."""
    ledgers, ledger_id = [], 0
    for gap, last in gaps:
        ledger_id += gap
        ledgers.append((ledger_id, last))
    return Chain(ledgers)


def positions(chain: Chain) -> list[Position]:
    return [Position(ledger, entry) for ledger, last in zip(chain.ids, chain.lasts, strict=True) for entry in range(last + 1)]


@given(LEDGERS, POSITIONS)
def test_asking(gaps: list[tuple[int, int]], position: Position) -> None:
    chain = chain_of(gaps)
    exist = positions(chain)
    earlier = [one for one in exist if one < position]
    later = [one for one in exist if one > position]
    assert chain.holds(position) == (position in exist)
    assert chain.entries == len(exist)
    assert chain.last == (exist[-1] if exist else EARLIEST)
    assert chain.before(position) == (earlier[-1] if earlier else EARLIEST)
    assert chain.count_up_to(position) == sum(1 for one in exist if one <= position)
    following = chain.next_after(position)
    if later:
        assert following == later[0]
    else:
        assert not chain.holds(following)
        assert following > position
    resolved = chain.resolve(position)
    if position in exist:
        assert resolved == position
    elif later:
        assert resolved == later[0]
    else:
        assert not chain.holds(resolved)


@given(LEDGERS)
def test_walking_visits_every_entry_once(gaps: list[tuple[int, int]]) -> None:
    chain = chain_of(gaps)
    exist = positions(chain)
    place, walked = chain.resolve(chain.first), []
    while chain.holds(place):
        walked.append(place)
        place = chain.next_after(place)
    assert walked == exist
    assert [chain.at_index(index) for index in range(chain.entries)] == exist
    with pytest.raises(IndexError):
        chain.at_index(chain.entries)


@given(LEDGERS, st.integers(0, 5))
def test_what_comes_is_what_next_after_the_last_named(gaps: list[tuple[int, int]], more: int) -> None:
    """A reader at the end waits at a position; an append to the last ledger, or to a new one, makes exactly that or moves it."""
    chain = chain_of(gaps)
    waiting = chain.next_after(chain.last)
    if chain.ids:
        last = chain.lasts[-1] + 1 + more
        first_new = Position(chain.ids[-1], chain.lasts[-1] + 1)
        chain.confirm(chain.ids[-1], last)
        assert chain.resolve(waiting) == first_new
    else:
        chain.add(9)
        chain.confirm(9, more)
        assert chain.resolve(waiting) == Position(9, 0)


@given(LEDGERS, LEDGERS, st.integers(0, 4))
def test_what_follows_in_later_ledgers_is_not_missed(
    gaps: list[tuple[int, int]], further: list[tuple[int, int]], more: int
) -> None:
    chain = chain_of(gaps)
    waiting = chain.next_after(chain.last)
    ledger_id = chain.ids[-1] if chain.ids else 0
    begin = len(positions(chain))
    for gap, last in further:
        ledger_id += gap
        chain.add(ledger_id)
        chain.confirm(ledger_id, last)
    new = positions(chain)[begin:]
    if new:
        assert chain.resolve(waiting) == new[0]


@given(LEDGERS)
def test_dropping_the_first(gaps: list[tuple[int, int]]) -> None:
    chain = chain_of(gaps)
    while chain.ids:
        rest = [one for one in positions(chain) if one.ledger_id != chain.ids[0]]
        gone = chain.ids[0]
        assert chain.drop_first() == gone
        assert positions(chain) == rest


def test_an_empty_chain() -> None:
    chain = Chain()
    assert chain.first == Position(0, 0)
    assert chain.last == EARLIEST
    assert chain.entries == 0
    assert not chain.ends(1)
    assert chain.last_of(1) == -1


@given(LEDGERS)
def test_only_ledgers_with_a_successor_have_ended(gaps: list[tuple[int, int]]) -> None:
    chain = chain_of(gaps)
    assert [chain.ends(ledger_id) for ledger_id in chain.ids] == [True] * (len(chain.ids) - 1) + [False] * bool(chain.ids)
