"""Ledgers that nobody needs are deleted although an older one is needed, against a model: the set of what is not acknowledged."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.maintenance.reclaim import consumed, forget_gone, has_all_of
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.managed.ledger_list import LedgerList
from messaging.storage.managed.retention import NOTHING, Retention, droppable
from messaging.storage.meta_store import LedgerRecord
from tests.support.examples import examples

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def records(sizes: list[int], *, open_last: bool = True) -> list[LedgerRecord]:
    """Ledgers 2, 4, 6... with so many entries each."""
    ends = [size - 1 for size in sizes]
    last = len(ends) - 1
    return [
        LedgerRecord(2 * index + 2, None if open_last and index == last else end, length_bytes=10, sealed_ms=1_000 * index)
        for index, end in enumerate(ends)
    ]


def list_of(sizes: list[int]) -> LedgerList:
    return LedgerList([(2 * index + 2, size - 1) for index, size in enumerate(sizes)])


def existing(ledger_list: LedgerList) -> list[Position]:
    return [
        Position(ledger_id, entry)
        for ledger_id, last in zip(ledger_list.ids, ledger_list.lasts, strict=True)
        for entry in range(last + 1)
    ]


def left_of(cursor: Cursor, ledger_list: LedgerList) -> list[Position]:
    """By walking over the list, as reading does."""
    positions, at = [], ledger_list.next_after(cursor.mark_delete)
    while ledger_list.holds(at):
        if not cursor.acknowledged(at):
            positions.append(at)
        at = ledger_list.next_after(at)
    return positions


@settings(max_examples=examples(300))
@given(st.data(), SIZES)
def test_unacknowledged_entries_stay_the_same(data: st.DataObject, sizes: list[int]) -> None:
    ledger_list, ledgers, cursor = list_of(sizes), records(sizes), Cursor(EARLIEST)
    left, deltas, snapshot = set(existing(ledger_list)), [], cursor.snapshot()
    for _ in range(data.draw(st.integers(1, 25))):
        step = data.draw(st.sampled_from(["ack", "ack", "ack", "up_to", "reclaim", "snapshot", "crash", "seek"]))
        positions = existing(ledger_list)
        at = data.draw(st.sampled_from(positions))
        if step == "ack":
            deltas.append(cursor.acknowledge(at.ledger_id, [at.entry_id], ledger_list))
            left.discard(at)
        elif step == "up_to":
            deltas.append(cursor.acknowledge_up_to(at, ledger_list))
            left -= {position for position in left if position <= at}
        elif step == "seek":
            deltas.append(cursor.reset(at, ledger_list))
            left = {position for position in positions if position > at}
        elif step == "reclaim":
            some = consumed(ledgers, [cursor], ledger_list.last)
            before = cursor.mark_delete
            for ledger in droppable(ledgers, before, NOTHING, some):
                assert ledger.last_entry is not None and not any(position.ledger_id == ledger.ledger_id for position in left)
                ledgers.remove(ledger)
                ledger_list.drop(ledger.ledger_id)
            forget_gone(cursor, ledger_list)
        elif step == "snapshot":
            snapshot, deltas = cursor.snapshot(), []
        else:
            cursor = Cursor.restore(EARLIEST, snapshot)
            for delta in deltas:
                if delta:
                    cursor.apply(delta, ledger_list)
            forget_gone(cursor, ledger_list)
        assert left_of(cursor, ledger_list) == sorted(left)
        assert cursor.backlog_entries(ledger_list) == len(left)


def test_a_ledger_is_needed_as_long_as_one_subscription_has_not_acknowledged_all_of_it() -> None:
    sizes = [2, 2, 2, 2]
    ledgers, ledger_list = records(sizes), list_of(sizes)
    first, second = Cursor(), Cursor()
    for cursor in (first, second):
        cursor.acknowledge(4, [0, 1], ledger_list)
    first.acknowledge(6, [0, 1], ledger_list)
    second.acknowledge(6, [1], ledger_list)
    assert consumed(ledgers, [first], ledger_list.last) == {4, 6}
    assert consumed(ledgers, [first, second], ledger_list.last) == {4}
    assert consumed(ledgers, [first], Position(4, 0)) == set()
    assert consumed(ledgers, [], ledger_list.last) == set()
    assert not has_all_of(first, 2, 1) and not has_all_of(first, 8, 1)


def test_retention_keeps_the_newest_of_what_is_acknowledged() -> None:
    ledgers = records([2, 2, 2, 2], open_last=False)
    assert [ledger.ledger_id for ledger in droppable(ledgers, EARLIEST, Retention(0, 10), {4, 6, 8})] == [4, 6]
    assert [ledger.ledger_id for ledger in droppable(ledgers, EARLIEST, Retention(1_500, -1), {4, 6, 8})] == [4]
    assert droppable(ledgers, EARLIEST, NOTHING) == []


def test_an_acknowledgement_in_a_ledger_that_is_gone_counts_only_for_what_comes_before_it() -> None:
    ledger_list, cursor = list_of([2, 2, 2]), Cursor()
    cursor.acknowledge(4, [0, 1], ledger_list)
    ledger_list.drop(4)
    assert forget_gone(cursor, ledger_list) and not forget_gone(cursor, ledger_list)
    assert cursor.acknowledge(4, [0], ledger_list) == cursor.acknowledge_range(4, 0, 1, ledger_list) == b""
    assert cursor.acknowledge_up_to(Position(4, 1), ledger_list)
    assert cursor.mark_delete == Position(2, 1) and cursor.backlog_entries(ledger_list) == 2
    assert ledger_list.dropped(4) and not ledger_list.dropped(6) and not ledger_list.dropped(7)
