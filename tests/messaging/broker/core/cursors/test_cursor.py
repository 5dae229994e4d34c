"""The cursor against a model that keeps every acknowledged position in a set; and its storage form against itself."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.cursors.cursor_deltas import Delta
from messaging.limits.sizes import ACK_SET_WORDS_MAX
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList

INDEX = st.integers(0, 400)


class CursorMachine(RuleBasedStateMachine):
    """Deltas are kept as the cursor log keeps them; a copy that repeats them must come out the same."""

    @initialize(first=st.integers(1, 3))
    def begin(self, first: int) -> None:
        self.ledger_list = LedgerList([(first, -1)])
        self.cursor = Cursor()
        self.acked: set[Position] = set()
        self.open_bits: dict[Position, int] = {}
        self.deltas: list[bytes] = []
        self.base = (0, self.cursor.snapshot())  # a snapshot, and how many deltas it has in it

    def positions(self) -> list[Position]:
        return [
            Position(ledger, entry)
            for ledger, last in zip(self.ledger_list.ids, self.ledger_list.lasts, strict=True)
            for entry in range(last + 1)
        ]

    def took(self, delta: bytes) -> None:
        if delta:
            self.deltas.append(delta)

    @rule(count=st.integers(1, 12))
    def confirm(self, count: int) -> None:
        self.ledger_list.confirm(self.ledger_list.ids[-1], self.ledger_list.lasts[-1] + count)

    @rule(gap=st.integers(1, 3))
    def roll(self, gap: int) -> None:
        self.ledger_list.add(self.ledger_list.ids[-1] + gap)

    @rule(indexes=st.lists(INDEX, min_size=1, max_size=12), extra=st.lists(st.integers(-1, 2**33), max_size=2))
    def acknowledge(self, indexes: list[int], extra: list[int]) -> None:
        """Any entries of one ledger, in any order, twice, and some that do not exist."""
        exist = self.positions()
        if not exist:
            return
        ledger_id = exist[indexes[0] % len(exist)].ledger_id
        own = [position for position in exist if position.ledger_id == ledger_id]
        chosen = [own[index % len(own)] for index in indexes]
        before = set(self.acked)
        delta = self.cursor.acknowledge(
            ledger_id, [position.entry_id for position in chosen] + [x for x in extra if x > len(own)], self.ledger_list
        )
        self.acked.update(chosen)
        for position in chosen:
            self.open_bits.pop(position, None)
        assert bool(delta) == (self.acked != before)
        self.took(delta)

    @rule(index=INDEX)
    def acknowledge_in_a_run(self, index: int) -> None:
        exist = self.positions()
        left = [position for position in exist if position not in self.acked]
        if left:
            start = left[0]
            run = [position for position in exist if position.ledger_id == start.ledger_id and position >= start][: index % 30 + 1]
            self.took(self.cursor.acknowledge(start.ledger_id, [position.entry_id for position in run], self.ledger_list))
            self.acked.update(run)
            for position in run:
                self.open_bits.pop(position, None)

    @rule(index=INDEX, beyond=st.booleans())
    def acknowledge_up_to(self, index: int, beyond: bool) -> None:
        exist = self.positions()
        if not exist:
            return
        to = Position(self.ledger_list.last_id + 5, 3) if beyond else exist[index % len(exist)]
        self.took(self.cursor.acknowledge_up_to(to, self.ledger_list))
        if not beyond:  # what does not exist acknowledges nothing
            self.acked.update(position for position in exist if position <= to)
        self.open_bits = {position: bits for position, bits in self.open_bits.items() if position not in self.acked}

    @rule(index=INDEX)
    def acknowledge_up_to_a_ledger_that_is_gone(self, index: int) -> None:
        """Everything before it: its id lies between those of two ledgers that are there."""
        gone = [
            between for between in range(self.ledger_list.first_id, self.ledger_list.last_id) if self.ledger_list.dropped(between)
        ]
        if gone:
            to = Position(gone[index % len(gone)], 3)
            self.took(self.cursor.acknowledge_up_to(to, self.ledger_list))
            self.acked.update(position for position in self.positions() if position <= to)
            self.open_bits = {position: bits for position, bits in self.open_bits.items() if position not in self.acked}

    @rule(index=INDEX, words=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3), signed=st.booleans())
    def acknowledge_batch(self, index: int, words: list[int], signed: bool) -> None:
        exist = self.positions()
        if not exist:
            return
        position = exist[index % len(exist)]
        bits = sum(word << 64 * place for place, word in enumerate(words))
        given = [word - (1 << 64) if signed and word >> 63 else word for word in words]  # the wire has them signed
        delta, whole = self.cursor.acknowledge_batch(position, given, self.ledger_list)
        self.took(delta)
        if position not in self.acked:
            left = self.open_bits.get(position)
            left = bits if left is None else left & bits
            if left:
                self.open_bits[position] = left
            else:
                self.open_bits.pop(position, None)
                self.acked.add(position)
        assert whole == (position in self.acked)

    @rule(index=INDEX, to_earliest=st.booleans())
    def reset(self, index: int, to_earliest: bool) -> None:
        exist = self.positions()
        mark = EARLIEST if to_earliest or not exist else exist[index % len(exist)]
        self.took(self.cursor.reset(mark, self.ledger_list))
        self.acked = {position for position in exist if position <= mark}
        self.open_bits.clear()

    @precondition(lambda self: len(self.ledger_list.ids) > 1)
    @rule()
    def trim(self) -> None:
        """Only ledgers that are acknowledged whole are dropped."""
        first = self.ledger_list.ids[0]
        if all(
            position in self.acked for position in self.positions() if position.ledger_id == first
        ) and self.cursor.mark_delete >= Position(first, self.ledger_list.lasts[0]):
            self.ledger_list.drop_first()
            self.acked = {position for position in self.acked if position.ledger_id != first}

    @rule()
    def snapshot(self) -> None:
        self.base = (len(self.deltas), self.cursor.snapshot())

    @rule(early=st.integers(0, 8))
    def recover(self, early: int) -> None:
        """A copy from the last snapshot and the deltas since; the replay may begin early and may happen twice."""
        done, state = self.base
        copy = Cursor.restore(EARLIEST, state)
        for delta in self.deltas[max(0, done - early) :]:
            copy.apply(delta, self.ledger_list)
        self.same(copy)
        again = Cursor.restore(EARLIEST, copy.snapshot())
        self.same(again)

    def same(self, copy: Cursor) -> None:
        for position in self.positions():
            assert copy.acknowledged(position) == (position in self.acked)
        assert {position: bits_of(list(words)) for position, words in copy.batches.items()} == self.open_bits
        assert copy.backlog_entries(self.ledger_list) == len(self.positions()) - len(self.acked)

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "ledger_list"):
            return
        self.same(self.cursor)
        exist = self.positions()
        following = [position for position in exist if position > self.cursor.mark_delete]
        assert not following or following[0] not in self.acked, "mark-delete lags"
        for ledger_id, last in zip(self.ledger_list.ids, self.ledger_list.lasts, strict=True):
            unacked = [entry for first, stop in self.cursor.unacked_ranges(ledger_id, 0, last) for entry in range(first, stop + 1)]
            assert unacked == [entry for entry in range(last + 1) if Position(ledger_id, entry) not in self.acked]
            part = [entry for first, stop in self.cursor.unacked_ranges(ledger_id, 2, last - 1) for entry in range(first, stop + 1)]
            assert part == [entry for entry in unacked if 2 <= entry <= last - 1]
            assert self.cursor.unacked_count(ledger_id, 0, last) == len(unacked)
            assert self.cursor.unacked_count(ledger_id, 2, last - 1) == len(part)

    @invariant()
    def keeps_nothing_behind_the_mark(self) -> None:
        if hasattr(self, "cursor"):
            mark = self.cursor.mark_delete
            assert all(Position(ledger, entry) > mark for ledger, bitmap in self.cursor.individual_acks.items() for entry in bitmap)
            assert all(self.cursor.individual_acks.values())
            assert all(position > mark for position, _ in self.cursor.batches.items())


TestCursorAgainstAModel = CursorMachine.TestCase


def bits_of(words: list[int]) -> int:
    return sum(word << 64 * place for place, word in enumerate(words))


def test_a_million_individual_acks_fit_in_a_megabyte() -> None:
    """Every second entry of two million: the worst that bitmaps can be given."""
    ledger_list = LedgerList([(1, 2_000_001)])
    cursor = Cursor()
    assert cursor.acknowledge(1, range(1, 2_000_001, 2), ledger_list)
    assert cursor.mark_delete == EARLIEST
    state = cursor.snapshot()
    assert len(state) <= 1 << 20
    copy = Cursor.restore(EARLIEST, state)
    assert copy.backlog_entries(ledger_list) == 1_000_002
    assert copy.acknowledged(Position(1, 1_999_999))
    assert not copy.acknowledged(Position(1, 2_000_000))


def test_a_million_individual_acks_at_random_fit_in_a_megabyte() -> None:
    ledger_list = LedgerList([(1, 9_999_999)])
    cursor = Cursor()
    chosen = random.Random(1).sample(range(1, 10_000_000), 1_000_000)
    cursor.acknowledge(1, chosen, ledger_list)
    # A tenth of the entries, spread without a pattern: two bytes each is what a bitmap needs at most.
    assert len(cursor.snapshot()) <= 2 << 20
    assert Cursor.restore(EARLIEST, cursor.snapshot()).backlog_entries(ledger_list) == 9_000_000


def test_filling_the_last_hole_moves_the_mark_over_all() -> None:
    ledger_list = LedgerList([(1, 99_999), (2, 9)])
    cursor = Cursor()
    cursor.acknowledge(2, range(10), ledger_list)
    cursor.acknowledge(1, range(1, 100_000), ledger_list)
    assert cursor.mark_delete == EARLIEST
    cursor.acknowledge(1, [0], ledger_list)
    assert cursor.mark_delete == Position(2, 9)
    assert cursor.individual_acks == {}


@pytest.mark.parametrize("count", [256, 300, ACK_SET_WORDS_MAX])
def test_ack_sets_of_large_batches_can_be_stored(count: int) -> None:
    """A snapshot once had room for 255 words: one client's 256th kept every cursor of the broker from being saved."""
    ledger_list = LedgerList([(1, 9)])
    cursor = Cursor()
    delta, whole = cursor.acknowledge_batch(Position(1, 4), [2**64 - 1] * count, ledger_list)
    assert delta
    assert not whole
    copy = Cursor.restore(EARLIEST, cursor.snapshot())
    assert dict(copy.batches.items()) == dict(cursor.batches.items())


