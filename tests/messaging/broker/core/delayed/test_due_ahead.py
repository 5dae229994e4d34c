"""Delayed messages that are read before they are due."""

from __future__ import annotations

from array import array
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from messaging.broker.core.delayed.due_ahead import FORGOTTEN_MAX, DueAhead
from messaging.broker.core.delayed.due_reads import ENTRIES_MAX, GAP_BYTES, READ_BYTES, take_read
from messaging.broker.core.delayed.gathered_block import GatheredBlock
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position


def block(first: int, count: int, *, batched: bool = False, stored_ms: int = 1000) -> EntryBlock:
    """Entry `n` of ledger 7 is the text of its number."""
    texts = [b"%d" % (first + index) for index in range(count)]
    return EntryBlock(7, first, b"".join(texts), array("I", accumulate(map(len, texts))), stored_ms, count * (2 if batched else 1))


def text_of(block: EntryBlock, index: int) -> int:
    return int(bytes(block.data[block.start_of(index) : block.end_offsets[index]]))


def test_entries_near_each_other_come_with_one_read() -> None:
    near = GAP_BYTES // 100
    entries = {7: BitMap([5, 5 + near, 2 * near + 6])}
    read = take_read(entries, 7, 100)
    assert (read.first, read.last, list(read.wanted)) == (5, 5 + near, [5, 5 + near])
    assert list(take_read(entries, 7, 100).wanted) == [2 * near + 6] and entries == {}


@given(
    st.sets(st.integers(0, 1 << 20) | st.integers((1 << 32) - 100, (1 << 32) - 1), min_size=1, max_size=200),
    st.integers(0, 1 << 24),
)
def test_every_entry_comes_with_one_read_and_no_read_is_too_large(wanted: set[int], entry_bytes: int) -> None:
    texts: list[int] = []
    entries = {7: BitMap(wanted)}
    while entries:
        read = take_read(entries, 7, entry_bytes)
        assert (read.wanted.min(), read.wanted.max()) == (read.first, read.last)
        assert read.last - read.first < ENTRIES_MAX
        assert read.first == read.last or (read.last + 1 - read.first) * entry_bytes <= READ_BYTES
        texts += read.wanted
    assert texts == sorted(wanted)


def test_entries_read_of_a_ledger_are_sent_as_one_block() -> None:
    ahead = DueAhead()
    ahead.want({7: BitMap([3, 12, 19])}, 5_000)
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None and ahead.waits(Position(7, 12), "s") and ahead.waiting == {"s": None}
    ahead.arrived(read, [block(0, 10), block(10, 10, stored_ms=900)], 19)
    assert not ahead.waits(Position(7, 12), "s")
    gathered = ahead.find(Position(7, 3), BitMap([3, 12, 19, 30]))
    assert gathered is not None and list(gathered.ids) == [3, 12, 19] and (gathered.first_entry, gathered.last_entry) == (3, 19)
    assert [text_of(gathered, index) for index in range(3)] == [3, 12, 19] and gathered.broker_time_ms == 900


def test_a_block_ends_before_an_entry_that_is_not_there() -> None:
    ahead = DueAhead()
    ahead.want({7: BitMap([3, 5])}, 5_000)
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None
    ahead.arrived(read, [block(0, 10)], 9)
    gathered = ahead.find(Position(7, 3), BitMap([3, 4, 5]))
    assert gathered is not None and list(gathered.ids) == [3]
    assert ahead.find(Position(7, 4), BitMap([4, 5])) is None and ahead.find(Position(8, 3), BitMap([3])) is None


def test_entries_that_may_have_expired_are_looked_at_one_by_one() -> None:
    ahead = DueAhead()
    ahead.want({7: BitMap([3])}, 5_000)
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None
    ahead.arrived(read, [block(0, 10, stored_ms=1000)], 9)
    assert ahead.find(Position(7, 3), BitMap([3]), 1001) is None
    assert ahead.find(Position(7, 3), BitMap([3]), 1000) is not None


def test_entries_to_be_read_next_are_waited_for_while_something_is_read() -> None:
    ahead = DueAhead(bytes_max=200)
    ahead.want({7: BitMap([3]), 8: BitMap([3])}, 5_000)
    assert not ahead.waits(Position(8, 3), "s")
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None and ahead.waits(Position(8, 3), "s") and not ahead.waits(Position(9, 3), "s")
    ahead.want({7: BitMap([4])}, 5_000)
    second = ahead.next_read(lambda ledger_id: 10)
    assert second is not None
    ahead.arrived(read, [block(0, 10)], 9)
    ahead.arrived(second, [block(0, 10)], 9)
    third = ahead.next_read(lambda ledger_id: 10)
    assert third is None and not ahead.waits(Position(8, 3), "s"), "there is no room for it"


