"""Delayed messages of a topic: scenarios with several subscriptions and types."""

from __future__ import annotations

import pytest

from messaging.broker.core.delayed.topic_delays import DelayPolicy
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import EARLIEST
from tests.support.worlds.delayed_world import START_MS, DelayedWorld, positions, taken

SHARED, EXCLUSIVE = SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE


def test_a_message_waits_until_its_time_while_others_pass() -> None:
    world = DelayedWorld(tick_ms=100, strict=True)
    consumer = world.attach("s", 100)
    late, now, later = world.publish([5_000, None, 9_000])
    (after,) = world.publish([None])
    assert positions(consumer) == [now, after]
    assert world.subscriptions["s"].delayed_entries == 2
    world.pass_(4_999)
    assert taken(consumer) == []
    world.pass_(20)
    ((position, at_ms),) = taken(consumer)
    assert position == late and START_MS + 5_000 <= at_ms <= START_MS + 5_000 + 100 // 16 + 1
    world.pass_(10_000)
    assert positions(consumer) == [later]
    assert world.delays.memory_bytes == 0


def test_without_strict_a_message_may_come_a_tick_before() -> None:
    world = DelayedWorld(tick_ms=1_000)
    consumer = world.attach("s", 100)
    soon, later = world.publish([1_000, 1_001])
    assert positions(consumer) == [soon]
    world.pass_(2_000)
    assert positions(consumer) == [later]


@pytest.mark.parametrize("kind", [EXCLUSIVE, SubscriptionType.FAILOVER])
def test_other_types_deliver_at_once(kind: SubscriptionType) -> None:
    world = DelayedWorld()
    consumer = world.attach("s", 100, kind)
    entries = world.publish([60_000, None])
    assert positions(consumer) == entries


def test_every_subscription_gets_each_message_once() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    first, second = world.attach("a", 100), world.attach("b", 100)
    entries = world.publish([1_000, 2_000, 500])
    third = world.attach("c", 100)
    world.pass_(3_000)
    for consumer in (first, second, third):
        assert sorted(positions(consumer)) == entries


def test_due_messages_wait_for_permits_and_come_in_the_order_of_the_topic() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 1)
    world.publish([None])
    entries = world.publish([3_000, 2_000, 1_000])
    consumer.flow(1, world.now_ms)
    world.dispatch()
    world.pass_(5_000)
    assert len(positions(consumer)) == 2
    consumer.flow(10, world.now_ms)
    world.dispatch()
    sent = positions(consumer)
    assert len(sent) == 2 and sent == sorted(sent) and set(sent) < set(entries)


def test_a_type_change_gives_at_once_what_the_other_type_held_back() -> None:
    world = DelayedWorld()
    consumer = world.attach("s", 100)
    entries = world.publish([60_000, 120_000])
    world.detach("s", consumer)
    exclusive = world.attach("s", 100, EXCLUSIVE)
    assert positions(exclusive) == entries
    world.detach("s", exclusive)
    shared = world.attach("s", 100)
    assert positions(shared) == []
    world.pass_(130_000)
    assert positions(shared) == entries


def test_a_message_that_is_asked_for_again_comes_at_once() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 100)
    (entry,) = world.publish([1_000])
    world.pass_(1_500)
    assert positions(consumer) == [entry]
    world.subscriptions["s"].redeliver(consumer, [entry])
    world.dispatch()
    assert positions(consumer) == [entry]


def test_a_consumer_that_leaves_gives_back_what_was_due_and_nothing_else() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 100)
    due, later = world.publish([1_000, 50_000])
    world.pass_(1_500)
    world.detach("s", consumer)
    following = world.attach("s", 100)
    assert positions(following) == [due]
    world.pass_(60_000)
    assert positions(following) == [later]


def test_a_seek_back_delivers_what_was_due_and_waits_for_the_rest_once() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 100)
    due, later = world.publish([1_000, 50_000])
    world.pass_(1_500)
    positions(consumer)
    world.subscriptions["s"].reset(SeekTarget(world.ledger_list.before(due)))
    world.dispatch()
    assert positions(consumer) == [due]
    world.pass_(60_000)
    assert positions(consumer) == [later]
    assert world.subscriptions["s"].delayed_entries == 0


def test_a_message_acknowledged_while_it_waits_never_comes() -> None:
    """As by expiry or by skipping."""
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 100)
    entries = world.publish([1_000, 1_000, 1_000, 1_000])
    subscription = world.subscriptions["s"]
    subscription.acknowledge_up_to(entries[1], world.now_ms)
    subscription.acknowledge(None, entries[3].ledger_id, [entries[3].entry_id], world.now_ms)
    assert subscription.delayed_entries == 1
    world.pass_(5_000)
    assert positions(consumer) == [entries[2]]


