"""How often entries were asked for again: the same as a number for each of them, in a few bits."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from messaging.broker.core.cursors.cursor_memory import CursorMemory, memory_bytes
from messaging.broker.core.dispatch.redelivery_counts import RedeliveryCounts
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.worlds.subscription_world import World, counted, received

LEDGERS = st.integers(1, 3)
ENTRIES = st.frozensets(st.integers(0, 20), max_size=8)
WHAT = st.sampled_from(["raise", "raise", "raise", "forget", "range", "up to"])
CHANGES = st.lists(st.tuples(WHAT, LEDGERS, ENTRIES), max_size=40)


@given(CHANGES, st.integers(0, 5))
def test_counts_are_those_of_a_number_for_each_entry(changes: list[tuple[str, int, frozenset[int]]], limit: int) -> None:
    counts, model = RedeliveryCounts(), Counter[Position]()
    for what, ledger_id, entries in changes:
        first, last = min(entries, default=0), max(entries, default=0)
        gone: set[Position] = set()
        if what == "raise":
            counts.raise_by_one(ledger_id, BitMap(entries))
            model.update(Position(ledger_id, entry) for entry in entries)
        elif what == "forget":
            counts.forget(ledger_id, BitMap(entries))
            gone = {Position(ledger_id, entry) for entry in entries}
        elif what == "range":
            counts.forget_range(ledger_id, first, last)
            gone = {Position(ledger_id, entry) for entry in range(first, last + 1)}
        else:
            counts.forget_up_to(Position(ledger_id, last))
            gone = {position for position in model if position <= Position(ledger_id, last)}
        for position in gone:
            del model[position]
    everything = range(22)
    for ledger_id in range(1, 4):
        wanted = [model[Position(ledger_id, entry)] for entry in everything]
        assert [counts.of(Position(ledger_id, entry)) for entry in everything] == wanted
        assert (counts.of_each(ledger_id, everything) or [0] * 22) == wanted
        assert set(counts.above(ledger_id, BitMap(everything), limit)) == {entry for entry in everything if wanted[entry] > limit}
    assert bool(counts) == any(model.values())


def test_200_000_counts_take_some_kilobytes_and_are_charged() -> None:
    """Seen: 24 MB a subscription, charged to nobody until something was acknowledged."""
    world = World(unacked_max=1_000_000)
    consumer = world.attach(SubscriptionType.SHARED, permits=200_000)
    for _ in range(100):
        world.publish([1] * 2_000)
    limiter = MemoryLimiter(1 << 30)
    memory = CursorMemory(limiter.cursors)
    world.nack(consumer)
    memory.changed("mob", world.subscription)
    memory.measure()
    assert 0 < limiter.cursors.tenants["mob"] == memory_bytes(world.subscription) < 100_000
    world.subscription.acknowledge_up_to(world.ledger_list.last, 0)
    memory.changed("mob", world.subscription)
    memory.measure()
    assert not limiter.cursors.tenants


def test_held_entries_are_charged_up_to_a_share_that_leaves_room_for_acknowledging_them() -> None:
    """Batches took 200 bytes each, any number of them, and were charged to nobody."""
    limiter = MemoryLimiter(64 << 20)
    account, memory, world = limiter.cursors, CursorMemory(limiter.cursors), World(unacked_max=1_000_000)
    consumer = world.attach(SubscriptionType.SHARED, permits=1_000_000)

    def charged() -> int:
        memory.changed("mob", world.subscription)
        memory.measure()
        return account.tenants.get("mob", 0)

    world.publish([1] * 2_000)
    assert 0 < charged() < 10_000
    world.publish([2] * 2_000)
    assert 200 * 2_000 < charged() < 250 * 2_000
    for _ in range(10):
        world.publish([2] * 2_000)
    assert consumer.held_bytes > charged() == account.limit_bytes // 4
    assert account.allows("mob", 1 << 20), "it can still acknowledge a part of them"
    world.subscription.acknowledge_up_to(world.ledger_list.last, 0)
    assert charged() == 0


def test_without_memory_for_counts_what_is_rejected_comes_again_with_the_count_that_it_had() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=10)
    positions = world.publish([1] * 3)
    world.nack(consumer, positions[0])
    received(consumer)
    redeliveries = world.subscription.state.redeliveries
    redeliveries.may_keep = lambda size: False
    world.nack(consumer)
    assert counted(consumer) == [(positions[0], 1), (positions[1], 0), (positions[2], 0)]
    assert redeliveries.uncounted == 3


@pytest.mark.parametrize("count_max", [0, 1, 6, 7, 8, 200])
def test_dead_entries_are_found_whatever_the_limit(count_max: int) -> None:
    counts = RedeliveryCounts()
    for entry in range(10):
        for _ in range(entry):
            counts.raise_by_one(1, BitMap([entry]))
    assert set(counts.above(1, BitMap(range(12)), count_max)) == set(range(count_max + 1, 10))