def test_batches_are_left_to_whoever_sends_them() -> None:
    ahead = DueAhead()
    ahead.want({7: BitMap([3])}, 5_000)
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None
    ahead.arrived(read, [block(0, 10, batched=True)], 9)
    assert ahead.find(Position(7, 3), BitMap([3])) is None and not ahead.waits(Position(7, 3), "s") and not ahead.memory_bytes


def test_entries_that_a_read_did_not_reach_are_read_again_and_failed_ones_are_not() -> None:
    ahead = DueAhead()
    ahead.want({7: BitMap([3, 12])}, 5_000)
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None
    ahead.arrived(read, [block(0, 10)], 9)
    again = ahead.next_read(lambda ledger_id: 10)
    assert again is not None and list(again.wanted) == [12] and ahead.reads_under_way == 1
    ahead.failed(again)
    assert ahead.next_read(lambda ledger_id: 10) is None and ahead.reads_under_way == 0


def test_nothing_is_wanted_twice_and_what_is_kept_long_enough_is_forgotten() -> None:
    ahead = DueAhead()
    ahead.want({7: BitMap([3])}, 5_000)
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None
    ahead.want({7: BitMap([3])}, 6_000)
    ahead.arrived(read, [block(0, 10)], 9)
    ahead.want({7: BitMap([3])}, 7_000)
    assert ahead.next_read(lambda ledger_id: 10) is None and ahead.memory_bytes
    ahead.forget(4_999)
    assert ahead.find(Position(7, 3), BitMap([3])) is not None
    ahead.forget(5_000)
    assert ahead.find(Position(7, 3), BitMap([3])) is None and ahead.memory_bytes == 0


def test_very_much_is_forgotten_in_turns_of_a_bounded_number() -> None:
    """100,000 that were due together took 14 ms in one turn."""
    count = 2 * FORGOTTEN_MAX + 10
    ahead = DueAhead()
    ahead.want({7: BitMap(range(count)), 8: BitMap(range(5))}, 5_000)
    while (read := ahead.next_read(lambda ledger_id: 10)) is not None:
        ahead.arrived(read, [block(read.first, read.last + 1 - read.first)], read.last)
    held = [ahead.held_entries]
    while ahead.forget(5_000):
        held.append(ahead.held_entries)
    assert held == [count + 5, count + 5 - FORGOTTEN_MAX, count + 5 - 2 * FORGOTTEN_MAX]
    assert (ahead.held_entries, ahead.memory_bytes) == (0, 0)


def test_entries_forgotten_while_they_were_read_are_not_kept() -> None:
    ahead = DueAhead()
    ahead.want({7: BitMap([3, 4])}, 5_000)
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None
    ahead.clear()
    ahead.arrived(read, [block(0, 10)], 9)
    assert ahead.memory_bytes == 0 and ahead.find(Position(7, 3), BitMap([3])) is None


def test_no_more_is_read_than_there_is_room_for() -> None:
    ahead = DueAhead(bytes_max=100)
    ahead.want({7: BitMap([3]), 8: BitMap([3])}, 5_000)
    read = ahead.next_read(lambda ledger_id: 10)
    assert read is not None
    ahead.arrived(read, [block(0, 10)], 9)
    assert ahead.next_read(lambda ledger_id: 10) is None and not ahead.has_room
    ahead.forget(5_000)
    assert ahead.has_room and ahead.next_read(lambda ledger_id: 10) is None  # that was forgotten, too


def test_entries_of_a_gathered_block_are_told_by_its_ids() -> None:
    block = GatheredBlock(7, array("I", [3, 12, 19]), b"abbccc", array("I", [1, 3, 6]), 5)
    assert block.indexes_in([(0, 12)]) == [0, 1] and block.indexes_in([(3, 3), (13, 19)]) == [0, 2]
    assert (block.last_within(3, 3), block.last_within(3, 5), block.last_within(12, 1)) == (12, 12, 12)
    single = block.single(1)
    assert (single.first_entry, single.last_entry, bytes(single.data), list(single.end_offsets)) == (12, 12, b"bb", [2])