def test_expiry_counts_from_the_time_of_publishing() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 100)
    world.publish([10_000])
    world.expired_before_ms = world.now_ms + 1
    world.pass_(20_000)
    assert positions(consumer) == [] and world.subscriptions["s"].entries_expired == 1
    assert world.subscriptions["s"].backlog_entries == 0


def test_without_room_reading_stops_and_continues_when_there_is_some() -> None:
    world = DelayedWorld(strict=True, tick_ms=10, room=3_000)
    consumer = world.attach("s", 10_000)
    first = world.publish([None] * 3 + [1_000] * 40)
    more = world.publish([60_000] * 40 + [None])
    last = world.publish([None])
    assert positions(consumer) == first[:3]
    assert world.delays.full
    world.room = 1 << 20
    world.pass_(10)
    assert positions(consumer) == [more[-1], *last]
    world.pass_(100_000)
    assert sorted(positions(consumer)) == sorted([*first[3:], *more[:-1]])


def test_a_subscription_that_comes_after_all_others_left_waits_for_what_they_waited_for() -> None:
    """The index belongs to the topic."""
    world = DelayedWorld()
    world.attach("a", 100)
    entries = world.publish([60_000] * 10)
    world.unsubscribe("a")
    consumer = world.attach("b", 100)
    assert positions(consumer) == [] and world.delays.entries
    world.pass_(61_000)
    assert positions(consumer) == entries
    world.unsubscribe("b")
    assert world.delays.memory_bytes == 0 and world.delays.wake_ms(world.now_ms, world.policy) is None


def test_seeks_do_not_collect_memory() -> None:
    world = DelayedWorld()
    world.attach("s", 100)
    world.publish([60_000] * 100)
    world.attach("other", 100)
    before = world.delays.memory_bytes
    for _ in range(10):
        world.subscriptions["s"].reset(SeekTarget(world.ledger_list.before(world.ledger_list.first)))
        world.dispatch()
    assert world.delays.memory_bytes == before


def test_a_seek_to_the_beginning_does_not_bring_back_what_a_deleted_ledger_held() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    world.attach("s", 100)
    (late,) = world.publish([60_000])
    world.roll()
    (kept,) = world.publish([None])
    subscription = world.subscriptions["s"]
    subscription.acknowledge_up_to(kept, world.now_ms)
    world.drop_first_ledger()
    for consumer in list(subscription.consumers):
        world.detach("s", consumer)
    subscription.reset(SeekTarget(EARLIEST))
    consumer = world.attach("s", 100)
    assert positions(consumer) == [kept] and subscription.delayed_entries == 0
    world.pass_(60_000)
    assert positions(consumer) == [] and world.delays.memory_bytes == 0, late


def test_a_due_message_that_is_acknowledged_is_not_asked_for_when_its_ledger_is_deleted() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 1)
    late, due = world.publish([1_000, 1_000])
    world.roll()
    world.pass_(1_000)
    assert positions(consumer) == [late]
    world.subscriptions["s"].acknowledge(consumer, due.ledger_id, [late.entry_id, due.entry_id], world.now_ms)
    (kept,) = world.publish([None])
    world.drop_first_ledger()
    consumer.flow(10, world.now_ms)
    world.dispatch()
    assert positions(consumer) == [kept] and world.delays.memory_bytes == 0


def test_turning_it_off_delivers_everything_and_turning_it_on_again_delays_what_comes_then() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 100)
    entries = world.publish([60_000, 86_400_000])
    world.policy = DelayPolicy(False, 1, True)
    world.wake()
    assert positions(consumer) == entries
    world.policy = DelayPolicy(True, 1, True)
    (later,) = world.publish([1_000])
    assert positions(consumer) == []
    world.pass_(1_100)
    assert positions(consumer) == [later]


def test_a_clock_that_is_set_back_delays_and_loses_nothing() -> None:
    world = DelayedWorld(strict=True, tick_ms=1)
    consumer = world.attach("s", 100)
    due, later = world.publish([1_000, 5_000])
    world.pass_(2_000)
    assert positions(consumer) == [due]
    world.now_ms -= 3_600_000
    world.wake()
    (after,) = world.publish([1_000])
    assert positions(consumer) == []
    world.pass_(3_700_000)
    assert sorted(positions(consumer)) == [later, after]
