"""Named scenarios of the dispatch strategies: Shared, Exclusive, Failover, and changing from one to another."""

from __future__ import annotations

import pytest

from messaging.broker.core.dispatch.shared import SHARE_MESSAGES_MAX
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.worlds.subscription_world import World, counted, received, told


def test_shared_consumers_take_turns() -> None:
    world = World()
    consumers = [world.attach(SubscriptionType.SHARED, permits=1000) for _ in range(3)]
    entries = world.publish([1] * (6 * SHARE_MESSAGES_MAX))
    shares = [received(consumer) for consumer in consumers]
    assert [len(share) for share in shares] == [2 * SHARE_MESSAGES_MAX] * 3
    assert sorted(position for share in shares for position in share) == entries


def test_the_lower_priority_level_is_served_first() -> None:
    world = World()
    second, first = (
        world.attach(SubscriptionType.SHARED, permits=100, priority=1),
        world.attach(SubscriptionType.SHARED, permits=30, priority=0),
    )
    entries = world.publish([1] * 50)
    assert received(first) == entries[:30]
    assert received(second) == entries[30:]


def test_a_disconnect_hands_on_without_counting() -> None:
    world = World()
    gone, stays = world.attach(SubscriptionType.SHARED, permits=10), world.attach(SubscriptionType.SHARED)
    entries = world.publish([1] * 5)
    assert received(gone) == entries
    world.ack(gone, entries[2])
    world.flow(stays, 100)
    world.detach(gone)
    assert counted(stays) == [(entry, 0) for entry in entries if entry != entries[2]]


def test_redeliveries_go_before_new_entries() -> None:
    world = World()
    gone, stays = world.attach(SubscriptionType.SHARED, permits=5), world.attach(SubscriptionType.SHARED)
    entries = world.publish([1] * 10)
    world.detach(gone)
    world.flow(stays, 7)
    assert received(stays) == entries[:7]


def test_a_negative_acknowledgement_raises_the_count_each_time() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    entries = world.publish([1] * 3)
    received(consumer)
    for count in (1, 2, 3):
        world.nack(consumer, entries[1])
        assert counted(consumer) == [(entries[1], count)]
    world.nack(consumer)
    assert counted(consumer) == [(entries[0], 1), (entries[1], 4), (entries[2], 1)]


def test_only_what_is_held_is_sent_again() -> None:
    world = World()
    consumer, other = world.attach(SubscriptionType.SHARED, permits=2), world.attach(SubscriptionType.SHARED, permits=2)
    entries = world.publish([1] * 4)
    received(consumer), received(other)
    world.flow(consumer, 100)
    world.ack(consumer, entries[0])
    world.nack(consumer, entries[0], entries[2], entries[3], Position(9, 9))
    assert received(consumer) == []


@pytest.mark.parametrize("entry_id", [2**32, 2**63 - 1, 2**64 - 1])
def test_ids_that_cannot_be_do_no_harm(entry_id: int) -> None:
    """Once an overflow in the bitmap, which ended the connection with a traceback."""
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    entries = world.publish([1] * 3)
    received(consumer)
    world.nack(consumer, Position(1, entry_id), entries[1])
    assert counted(consumer) == [(entries[1], 1)]
    world.ack(consumer, Position(1, entry_id), Position(entry_id, 0))
    world.subscription.acknowledge_batch(consumer, Position(entry_id, entry_id), [1], 0)
    assert world.subscription.backlog_entries == 3


def test_an_acknowledgement_by_another_consumer_counts() -> None:
    world = World()
    holder, other = world.attach(SubscriptionType.SHARED, permits=100), world.attach(SubscriptionType.SHARED)
    entries = world.publish([3] * 2)
    world.ack(other, *entries)
    assert holder.unacked_messages == 0
    world.flow(other, 100)
    world.detach(holder)
    assert received(other) == []


def test_acknowledged_while_waiting_to_be_sent_again() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, permits=3)
    entries = world.publish([1] * 3)
    received(consumer)
    world.nack(consumer)
    world.ack(consumer, entries[1])
    world.flow(consumer, 100)
    assert received(consumer) == [entries[0], entries[2]]


def test_redelivery_of_exclusive_starts_behind_the_mark_and_counts_nothing() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.EXCLUSIVE, permits=100)
    entries = world.publish([1] * 5)
    received(consumer)
    world.ack(consumer, entries[0], entries[2])
    world.nack(consumer)
    assert counted(consumer) == [(entries[1], 0), (entries[3], 0), (entries[4], 0)]


def test_failover_tells_who_is_active_and_hands_over_from_the_mark() -> None:
    world = World()
    first, second = world.attach(SubscriptionType.FAILOVER, permits=100), world.attach(SubscriptionType.FAILOVER, permits=100)
    assert (told(first), told(second)) == ([True], [False])
    entries = world.publish([1] * 4)
    assert (received(first), received(second)) == (entries, [])
    world.ack(first, entries[0], entries[1])
    world.detach(first)
    assert told(second) == [True]
    assert counted(second) == [(entries[2], 0), (entries[3], 0)]


def test_failover_of_a_partition_spreads_by_name() -> None:
    world = World(partition=1)
    b = world.attach(SubscriptionType.FAILOVER, name="b")
    a = world.attach(SubscriptionType.FAILOVER, name="a")
    c = world.attach(SubscriptionType.FAILOVER, name="c")
    assert world.subscription.active is b
    d = world.attach(SubscriptionType.FAILOVER, name="0")
    assert world.subscription.active is a  # 0, a, b, c
    told(a), told(b), told(c), told(d)
    world.detach(d)  # was not active, and yet the choice is another now
    assert world.subscription.active is b
    assert (told(a), told(b), told(c)) == ([False], [True], [])  # of c nothing changed


def test_failover_prefers_the_lower_priority_level() -> None:
    world = World()
    low = world.attach(SubscriptionType.FAILOVER, permits=100, priority=1)
    entries = world.publish([1] * 2)
    assert received(low) == entries
    high = world.attach(SubscriptionType.FAILOVER, permits=100, priority=0)
    assert received(high) == entries
    assert (told(low), told(high)) == ([True, False], [True])


def test_from_shared_to_exclusive_nothing_comes_twice() -> None:
    """What the last Shared consumer held waited to be sent again, and was then also read anew: every message came twice."""
    world = World()
    shared = world.attach(SubscriptionType.SHARED, permits=10)
    entries = world.publish([1] * 6)
    world.ack(shared, entries[1])
    world.detach(shared)
    single = world.attach(SubscriptionType.EXCLUSIVE, permits=100)
    assert received(single) == [entry for entry in entries if entry != entries[1]]


def test_from_exclusive_to_shared_nothing_is_lost() -> None:
    world = World()
    single = world.attach(SubscriptionType.EXCLUSIVE, permits=3)
    entries = world.publish([1] * 6)
    world.ack(single, entries[1])
    world.detach(single)
    shared = world.attach(SubscriptionType.SHARED, permits=100)
    assert received(shared) == [entry for entry in entries if entry != entries[1]]
