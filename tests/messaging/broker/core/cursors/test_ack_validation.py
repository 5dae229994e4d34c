"""What an acknowledgement may name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.cursors.ack_validation import (
    CumulativeAck,
    MessageAck,
    all_open,
    check_cumulative,
    check_individual,
    signed,
)
from messaging.broker.core.cursors.cursor import Cursor
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList

# Ledgers 3 and 7 were dropped; 5 has entries 0 to 9, 6 is empty, 8 has entries 0 to 4 and goes on.
CHAIN = LedgerList([(5, 9), (6, -1), (8, 4)])
FULL = 2**64 - 1
WHOLE = Position(8, 0)
BATCH = Position(8, 1)
SIZES = {WHOLE: 1, BATCH: 70}


def ask(*asked: MessageAck, cursor: Cursor | None = None):  # type: ignore[no-untyped-def]
    return check_individual(asked, CHAIN, cursor or Cursor(), SIZES.get)


@pytest.mark.parametrize(
    "position",
    [(-1, -1), (8, 5), (8, -1), (5, 10), (6, 0), (9, 0), (2**63 - 1, 2**63 - 1), (8, 2**63 - 1), (-(2**63), 0)],
)
def test_an_entry_that_does_not_exist_is_refused_alone(position: tuple[int, int]) -> None:
    checked = ask(MessageAck(Position(*position)), MessageAck(Position(8, 2)), MessageAck(Position(5, 9)))
    assert checked.whole == {8: [2], 5: [9]}
    assert checked.refused.startswith(f"entry {position[0]}:{position[1]} does not exist: the topic ends at 8:4")
    assert ask(MessageAck(Position(*position), [1])).partial == {}


@pytest.mark.parametrize("position", [(3, 7), (7, 0)])  # by retention; among others, because everybody had acknowledged it
def test_dropped_entries_were_acknowledged(position: tuple[int, int]) -> None:
    assert ask(MessageAck(Position(*position))) == ({}, {}, [], "")
    assert ask(MessageAck(Position(*position), [1])) == ({}, {}, [], ""), "nor is a part of it refused"
    cursor = Cursor()
    cursor.acknowledge_up_to(Position(5, 9), CHAIN)
    up_to = check_cumulative(MessageAck(Position(*position)), CHAIN, cursor, SIZES.get)
    assert isinstance(up_to, CumulativeAck)
    cursor.acknowledge_up_to(up_to.position, CHAIN)
    assert not cursor.acknowledged(Position(8, 0))


def test_an_ack_set_is_held_against_its_batch() -> None:
    assert ask(MessageAck(BATCH, [FULL - 1, 0b111111])).partial == {BATCH: [FULL - 1, 0b111111]}
    for words in ([FULL, 1 << 6], [FULL, 1, 1], [FULL, 1, 0], [0] * 15_625):
        checked = ask(MessageAck(BATCH, words))
        assert (checked.whole, checked.partial) == ({}, {})
        assert checked.refused == f"the ack set of entry 8:1 has {len(words)} words; its batch has 70 messages"


def test_an_ack_set_that_leaves_everything_open_changes_nothing() -> None:
    assert ask(MessageAck(BATCH, all_open(70))) == ({}, {}, [], "")


def test_an_ack_set_that_leaves_nothing_open_is_the_whole_entry() -> None:
    assert ask(MessageAck(BATCH, [0, 0])).whole == {8: [1]}
    assert ask(MessageAck(WHOLE, [0])).whole == {8: [0]}


def test_signed_words_are_those_of_the_wire() -> None:
    assert ask(MessageAck(BATCH, [-2, 0b111111])).partial == {BATCH: [FULL - 1, 0b111111]}


def test_several_ack_sets_of_one_batch_come_together() -> None:
    checked = ask(MessageAck(BATCH, [FULL - 1, 0b111111]), MessageAck(BATCH, [FULL - 2, 0b111110]))
    assert checked.partial == {BATCH: [FULL - 3, 0b111110]}
    checked = ask(MessageAck(BATCH, [1]), MessageAck(BATCH, [2]))
    assert (checked.whole, checked.partial) == ({8: [1]}, {})


def test_a_batch_of_unknown_size_is_to_be_read_first() -> None:
    checked = ask(MessageAck(Position(8, 3), [1]), MessageAck(Position(8, 4)))
    assert checked.unknown == [MessageAck(Position(8, 3), [1])]
    assert checked.whole == {8: [4]}


def test_the_acknowledged_part_of_a_batch_says_how_many_words_it_may_have() -> None:
    cursor = Cursor()
    cursor.acknowledge_batch(Position(8, 3), [0b1110], CHAIN)
    assert ask(MessageAck(Position(8, 3), [0b1100]), cursor=cursor).partial == {Position(8, 3): [0b1100]}
    assert ask(MessageAck(Position(8, 3), [1, 1]), cursor=cursor).refused


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ((8, 4), CumulativeAck(Position(8, 4))),
        ((5, 0), CumulativeAck(Position(5, 0))),
        ((3, 99), CumulativeAck(Position(3, 99))),  # dropped: nothing is left to acknowledge there
        ((8, -1), CumulativeAck(Position(5, 9))),  # what clients name for "before the first entry of ledger 8"
        ((5, -1), CumulativeAck(EARLIEST)),
        ((-1, -1), None),
        ((8, 5), None),
        ((7, -1), CumulativeAck(Position(7, -1))),  # dropped, too
        ((9, 0), None),
        ((2**63 - 1, 2**63 - 1), None),
    ],
)
def test_a_cumulative_acknowledgement_ends_at_an_entry_that_exists(
    position: tuple[int, int], expected: CumulativeAck | None
) -> None:
    checked = check_cumulative(MessageAck(Position(*position)), CHAIN, Cursor(), SIZES.get)
    assert checked == expected if expected is not None else isinstance(checked, str)


def test_a_cumulative_acknowledgement_within_a_batch() -> None:
    checked = check_cumulative(MessageAck(BATCH, [FULL - 1, 63]), CHAIN, Cursor(), SIZES.get)
    assert checked == CumulativeAck(WHOLE, BATCH, [FULL - 1, 63])
    assert isinstance(check_cumulative(MessageAck(BATCH, [1] * 3), CHAIN, Cursor(), SIZES.get), str)
    assert check_cumulative(MessageAck(Position(8, 3), [1]), CHAIN, Cursor(), SIZES.get) is None


NUMBERS = st.one_of(st.integers(-2, 12), st.sampled_from([2**31, 2**32, 2**53, 2**63, 2**64 - 1, 2**64 - 2]))


@given(NUMBERS, NUMBERS, st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4))
def test_nothing_beyond_what_exists_is_acknowledged_whatever_is_named(ledger: int, entry: int, words: list[int]) -> None:
    asked = MessageAck(Position(signed(ledger % 2**64), signed(entry % 2**64)), words)
    checked = ask(asked)
    for ledger_id, entries in checked.whole.items():
        assert all(CHAIN.holds(Position(ledger_id, entry)) for entry in entries)
    for position, left in checked.partial.items():
        assert CHAIN.holds(position) and len(left) <= len(all_open(SIZES[position]))
    up_to = check_cumulative(MessageAck(asked.position, words), CHAIN, Cursor(), SIZES.get)
    if isinstance(up_to, CumulativeAck):
        assert up_to.position == EARLIEST or CHAIN.holds(up_to.position) or CHAIN.dropped(up_to.position.ledger_id)
