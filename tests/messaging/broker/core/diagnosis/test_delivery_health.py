"""The health of a subscription: one verdict, which a moment does not change."""

from __future__ import annotations

import pytest

from messaging.broker.core.diagnosis.delivery_health import STILL_MS, DeliveryHealth, blocked_for_ms, judge_delivery, worse
from messaging.broker.core.diagnosis.explain import DeliveryState, Reason
from messaging.broker.core.subscription_type import SubscriptionType
from tests.support.worlds.subscription_world import World, received

EXCLUSIVE, SHARED, FAILOVER = SubscriptionType.EXCLUSIVE, SubscriptionType.SHARED, SubscriptionType.FAILOVER
KEY_SHARED = SubscriptionType.KEY_SHARED


def judged(world: World, after_ms: int = 0) -> tuple[str, Reason]:
    world.now_ms += after_ms
    health, finding = judge_delivery(world.subscription, DeliveryState(now_ms=world.now_ms))
    return health.value, finding.reason


def test_without_consumers_it_is_abandoned_once_there_is_a_backlog() -> None:
    world = World()
    assert judged(world) == ("idle", Reason.NOTHING)
    world.publish([1])
    assert judged(world) == ("abandoned", Reason.NO_CONSUMER)


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
@pytest.mark.parametrize("published", [5, 8])  # exactly what was asked for, and more
def test_a_consumer_that_holds_all_it_asked_for_and_takes_no_more_blocks(kind: SubscriptionType, published: int) -> None:
    world = World()
    consumer = world.attach(kind, permits=5)
    positions = world.publish_keyed([f"k{index}" for index in range(published)])
    assert judged(world, STILL_MS - 1) == ("good", Reason.DELIVERING)
    assert judged(world, 1) == ("blocked", Reason.SENT if published == 5 else Reason.NO_PERMITS)
    world.ack(consumer, positions[0])
    assert judged(world)[0] == "good"
    assert judged(world, STILL_MS)[0] == "blocked"
    world.flow(consumer, 10)
    assert judged(world, STILL_MS)[0] == "good"  # it asked for more than there is


def test_a_consumer_at_the_limit_of_unacknowledged_messages_blocks() -> None:
    world = World(unacked_max=2)
    world.attach(SHARED, permits=10)
    world.publish([1] * 3)
    assert judged(world, STILL_MS) == ("blocked", Reason.CONSUMER_LIMIT)


def test_a_subscription_is_not_blocked_while_another_consumer_takes_messages() -> None:
    world = World()
    world.attach(SHARED, permits=1, name="stuck")
    world.publish([1])
    assert judged(world, STILL_MS)[0] == "blocked"
    world.attach(SHARED, permits=10, name="works")
    assert judged(world, STILL_MS)[0] == "good"


def test_a_standby_changes_nothing() -> None:
    world = World()
    world.attach(FAILOVER, permits=1, name="active")
    world.attach(FAILOVER, permits=10, name="standby")
    world.publish([1, 1])
    assert judged(world, STILL_MS)[0] == "blocked"


def test_a_moment_without_delivery_is_no_advice() -> None:
    """A consumer that keeps up was told to acknowledge, to add consumers and to wait, in turns, once a second."""
    world = World()
    consumer = world.attach(SHARED, permits=1)
    for _ in range(100):
        (position,) = world.publish([1])
        assert judged(world) == ("good", Reason.DELIVERING)  # it is sent and not acknowledged: it has no permits
        world.publish([1])
        assert judged(world, 500) == ("good", Reason.DELIVERING)  # the next one waits for it
        world.flow(consumer, 1)
        world.ack(consumer, position, *[received_position for received_position, _ in consumer.sink.received])  # type: ignore[attr-defined]
        assert judged(world, 500) == ("good", Reason.NOTHING)
        world.flow(consumer, 1)


def test_a_consumer_with_nothing_to_do_is_well() -> None:
    world = World()
    world.attach(SHARED, permits=0)
    assert judged(world, 10 * STILL_MS) == ("good", Reason.NOTHING)


def test_messages_that_nobody_acknowledges_are_said_of_after_a_while() -> None:
    world = World()
    world.attach(SHARED, permits=10)
    world.publish([1])
    assert judged(world) == ("good", Reason.DELIVERING)
    assert judged(world, STILL_MS) == ("good", Reason.SENT)


def test_the_health_of_partitions_is_that_of_the_worst() -> None:
    order = ["good", "idle", "blocked", "abandoned"]
    assert [health.value for health in DeliveryHealth] == order
    assert worse("blocked", "good") == worse("good", "blocked") == "blocked"
    assert worse("abandoned", "blocked") == "abandoned"


def test_one_consumer_of_keys_that_takes_no_more_blocks_although_others_go_on() -> None:
    """Its keys waited for ever, and nothing was said: the other consumer took all that was for it."""
    world = World()
    stuck = world.attach(KEY_SHARED, permits=2, name="stuck")
    other = world.attach(KEY_SHARED, permits=500, name="other")
    keys = [f"k{index}" for index in range(40)]
    world.publish_keyed(keys)
    assert judged(world, STILL_MS - 1)[0] == "good"
    began_ms = world.now_ms - STILL_MS + 1
    world.ack(other, *received(other))
    world.publish_keyed(keys)
    world.now_ms += 1
    health, finding = judge_delivery(world.subscription, DeliveryState(now_ms=world.now_ms))
    assert (health, finding.reason, finding.consumer) == (DeliveryHealth.BLOCKED, Reason.NO_PERMITS, "stuck")
    assert "for the consumers of their keys" in finding.sentence
    assert blocked_for_ms(world.subscription, world.now_ms) == world.now_ms - began_ms
    world.flow(stuck, 500)
    assert judged(world)[0] == "good"
