"""How many messages a consumer has acknowledged, without a count on the way of acknowledgements."""

from __future__ import annotations

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription_type import SubscriptionType
from tests.support.worlds.subscription_world import World

KINDS = [SubscriptionType.SHARED, SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 10])
def test_messages_sent_and_neither_open_nor_wanted_again_are_acknowledged(kind: SubscriptionType, size: int) -> None:
    world = World()
    consumer = world.attach(kind, 1_000)
    first, second, third, _ = world.publish([size] * 4)

    def counted(consumer: Consumer) -> int:
        return world.subscription.acknowledged_messages(consumer)

    assert counted(consumer) == 0
    world.ack(consumer, first, third)
    assert counted(consumer) == 2 * size
    world.nack(consumer)  # the two others come again
    assert consumer.messages_redelivered == 2 * size
    assert counted(consumer) == 2 * size
    world.ack(consumer, second)
    assert counted(consumer) == 3 * size
    world.ack(consumer, second)  # twice is once
    assert counted(consumer) == 3 * size


def test_messages_nacked_from_shared_are_not_acknowledged() -> None:
    world = World()
    consumer = world.attach(SubscriptionType.SHARED, 1_000)
    first, _ = world.publish([5, 3])
    world.nack(consumer, first)
    assert (consumer.messages_redelivered, world.subscription.acknowledged_messages(consumer)) == (5, 0)


def test_a_consumer_that_waits_in_failover_has_acknowledged_nothing() -> None:
    world = World()
    active, waiting = world.attach(SubscriptionType.FAILOVER, 10), world.attach(SubscriptionType.FAILOVER, 10)
    (position,) = world.publish([1])
    world.ack(active, position)
    assert [world.subscription.acknowledged_messages(who) for who in (active, waiting)] == [1, 0]
