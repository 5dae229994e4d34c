"""What an acknowledgement, a question or a delivery costs does not depend on how much was acknowledged. Steps are counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from pyroaring import BitMap

from messaging.broker.core import bitmaps
from messaging.broker.core.cursors.ack_sets import AckSets
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList
from tests.support.worlds.subscription_world import World

MANY = 20_000


class Unwalked(dict[Any, Any]):
    """A dictionary that nobody walks through."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("somebody walks through all of it")

    def items(self) -> Any:
        raise AssertionError("somebody walks through all of it")

    keys = values = items


def with_partial_batches(count: int) -> tuple[Cursor, LedgerList]:
    """Entries 1 to `count` have one of two messages acknowledged; entry 0 is open."""
    ledger_list = LedgerList([(1, 2 * count)])
    cursor = Cursor()
    cursor.batches = AckSets(Unwalked())
    for entry_id in range(1, count + 1):
        cursor.acknowledge_batch(Position(1, entry_id), [2], ledger_list)
    return cursor, ledger_list


def test_beside_many_partial_batches_an_acknowledgement_looks_at_its_own() -> None:
    """Seen: 0.6 to 2 ms each beside 10,000 to 50,000 of them, because each walked through all."""
    cursor, ledger_list = with_partial_batches(MANY)
    assert cursor.acknowledge(1, [MANY + 5], ledger_list)
    assert cursor.acknowledge_batch(Position(1, 77), [1], ledger_list) == (cursor_delta(77), True)
    assert cursor.acknowledge_batch(Position(1, MANY + 7), [2], ledger_list)[0]
    assert cursor.acknowledge(1, [0], ledger_list), "mark-delete moves over nothing that is open"
    assert cursor.acknowledge_up_to(Position(1, 2), ledger_list)
    assert len(cursor.batches) == MANY - 2
    assert cursor.batches.entries_in(1, 1, 4) == [3, 4]
    assert cursor.backlog_entries(ledger_list) == 2 * MANY + 1 - 3 - 2


def cursor_delta(entry_id: int) -> bytes:
    return Cursor().acknowledge(1, [entry_id], LedgerList([(1, entry_id)]))


def test_entries_that_mark_delete_moves_over_are_forgotten_and_no_more_are_looked_at() -> None:
    cursor, ledger_list = with_partial_batches(MANY)
    kept = cursor.batches.memory_bytes
    cursor.acknowledge_up_to(Position(1, MANY // 2), ledger_list)
    assert len(cursor.batches) == MANY // 2
    assert cursor.batches.memory_bytes == kept // 2
    cursor.acknowledge_up_to(Position(1, MANY), ledger_list)
    assert not cursor.batches and not cursor.batches.memory_bytes and not cursor.batches.entries_in(1, 0, 2 * MANY)


def test_individual_acks_of_other_ledgers_are_not_looked_at() -> None:
    ledger_list = LedgerList([(ledger_id, 9) for ledger_id in range(1, 2_000)])
    cursor = Cursor()
    for ledger_id in range(2, 2_000):
        cursor.acknowledge(ledger_id, [5], ledger_list)
    assert cursor.acknowledge(1, [0], ledger_list), "into another ledger: a step for each, once"
    cursor.individual_acks = Unwalked(cursor.individual_acks)
    assert cursor.acknowledge(1, [1, 3], ledger_list) and cursor.acknowledge(7, [1, 2], ledger_list)
    assert cursor.backlog_entries(ledger_list) == 10 * 1_999 - 1_998 - 5


def test_a_run_of_a_million_entries_is_one_step_and_one_small_delta() -> None:
    """Expiry of a block, or damage, was a list of its entries."""
    ledger_list = LedgerList([(1, 2_000_000)])
    cursor = Cursor()
    delta = cursor.acknowledge_range(1, 5, 1_000_004, ledger_list)
    assert len(delta) == 25 and cursor.individual_ack_count == 1_000_000
    copy = Cursor()
    copy.apply(delta, ledger_list)
    assert copy.snapshot() == cursor.snapshot()


def test_ranges_are_counted_without_walking_and_listed_as_far_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: 124 ms of the loop for the stats of a million ranges."""
    ledger_list = LedgerList([(1, 400_000)])
    cursor = Cursor()
    cursor.acknowledge(1, range(1, 400_000, 2), ledger_list)
    long = BitMap(value for value in range(64_000) if value % 64 < 32)
    steps = 0
    measured = bitmaps.run_length

    def counting(*given: Any) -> int:
        nonlocal steps
        steps += 1
        return measured(*given)

    monkeypatch.setattr(bitmaps, "run_length", counting)
    assert bitmaps.count_ranges(cursor.individual_acks[1]) == 200_000
    assert steps == 0
    assert list(islice(bitmaps.ranges_of(cursor.individual_acks[1]), 3)) == [(1, 1), (3, 3), (5, 5)]
    assert steps == 0, "short ones are walked"
    assert list(islice(bitmaps.ranges_of(long), 3)) == [(0, 31), (64, 95), (128, 159)]
    assert steps == 3


@pytest.mark.parametrize("values", [[], [0], [5], [0, 1, 2, 7], [2**32 - 1], [2**32 - 2, 2**32 - 1], [65_535, 65_536, 131_072]])
def test_runs_at_every_edge(values: list[int]) -> None:
    bitmap = BitMap(values)
    ranges = list(bitmaps.ranges_of(bitmap))
    assert [value for first, last in ranges for value in range(first, last + 1)] == values
    assert bitmaps.count_ranges(bitmap) == len(ranges)


def test_a_delivery_beside_many_partial_batches_looks_at_its_own() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED)
    world.publish([2] * MANY)
    world.subscription.cursor.batches = AckSets(Unwalked())
    for entry_id in range(1, MANY):
        world.subscription.cursor.acknowledge_batch(Position(1, entry_id), [2], world.ledger_list)
    world.flow(consumer, 10)
    assert consumer.unacked_messages == 10
