"""Policies that a single subscription has, beside those of its topic and namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.brokers.virtual_broker import TOPIC, VirtualClient, VirtualWorld, virtually

MANY = 1_000_000


async def consuming(world: VirtualWorld, name: str) -> VirtualClient:
    client = world.client()
    await client.subscribe(TOPIC, subscription=name)
    client.flow(MANY)
    return client


async def say(world: VirtualWorld, **policies: Any) -> None:
    """Of the subscription ``slow``."""
    state = {"subscriptions": {"slow": policies}} if policies else None
    await world.feed(("topic", TOPIC, state))


@virtually()
async def test_a_dispatch_rate_of_one_subscription_leaves_the_others_alone(world: VirtualWorld) -> None:
    producer = world.client()
    await producer.open_producer(TOPIC)
    slow, free = await consuming(world, "slow"), await consuming(world, "free")
    await say(world, subscription_dispatch_rate_messages=10)
    for first in range(0, 2000, 500):
        producer.publish(first, first + 500, b"x")
        await world.pass_s(0)
    assert await world.received(slow, 10) == pytest.approx(100, abs=3)
    free.read()
    assert free.messages[1] == 2000
    await say(world, subscription_dispatch_rate_messages=100)
    assert await world.received(slow, 5) == pytest.approx(500, rel=0.03)
    await say(world)
    await world.pass_s(1)
    slow.read()
    assert slow.messages[1] == 2000


@virtually()
async def test_a_subscription_may_have_more_than_its_namespace_gives_the_others(world: VirtualWorld) -> None:
    producer = world.client()
    await producer.open_producer(TOPIC)
    await world.set_policies(subscription_dispatch_rate_messages=10)
    await say(world, subscription_dispatch_rate_messages=50)
    one, other = await consuming(world, "slow"), await consuming(world, "other")
    producer.publish(0, 1000, b"x")
    await world.pass_s(10)
    for client in (one, other):
        client.read()
    assert one.messages[1] == pytest.approx(500, rel=0.03)
    assert other.messages[1] == pytest.approx(100, abs=3)