def test_an_ack_set_larger_than_any_batch_is_passed_over() -> None:
    cursor = Cursor()
    assert cursor.acknowledge_batch(Position(1, 4), [1] * (ACK_SET_WORDS_MAX + 1), LedgerList([(1, 9)])) == (b"", False)
    assert not cursor.batches


def test_an_ack_set_for_what_does_not_exist_is_passed_over() -> None:
    cursor = Cursor()
    for position in (Position(1, 10), Position(2, 0), Position(2**64 - 1, 2**64 - 1), Position(0, 0)):
        assert cursor.acknowledge_batch(position, [1], LedgerList([(1, 9)])) == (b"", False)
        assert cursor.acknowledge_batch(position, [0], LedgerList([(1, 9)])) == (b"", False)


def test_pulsars_example_of_an_ack_set() -> None:
    """A batch of ten of which message 2 is acknowledged: 1019."""
    cursor = Cursor()
    cursor.acknowledge_batch(Position(1, 0), [0b1111111011], LedgerList([(1, 0)]))
    assert dict(cursor.batches.items()) == {Position(1, 0): (1019,)}


def test_shorter_ack_sets_end_in_acknowledged_messages() -> None:
    """Java leaves out words that are zero."""
    ledger_list = LedgerList([(1, 0)])
    cursor = Cursor()
    cursor.acknowledge_batch(Position(1, 0), [1, 1], ledger_list)
    cursor.acknowledge_batch(Position(1, 0), [3], ledger_list)
    assert cursor.batches.bits(Position(1, 0)) == 1


@pytest.mark.parametrize("state", [b"\x02" + bytes(16), b"\x00" + bytes(16)])
def test_a_snapshot_of_another_version_is_refused(state: bytes) -> None:
    with pytest.raises(ValueError, match="version"):
        Cursor.restore(EARLIEST, state)


def test_a_snapshot_that_is_cut_short_is_refused() -> None:
    cursor = Cursor()
    cursor.acknowledge(1, [3, 5], LedgerList([(1, 9)]))
    cursor.acknowledge_batch(Position(1, 7), [1], LedgerList([(1, 9)]))
    state = cursor.snapshot()
    for size in range(1, len(state)):
        with pytest.raises(ValueError):
            Cursor.restore(EARLIEST, state[:size])


def test_without_a_snapshot_the_mark_counts() -> None:
    assert Cursor.restore(Position(3, 4), b"").mark_delete == Position(3, 4)


@pytest.mark.parametrize("delta", [b"\x09", b"", bytes((Delta.UP_TO,)), bytes((Delta.BATCH,)) + struct.pack(">q", 1)])
def test_a_delta_that_is_none_is_refused(delta: bytes) -> None:
    with pytest.raises(ValueError):
        Cursor().apply(delta, LedgerList([(1, 9)]))
