"""Subscriptions of non-persistent topics: who is sent what is published, and what is dropped."""

from __future__ import annotations

import pytest

from messaging.broker.core.diagnosis.explain import DeliveryState, Reason, explain
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.errors import ConsumerBusy
from tests.support.worlds.dropping_world import DroppingWorld

ALL = list(SubscriptionType)


@pytest.mark.parametrize("kind", ALL)
def test_messages_with_permits_are_sent_and_the_rest_are_dropped(kind: SubscriptionType) -> None:
    world = DroppingWorld()
    consumer = world.attach(kind, permits=3)
    world.publish(1, 1)
    world.publish(1, 1, 1)
    assert (world.received[consumer], world.subscription.messages_dropped) == ([0, 1, 2], 2)
    world.flow(consumer, 10)  # what was dropped does not come back
    assert world.received[consumer] == [0, 1, 2]
    world.publish(1)
    assert world.received[consumer] == [0, 1, 2, 5]


@pytest.mark.parametrize("kind", ALL)
def test_a_consumer_that_does_not_read_is_sent_nothing(kind: SubscriptionType) -> None:
    world = DroppingWorld()
    consumer = world.attach(kind, permits=10)
    world.read(consumer, False)
    world.publish(1, 1)
    world.read(consumer, True)
    world.publish(1)
    assert (world.received[consumer], world.subscription.messages_dropped) == ([2], 2)


@pytest.mark.parametrize("kind", ALL)
def test_batches_go_whole_and_may_use_more_permits_than_there_are(kind: SubscriptionType) -> None:
    world = DroppingWorld()
    consumer = world.attach(kind, permits=1)
    world.publish(5, 1)
    assert (world.received[consumer], consumer.permits, world.subscription.messages_dropped) == ([0], -4, 1)
    assert (consumer.messages_out, consumer.entries_out, world.subscription.messages_out) == (5, 1, 5)


@pytest.mark.parametrize("kind", ALL)
def test_nothing_is_held(kind: SubscriptionType) -> None:
    world = DroppingWorld()
    consumer = world.attach(kind, permits=10)
    world.publish(1, 2, 1)
    assert consumer.held == {} and consumer.unacked_messages == 0 and not consumer.held_batches
    assert (world.subscription.unacked_of(consumer), world.subscription.acknowledged_messages(consumer)) == (0, 0)
    assert world.subscription.backlog_entries == 0 and world.subscription.next_due() is None
    world.subscription.redeliver(consumer, None)
    world.detach(consumer)
    later = world.attach(kind, permits=10)
    assert world.received[later] == [] and world.subscription.next_due() is None


def test_without_consumers_nothing_is_sent() -> None:
    world = DroppingWorld()
    assert world.publish(1, 1) == []
    assert world.subscription.messages_dropped == 2


def test_shared_consumers_take_turns_with_every_entry() -> None:
    world = DroppingWorld()
    first, second, third = (world.attach(permits=100) for _ in range(3))
    world.publish(*[1] * 4)
    world.publish(*[1] * 4)
    assert [world.received[consumer] for consumer in (first, second, third)] == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_shared_goes_on_with_those_that_have_permits_left() -> None:
    world = DroppingWorld()
    few, many = world.attach(permits=1), world.attach(permits=5)
    world.publish(*[1] * 8)
    assert (world.received[few], world.received[many], world.subscription.messages_dropped) == ([0], [1, 2, 3, 4, 5], 2)


def test_batches_of_a_shared_subscription_take_turns_too() -> None:
    world = DroppingWorld()
    first, second = world.attach(permits=4), world.attach(permits=100)
    world.publish(3, 2, 3, 1, 1)
    assert (world.received[first], world.received[second]) == ([0, 2], [1, 3, 4])
    assert (first.permits, second.permits) == (-2, 96)


def test_the_lower_priority_level_is_sent_messages_first() -> None:
    world = DroppingWorld()
    second, first = world.attach(permits=5, priority=1), world.attach(permits=2, priority=0)
    world.publish(*[1] * 4)
    assert (world.received[first], world.received[second]) == ([0, 1], [2, 3])


