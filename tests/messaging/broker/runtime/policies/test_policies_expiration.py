"""Subscriptions that nobody uses are deleted at their time, and idle topics leave the memory."""

from __future__ import annotations

import pytest

from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import EARLIEST
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.unused_topic import MINUTE_MS, TOPIC, exists, left, published, unloaded, upkeep
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld


@pytest.fixture
def clock(world: BrokerWorld) -> Clock:
    clock = Clock()
    give(world.service, clock)
    return clock


@pytest.mark.parametrize("loaded", [True, False])
async def test_policy_subscription_expiration_min_deletes_subscriptions_without_consumers(
    world: BrokerWorld, clock: Clock, loaded: bool
) -> None:
    await set_policies(world, subscription_expiration_min=10)
    client = await published(world, "old", "used", count=2)
    await client.subscribe(TOPIC, "used", 5)
    clock.pass_(6 * MINUTE_MS)
    client.say(pb.Command.CLOSE_CONSUMER, consumer_id=5)
    await client.expect("SUCCESS")
    await left(client)
    if not loaded:
        await unloaded(world)
    clock.pass_(4 * MINUTE_MS - 1)
    assert (await upkeep(world)).expired_subscriptions == 0
    clock.pass_(1)
    assert (await upkeep(world)).expired_subscriptions == 1
    assert [one.name for one in await world.meta.subscriptions(TOPIC)] == ["used"]
    clock.pass_(6 * MINUTE_MS - 1)
    assert (await upkeep(world)).expired_subscriptions == 0
    clock.pass_(1)
    assert (await upkeep(world)).expired_subscriptions == 1
    assert await exists(world)


async def test_one_with_a_consumer_never_expires(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, subscription_expiration_min=1)
    client = await published(world)
    await client.subscribe(TOPIC, "s", 5)
    clock.pass_(100 * MINUTE_MS)
    assert (await upkeep(world)).expired_subscriptions == 0


async def test_one_that_was_created_while_its_topic_was_not_loaded_counts_from_then(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, subscription_expiration_min=10)
    await left(await published(world))
    await unloaded(world)
    clock.pass_(9 * MINUTE_MS)
    fence = world.service.storage.fence
    await world.meta.create_subscription(fence, TOPIC, "late", created_ms=clock.now_ms, mark_delete=EARLIEST, properties={})
    clock.pass_(10 * MINUTE_MS - 1)
    assert (await upkeep(world)).expired_subscriptions == 0
    clock.pass_(1)
    assert (await upkeep(world)).expired_subscriptions == 1


# --- memory ---


async def test_idle_topics_are_unloaded_from_memory(make_world: MakeWorld) -> None:
    world = await make_world(idle_topic_unload_s=60)
    clock = Clock()
    give(world.service, clock)
    client = await published(world, "s")
    clock.pass_(1_000_000)
    assert (await upkeep(world)).unloaded_topics == 0
    await left(client)
    clock.pass_(59_999)
    assert (await upkeep(world)).unloaded_topics == 0
    clock.pass_(1)
    assert (await upkeep(world)).unloaded_topics == 1
    assert world.service.topics.loaded == {}
    await client.producer(TOPIC, 2)
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 1


async def test_or_never(make_world: MakeWorld) -> None:
    world = await make_world(idle_topic_unload_s=0)
    clock = Clock()
    give(world.service, clock)
    await left(await published(world))
    clock.pass_(10**9)
    assert (await upkeep(world)).unloaded_topics == 0
    assert TOPIC in world.service.topics.loaded
