"""Who is active in Failover: the examples of Pulsar's documentation, and what a Pulsar 4.0.8 broker chose for the same names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription_type import SubscriptionType
from tests.support.worlds.subscription_world import World, received, told

FAILOVER = SubscriptionType.FAILOVER


def joined(world: World, names: Sequence[str], priority: int = 0) -> dict[str, Consumer]:
    return {name: world.attach(FAILOVER, 100, name=name, priority=priority) for name in names}


def active(world: World) -> str:
    assert world.subscription.active is not None
    return world.subscription.active.name


def partitions(count: int) -> list[World]:
    return [World(topic=f"persistent://t/n/p-partition-{index}", partition=index) for index in range(count)]


@pytest.mark.parametrize("order", ["ABCD", "DCBA", "CADB"])
def test_two_partitions_and_four_consumers(order: str) -> None:
    """Each partition has one active consumer and three that stand by, in whatever order they came."""
    worlds = partitions(2)
    members = [joined(world, order) for world in worlds]
    assert [active(world) for world in worlds] == ["A", "B"]
    for world, consumers in zip(worlds, members, strict=True):
        world.detach(consumers["A"])
        world.detach(consumers["B"])
    assert [active(world) for world in worlds] == ["C", "D"]


def test_nine_partitions_and_three_consumers() -> None:
    worlds = partitions(9)
    for world in worlds:
        joined(world, "BCA")
    assert "".join(active(world) for world in worlds) == "ABCABCABC"


def test_only_the_lowest_priority_level_shares_the_partitions() -> None:
    worlds = partitions(4)
    members = [joined(world, "XY", priority=0) | joined(world, "AB", priority=1) for world in worlds]
    assert "".join(active(world) for world in worlds) == "XYXY"
    for world, consumers in zip(worlds, members, strict=True):
        world.detach(consumers["X"])
        world.detach(consumers["Y"])
    assert "".join(active(world) for world in worlds) == "ABAB"


@pytest.mark.parametrize("order", ["ABC", "CAB"])
def test_topics_without_partitions_are_spread_by_hashes(order: str) -> None:
    chosen = ""
    for number in range(1, 13):
        world = World(topic=f"persistent://public/default/fo-{number}")
        joined(world, [f"consumer-{letter}" for letter in order])
        chosen += active(world)[-1]
    assert chosen == "CCAAABACABBC"  # as Pulsar 4.0.8 answered


def test_a_level_counts_before_the_ring() -> None:
    world = World(topic="persistent://public/default/fo-1")
    joined(world, ["consumer-C"], priority=1)
    joined(world, ["consumer-A", "consumer-B"])
    assert active(world) != "consumer-C"


def test_of_two_with_one_name_the_newer_is_active() -> None:
    """They share their points on the ring, and Pulsar lets the last one have them."""
    world = World()
    first = world.attach(FAILOVER, 100, name="same")
    second = world.attach(FAILOVER, 100, name="same")
    assert world.subscription.active is second
    world.detach(second)
    assert world.subscription.active is first


def test_messages_that_the_former_did_not_acknowledge_go_to_the_next_in_order() -> None:
    world = World(topic="persistent://public/default/fo-1")
    consumers = joined(world, ["consumer-A", "consumer-C"])
    entries = world.publish([1] * 5)
    assert received(consumers["consumer-C"]) == entries
    world.ack(consumers["consumer-C"], entries[0], entries[3])
    told(consumers["consumer-A"])
    world.detach(consumers["consumer-C"])
    assert told(consumers["consumer-A"]) == [True]
    assert received(consumers["consumer-A"]) == [entries[1], entries[2], entries[4]]