def test_exclusive_takes_one_consumer_and_failover_sends_to_the_active_one() -> None:
    world = DroppingWorld()
    world.attach(SubscriptionType.EXCLUSIVE)
    with pytest.raises(ConsumerBusy):
        world.attach(SubscriptionType.EXCLUSIVE)
    world = DroppingWorld(partition=0)
    b, a = (world.attach(SubscriptionType.FAILOVER, permits=2, name=name) for name in "ba")
    world.publish(1, 1, 1)
    assert (world.received[a], world.received[b], world.subscription.messages_dropped) == ([0, 1], [], 1)
    world.detach(a)
    world.publish(1)
    assert world.received[b] == [3]


def test_a_key_belongs_to_one_consumer_and_is_dropped_when_that_one_cannot_take_it() -> None:
    world = DroppingWorld()
    consumers = [world.attach(SubscriptionType.KEY_SHARED, permits=1000) for _ in range(3)]
    keys = [f"k{index % 10}" for index in range(100)]
    world.publish(*[1] * 100, keys=keys)
    owners = {key: {c.name for c in consumers for index in world.received[c] if keys[index] == key} for key in keys}
    assert all(len(owner) == 1 for owner in owners.values()) and len(set.union(*owners.values())) == 3
    assert sum(len(world.received[consumer]) for consumer in consumers) == 100
    stalled = consumers[0]
    world.read(stalled, False)
    world.publish(*[1] * 100, keys=keys)
    lost = sum(owners[key] == {stalled.name} for key in keys)
    assert lost > 0 and world.subscription.messages_dropped == lost
    assert sum(len(world.received[consumer]) for consumer in consumers) == 200 - lost


def test_a_key_changes_hands_at_once() -> None:
    """Nobody holds anything, so that nothing has to wait until its former owner has acknowledged."""
    world = DroppingWorld()
    first = world.attach(SubscriptionType.KEY_SHARED, permits=1000)
    keys = [f"k{index}" for index in range(100)]
    world.publish(*[1] * 100, keys=keys)
    second = world.attach(SubscriptionType.KEY_SHARED, permits=1000)
    world.publish(*[1] * 100, keys=keys)
    assert len(world.received[first]) + len(world.received[second]) == 200 and len(world.received[second]) > 10
    world.detach(first)
    world.publish(*[1] * 100, keys=keys)
    assert world.subscription.messages_dropped == 0


def test_hashes_that_nobody_asked_for_are_dropped() -> None:
    world = DroppingWorld()
    consumer = world.attach(SubscriptionType.KEY_SHARED, permits=1000)
    world.detach(consumer)
    consumer.key_shared = KeySharedMode(True, False, ((0, 32_767),))
    world.subscription.admit(consumer, SubscriptionType.KEY_SHARED)
    world.subscription.attach(consumer, SubscriptionType.KEY_SHARED)
    keys = [f"k{index}" for index in range(200)]
    world.publish(*[1] * 200, keys=keys)
    assert 0 < len(world.received[consumer]) < 200
    assert world.subscription.messages_dropped == 200 - len(world.received[consumer])


@pytest.mark.parametrize("kind", ALL)
def test_it_is_explained(kind: SubscriptionType) -> None:
    world = DroppingWorld()
    consumer = world.attach(kind, permits=1, name="me")
    world.publish(1)
    (finding,) = explain(world.subscription, DeliveryState())
    assert finding.reason is Reason.NO_PERMITS and "'me' has not asked" in finding.sentence and "dropped" in finding.sentence
    world.publish(1, 1)
    world.flow(consumer, 10)
    (finding,) = explain(world.subscription, DeliveryState())
    assert finding.reason is Reason.DELIVERING and "2 messages were dropped" in finding.sentence
    world.read(consumer, False)
    assert explain(world.subscription, DeliveryState())[0].reason is Reason.NOT_READING
